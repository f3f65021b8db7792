"""Commands start in surroundings that others have left: a notebook's environment, a disk that is read-only."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from radial_vicreg.cli import COMMANDS
from radial_vicreg.paper.synthetic import jit

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
    run_python: Callable[..., CompletedProcess[str]], tmp_path: Path
) -> None:
    backend = "module://matplotlib_inline.backend_inline"
    if importlib.util.find_spec("matplotlib_inline") is not None:
        backend = "module://absent_inline.backend_inline"  # matplotlib can be imported then, and fails at the figure
    done = run_python("-c", EVERY_COMMAND, str(tmp_path / "figure"), MPLBACKEND=backend)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert all(command in done.stdout for command in COMMANDS)


def test_every_kernel_is_compiled_by_one_module() -> None:
    package = Path(jit.__file__).parents[2]
    assert [file.name for file in package.rglob("*.py") if "numba.njit" in file.read_text()] == ["jit.py"]


def test_kernels_are_compiled_where_numba_finds_no_place_for_its_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    caching = pytest.importorskip("numba.core.caching")
    monkeypatch.setattr(caching.FunctionCache._impl_class, "_locator_classes", [])
    assert jit.compiled(_square)(3.0) == 9.0


def _square(x: float) -> float:
    return x * x
