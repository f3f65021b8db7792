"""Whoever reads the output may leave: the work goes on, and its status is that of the work."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from radial_vicreg import cli
from radial_vicreg.streams import LastingStream, lasting_streams


class Refusing(io.StringIO):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def write(self, text: str) -> int:
        raise self.error


@pytest.mark.parametrize("error", [BrokenPipeError(), OSError(28, "No space left"), ValueError("closed file")])
def test_a_stream_that_cannot_be_written_is_passed_over(error: Exception) -> None:
    assert LastingStream(Refusing(error)).write("text") == 4


def test_what_an_encoding_lacks_is_replaced() -> None:
    raw = io.BytesIO()
    terminal = io.TextIOWrapper(raw, encoding="ascii", write_through=True)
    LastingStream(terminal).write("2 ± 1")
    assert raw.getvalue() == b"2 ? 1"


def test_streams_that_are_closed_from_the_start_lead_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    with lasting_streams():
        print("text")
        assert not sys.stderr.isatty()
    assert sys.stdout is None


def test_a_command_whose_reader_has_left_ends_with_its_own_status() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "radial_vicreg.cli"]
    assert subprocess.run([*command, "sweep", "cifar100_resnet18_d512", "--list"], stdout=writing).returncode == 0
    assert subprocess.run([*command, "sweep", "no such sweep"], stderr=writing).returncode == 2
    os.close(writing)


def test_a_training_whose_reader_has_left_goes_on_to_its_end(tiny_overrides: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "radial_vicreg.cli", "pretrain", *tiny_overrides, "host=standalone"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        status = process.wait()
    assert status == 0
    (results,) = (tmp_path / "runs").glob("*/*/results.json")
    assert json.loads(results.read_text())["status"] == "finished"


def test_a_figure_that_cannot_be_drawn_does_not_end_the_run(
    tiny_overrides: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from radial_vicreg.train.radii import RadiusMonitor

    def broken(self: RadiusMonitor, folder: str) -> Any:
        raise RuntimeError("no fonts")

    monkeypatch.setattr(RadiusMonitor, "draw", broken)
    with pytest.warns(UserWarning, match="was not drawn.*no fonts"):
        assert cli.main(["pretrain", *tiny_overrides, "host=standalone"]) == 0
    (results,) = (tmp_path / "runs").glob("*/*/results.json")
    assert json.loads(results.read_text())["status"] == "finished"
