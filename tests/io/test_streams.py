"""Whoever reads the output may leave: the work goes on, and its status is that of the work."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers import only_run, read_results

from radial_vicreg import cli
from radial_vicreg.io.streams import LastingStream, lasting_streams


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


@pytest.mark.parametrize(
    ("done", "refused"),
    [
        (["--help"], ["pretran"]),  # without PyTorch, which takes seconds
        pytest.param(["sweep", "tables/figure4", "--list"], ["sweep", "no such sweep"], marks=pytest.mark.slow),
    ],
    ids=["light", "heavy"],
)
def test_a_command_whose_reader_has_left_ends_with_its_own_status(done: list[str], refused: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "radial_vicreg.cli"]
    assert subprocess.run([*command, *done], stdout=writing).returncode == 0
    assert subprocess.run([*command, *refused], stderr=writing).returncode == 2
    os.close(writing)


@pytest.mark.slow
def test_a_training_whose_reader_has_left_goes_on_to_its_end(tiny_overrides: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "radial_vicreg.cli", "pretrain", *tiny_overrides, "host=standalone"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        status = process.wait()
    assert status == 0
    assert read_results(only_run(tmp_path / "runs"))["status"] == "finished"


def test_a_figure_that_cannot_be_drawn_does_not_end_the_run(
    tiny_overrides: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from radial_vicreg.train.callbacks.radius_monitor import RadiusMonitor

    def broken(self: RadiusMonitor, folder: str) -> Any:
        raise RuntimeError("no fonts")

    monkeypatch.setattr(RadiusMonitor, "draw", broken)
    with pytest.warns(UserWarning, match="was not plotted.*no fonts"):
        assert cli.main(["pretrain", *tiny_overrides, "host=standalone"]) == 0
    assert read_results(only_run(tmp_path / "runs"))["status"] == "finished"
