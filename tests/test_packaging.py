"""What an installed wheel holds. The editable installation is the one that every other test runs in."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(out), str(REPOSITORY)],
        check=True,
        timeout=300,
    )
    (found,) = out.glob("*.whl")
    return found


def test_the_wheel_holds_every_configuration_the_plugin_and_the_type_marker(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    yaml = {path.relative_to(REPOSITORY / "yaml") for path in (REPOSITORY / "yaml").rglob("*.yaml")}
    assert yaml
    assert {f"radial_vicreg/yaml/{path.as_posix()}" for path in yaml} <= names
    assert "radial_vicreg/py.typed" in names
    assert "hydra_plugins/radial_vicreg_plugin/__init__.py" in names
    assert "hydra_plugins/__init__.py" not in names  # a namespace package, shared with other plug-ins
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/", "yaml/"))]


def test_an_installed_wheel_resolves_its_configurations_in_any_hydra_application(
    wheel: Path, run_python: Callable[..., CompletedProcess[str]], tmp_path: Path
) -> None:
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    (tmp_path / "app.py").write_text(
        "import hydra, radial_vicreg\n"
        '@hydra.main(version_base="1.2")\n'
        "def main(cfg):\n    print(cfg.method, radial_vicreg.__file__)\nmain()\n"
    )
    # First on the path, so that the editable installation of this checkout is not what answers.
    done = run_python(str(tmp_path / "app.py"), "--config-name", "radialvicreg", PYTHONPATH=str(site))
    assert done.returncode == 0, done.stderr
    method, origin = done.stdout.split()
    assert method == "radialvicreg"
    assert Path(origin).is_relative_to(site)
