"""``from radial_vicreg import RadialVICRegLoss``, and ``import radial_vicreg`` without PyTorch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import radial_vicreg


def test_the_package_and_its_command_line_load_without_pytorch() -> None:
    code = (
        "import sys, radial_vicreg, radial_vicreg.cli\n"
        "names = 'torch', 'numpy', 'scipy', 'lightning', 'radial_vicreg.losses'\n"
        "print(radial_vicreg.__version__, [name for name in names if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.split(maxsplit=1) == [radial_vicreg.__version__, "[]\n"], done.stderr


def test_the_package_has_the_loss_and_no_other_name() -> None:
    from radial_vicreg import RadialVICRegLoss
    from radial_vicreg.losses import RadialVICRegLoss as TheClass

    assert RadialVICRegLoss is TheClass
    assert {"RadialVICRegLoss", "__version__"} <= set(dir(radial_vicreg))
    with pytest.raises(AttributeError, match="module 'radial_vicreg' has no attribute 'RadialLoss'"):
        _ = radial_vicreg.RadialLoss


@pytest.mark.slow
def test_type_checkers_see_the_class(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    asked = tmp_path / "asked.py"
    asked.write_text("from radial_vicreg import RadialVICRegLoss; reveal_type(RadialVICRegLoss(seed=1))")
    package = Path(radial_vicreg.__file__).parent
    files = [package / "__init__.py", package / "losses" / "__init__.py", package / "losses" / "objective.py", asked]
    # Without what these import, PyTorch above all, which takes a quarter of a minute to check.
    options = ["--config-file=", "--follow-imports=skip", "--ignore-missing-imports", f"--cache-dir={os.devnull}"]
    done = subprocess.run([sys.executable, "-m", "mypy", *options, *map(str, files)], capture_output=True, text=True)
    expected = 'Revealed type is "radial_vicreg.losses.objective.RadialVICRegLoss"'
    assert expected in done.stdout, done.stdout + done.stderr
