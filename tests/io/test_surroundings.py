"""What surrounds a command: readers that leave, warnings, a notebook's environment, a disk that is read-only."""

from __future__ import annotations

import importlib.util
import io
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import only_run, read_results
from torch.utils.data import DataLoader

from radial_vicreg import cli
from radial_vicreg.cli import COMMANDS
from radial_vicreg.io.notices import Notice, ignore_library_deprecations, warn
from radial_vicreg.io.streams import LastingStream, lasting_streams
from radial_vicreg.paper.synthetic import jit


class Refusing(io.StringIO):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def write(self, text: str) -> int:
        raise self.error


def test_a_stream_that_cannot_be_written_is_passed_over_and_what_an_encoding_lacks_is_replaced() -> None:
    for error in (BrokenPipeError(), OSError(28, "No space left"), ValueError("closed file")):
        assert LastingStream(Refusing(error)).write("text") == 4
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
    assert subprocess.run([*command, "--help"], stdout=writing).returncode == 0
    assert subprocess.run([*command, "pretran"], stderr=writing).returncode == 2
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


# ---- warnings ----


def shown(category: type[Warning]) -> str:
    return warnings.formatwarning("something", category, "module.py", 7, "    warnings.warn('something')")


def test_a_notice_is_one_line_and_other_warnings_keep_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.warns(Notice, match="something"):
        warn("something")
    assert shown(Notice) == "warning: something\n"
    assert shown(UserWarning) == "module.py:7: UserWarning: something\n  warnings.warn('something')\n"
    monkeypatch.setattr(warnings, "formatwarning", lambda *_: "theirs")  # as Lightning does when it is imported
    with pytest.warns(Notice):
        warn("something")
    assert shown(Notice) == "warning: something\n"
    assert shown(UserWarning) == "theirs"


@pytest.mark.parametrize("category", [DeprecationWarning, PendingDeprecationWarning, FutureWarning])
def test_deprecations_of_libraries_are_not_shown(category: type[Warning], recwarn: pytest.WarningsRecorder) -> None:
    warnings.simplefilter("default")
    ignore_library_deprecations()
    warnings.warn("`isinstance(treespec, LeafSpec)` is deprecated", category, stacklevel=1)
    DataLoader([1], num_workers=1000)  # PyTorch warns of more workers than cores, for every loader
    warnings.warn("radial_vicreg.hosts.solo is radial_vicreg.solo now", DeprecationWarning, stacklevel=1)
    assert [str(entry.message).split()[0] for entry in recwarn] == ["radial_vicreg.hosts.solo"]


def test_whoever_asks_python_for_warnings_gets_all_of_them(
    monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.setattr(sys, "warnoptions", ["default"])
    warnings.simplefilter("default")
    ignore_library_deprecations()
    warnings.warn("old", DeprecationWarning, stacklevel=1)
    assert len(recwarn) == 1


# ---- the environment ----

EVERY_COMMAND = """
import importlib, sys
from radial_vicreg import cli
for command in cli.COMMANDS:
    assert cli.main([command, "--help"]) == 0, command
import matplotlib, torchmetrics  # as most commands do
from radial_vicreg.figures import new_figure, save_figure
save_figure(new_figure()[0], sys.argv[1])
assert matplotlib.get_backend() == "agg", matplotlib.get_backend()
assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()
"""


@pytest.mark.slow
def test_a_notebook_s_backend_stops_no_command_and_no_figure(
    run_python: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    backend = "module://matplotlib_inline.backend_inline"
    if importlib.util.find_spec("matplotlib_inline") is not None:
        backend = "module://absent_inline.backend_inline"  # matplotlib can be imported then, and fails at the figure
    done = run_python("-c", EVERY_COMMAND, str(tmp_path / "figure"), MPLBACKEND=backend)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert all(command in done.stdout for command in COMMANDS)


def test_kernels_are_compiled_where_numba_finds_no_place_for_its_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    caching = pytest.importorskip("numba.core.caching")
    monkeypatch.setattr(caching.FunctionCache._impl_class, "_locator_classes", [])
    assert jit.compiled(_square)(3.0) == 9.0


def _square(x: float) -> float:
    return x * x
