"""Commands start in surroundings that others have left: a notebook's environment, a disk that is read-only."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from radial_vicreg.cli import COMMANDS

SYNTHETIC = ["synthetic", "distribution=gaussian", "num_samples=20", "steps=2", "snapshots=1"]
NO_CACHE = """
import sys
from numba.core import caching
caching.FunctionCache._impl_class._locator_classes = []  # as where nothing is writable
from radial_vicreg import cli
sys.exit(cli.main(sys.argv[1:]))
"""
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


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    settings = {**os.environ, **environment}
    return subprocess.run([sys.executable, *arguments], env=settings, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_notebook_s_backend_stops_no_command_and_no_figure(tmp_path: Path) -> None:
    backend = "module://matplotlib_inline.backend_inline"
    if importlib.util.find_spec("matplotlib_inline") is not None:
        backend = "module://absent_inline.backend_inline"  # matplotlib can be imported then, and fails at the figure
    done = python("-c", EVERY_COMMAND, str(tmp_path / "figure"), MPLBACKEND=backend)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert all(command in done.stdout for command in COMMANDS)


def test_kernels_are_compiled_where_numba_finds_no_place_for_its_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    caching = pytest.importorskip("numba.core.caching")
    from radial_vicreg.paper.synthetic.jit import compiled

    monkeypatch.setattr(caching.FunctionCache._impl_class, "_locator_classes", [])
    assert compiled(_square)(3.0) == 9.0


@pytest.mark.slow
def test_synthetic_experiments_run_where_numba_finds_no_place_for_its_cache(tmp_path: Path) -> None:
    done = python("-c", NO_CACHE, *SYNTHETIC, f"out={tmp_path / 'run'}", MPLBACKEND="nonsense")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "run.png").is_file()


def _square(x: float) -> float:
    return x * x
