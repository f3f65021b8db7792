"""The Hydra plug-in, in processes of their own as users meet it."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Run = Callable[..., CompletedProcess[str]]

OTHER_APPLICATION = """
import hydra, json, sys

@hydra.main(version_base="1.2", config_path="conf", config_name="config")
def main(cfg):
    print(json.dumps({"cfg": dict(cfg), "torch": "torch" in sys.modules, "solo": "solo" in sys.modules,
                      "ours": sorted(name for name in sys.modules if name.startswith("radial_vicreg"))}))

main()
"""


@pytest.fixture
def other_application(tmp_path: Path) -> Path:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "config.yaml").write_text("a: 1\nhydra: {output_subdir: null, run: {dir: .}}\n")
    (tmp_path / "app.py").write_text(OTHER_APPLICATION)
    return tmp_path / "app.py"


def test_other_hydra_applications_get_a_search_path_and_nothing_else(run_python: Run, other_application: Path) -> None:
    done = run_python(str(other_application))
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["cfg"] == {"a": 1}
    assert not seen["torch"]
    assert not seen["solo"]
    assert not [name for name in seen["ours"] if name.startswith("radial_vicreg.hosts")]


def test_the_search_path_is_appended_last_so_that_an_applications_own_files_win(
    run_python: Run, other_application: Path
) -> None:
    (other_application.parent / "conf" / "radialvicreg.yaml").write_text("mine: true\n")
    done = run_python(
        str(other_application), "--config-name", "radialvicreg", "hydra.run.dir=.", "hydra.output_subdir=null"
    )
    assert json.loads(done.stdout)["cfg"] == {"mine": True}


def test_configurations_resolve_without_a_config_path(run_python: Run, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        'import hydra\n@hydra.main(version_base="1.2")\ndef main(cfg):\n    print(cfg.method, cfg.max_epochs)\nmain()\n'
    )
    done = run_python(str(tmp_path / "app.py"), "--config-name", "radialvicreg", "max_epochs=7")
    assert done.stdout.split() == ["radialvicreg", "7"], done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["app.py"]  # no outputs folder, no log file


def test_the_entry_point_of_hydra_1_4_is_declared_as_well() -> None:
    (point,) = [point for point in metadata.entry_points(group="hydra.plugins") if point.name == "radial_vicreg"]
    assert point.load().RadialVICRegSearchPath


def test_the_losses_import_no_more_than_torch_numpy_and_scipy(run_python: Run) -> None:
    code = (
        "import sys, radial_vicreg.losses; "
        "print([m for m in ('lightning', 'timm', 'torchvision', 'hydra', 'matplotlib', 'sklearn') if m in sys.modules])"
    )
    assert run_python("-c", code).stdout.strip() == "[]"
