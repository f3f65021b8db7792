"""What a wheel, a source distribution and an editable installation hold, on the oldest and the newest Python."""

from __future__ import annotations

import configparser
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]
CONFIGURATIONS = sorted(path.relative_to(REPOSITORY / "yaml").as_posix() for path in REPOSITORY.glob("yaml/**/*.yaml"))
HYDRA = "hydra-core>=1.3,<1.4"
NEXT_HYDRA = "hydra-core>=1.4.0rc1,<1.5"  # finds plug-ins by entry points; a pre-release is taken until there is more

# Three lines of somebody else's, who has never heard of this package; and what they loaded for it.
UNRELATED = """
import hydra
@hydra.main(version_base=None)
def main(cfg): print(cfg)
main()
import sys; print("loaded:", [name for name in sys.modules if name.split(".")[0] in ("radial_vicreg", "torch")])
"""
WHAT_IS_THERE = """
import json, pathlib, sys
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin
ours = [plugin for plugin in Plugins.instance().discover(SearchPathPlugin) if "RadialVICReg" in plugin.__name__]
from hydra_plugins.radial_vicreg_plugin import configuration_folder
folder = pathlib.Path(configuration_folder())
print(json.dumps({"plugins": len(ours), "folder": str(folder), "python": sys.version.split()[0],
                  "files": sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.yaml"))}))
"""


def declared_pythons() -> list[str]:
    setup = configparser.ConfigParser()
    setup.read(REPOSITORY / "setup.cfg")
    return re.findall(r"Python :: (3\.\d+)", setup["metadata"]["classifiers"])


@functools.cache
def find_python(version: str) -> str | None:
    """An interpreter of that version with venv: on the path (pyenv's shims may answer no), or among pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python"), reverse=True)]
    check = f"import sys, venv, ensurepip; sys.exit('%d.%d' % sys.version_info[:2] != '{version}')"
    for candidate in filter(None, candidates):
        if subprocess.run([str(candidate), "-c", check], capture_output=True).returncode == 0:
            return str(candidate)
    return None


def run(*command: str | Path, cwd: Path | None = None, **environment: str) -> str:
    """Runs a command without this checkout on its path; what it printed, or a failure with all that it said."""
    kept = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**kept, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    # Hydra goes on with a warning where it cannot load a plug-in.
    assert "plugin" not in done.stderr.lower(), done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is packaged, in a folder with a blank: setuptools leaves a build folder in what it builds."""
    copy = tmp_path_factory.mktemp("source") / "a source tree"
    for name in ("hydra_plugins", "radial_vicreg", "yaml"):
        shutil.copytree(REPOSITORY / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, copy)
    return copy


@pytest.fixture(scope="module")
def distributions(source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Wheel and source distribution, both built from the tree."""
    out = tmp_path_factory.mktemp("built")
    run(sys.executable, "-m", "build", "--wheel", "--sdist", "--outdir", out, source)
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    return {"wheel": wheel, "sdist": sdist, "editable": source}


@dataclass(frozen=True)
class Installed:
    """An interpreter whose environment has Hydra and the package, without what else the package needs."""

    python: Path
    form: str


#: The oldest and the newest declared Python that is here, the next Hydra on the newest, and each form once.
CELLS = [(0, HYDRA, "wheel"), (-1, HYDRA, "sdist"), (-1, NEXT_HYDRA, "editable")]


@pytest.fixture(scope="module", params=CELLS, ids=["oldest-wheel", "newest-sdist", "newest-next-hydra-editable"])
def installed(
    request: pytest.FixtureRequest, distributions: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Installed:
    place, hydra, form = request.param
    base = [found for found in map(find_python, declared_pythons()) if found is not None][place]
    folder = tmp_path_factory.mktemp("venv") / "an environment"
    run(base, "-m", "venv", folder)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", hydra, "pydantic")
    editable = ("--editable",) if form == "editable" else ()
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", *editable, distributions[form])
    return Installed(python, form)


def test_the_oldest_and_the_newest_declared_python_are_tried() -> None:
    declared = declared_pythons()
    if absent := [version for version in (declared[0], declared[-1]) if find_python(version) is None]:
        pytest.skip(f"declared and not on this machine, where no installation was tried: Python {', '.join(absent)}")


def test_uv_would_install_the_checkout_with_its_dependencies(source: Path) -> None:
    command = [sys.executable, "-m", "uv", "sync", "--dry-run", "--no-progress"]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert {"radial-vicreg", "torch"} <= set(re.findall(r"^ \+ ([\w-]+)", done.stderr, flags=re.MULTILINE)), done.stderr


def test_wheel_and_sdist_hold_the_configurations_of_the_tree_and_nothing_else_of_it(
    distributions: dict[str, Path],
) -> None:
    wheel = zipfile.ZipFile(distributions["wheel"]).namelist()
    with tarfile.open(distributions["sdist"]) as archive:
        sdist = [member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()]
    expected = {f"radial_vicreg/yaml/{name}" for name in CONFIGURATIONS}
    assert len(expected) > 40
    for names in (wheel, sdist):
        assert {name for name in names if name.endswith(".yaml")} == expected
        assert not [name for name in names if name.endswith("yaml/__init__.py")]  # it would shadow PyYAML
    assert {"radial_vicreg/py.typed", "hydra_plugins/radial_vicreg_plugin/__init__.py"} <= set(wheel)
    assert "hydra_plugins/__init__.py" not in wheel  # a namespace package, shared with other plug-ins
    assert {name.split("/")[0] for name in wheel if ".dist-info/" not in name} == {"radial_vicreg", "hydra_plugins"}
    files = distributions["wheel"], distributions["sdist"]  # what an index accepts, with the README
    assert run(sys.executable, "-m", "twine", "--no-color", "check", "--strict", *files).count("PASSED") == 2


def test_an_installation_is_found_by_hydra_and_holds_every_configuration(
    installed: Installed, source: Path, tmp_path: Path
) -> None:
    seen = json.loads(run(installed.python, "-c", WHAT_IS_THERE, cwd=tmp_path))
    assert seen["plugins"] == 1, seen
    assert seen["files"] == CONFIGURATIONS
    root = source if installed.form == "editable" else installed.python.parents[1]
    assert Path(seen["folder"]).is_relative_to(root.resolve()), seen
    conflicts = subprocess.run([installed.python, "-m", "pip", "check"], capture_output=True, text=True, cwd=tmp_path)
    # Installed with --no-deps: what is missing is known, a version that does not fit would be an error.
    assert {line.split()[-1] for line in conflicts.stdout.splitlines()} == {"installed."}, conflicts.stdout


def test_an_unrelated_hydra_application_runs_beside_it_in_every_way(installed: Installed, tmp_path: Path) -> None:
    folder = tmp_path / "an application"
    folder.mkdir()
    (folder / "app.py").write_text(UNRELATED)

    def app(*arguments: str, **variables: str) -> str:
        return run(installed.python, "app.py", *arguments, cwd=folder, **variables)

    plain = app("+a=1")
    assert "{'a': 1}" in plain
    assert "loaded: []" in plain
    for told in (app("--help"), app("--info", "searchpath")):
        assert "radialvicreg" not in told
        assert "radial-vicreg" not in told
    sweep = app("-m", "+a=1,2")
    assert "{'a': 1}" in sweep
    assert "{'a': 2}" in sweep
    assert "hydra_bash_completion" in app("-sc", "install=bash")
    offered = app("-sc", "query=bash", COMP_LINE="python app.py radialvicreg/optimizer=")
    assert offered.split() == ["loaded:", "[]"]  # the application's own last line


def test_an_application_of_ours_finds_groups_and_configurations(installed: Installed, tmp_path: Path) -> None:
    folder = tmp_path / "an application"
    folder.mkdir()
    (folder / "app.py").write_text(f"import radial_vicreg.compose\n{UNRELATED}")

    def app(*arguments: str, **variables: str) -> str:
        return run(installed.python, "app.py", *arguments, cwd=folder, **variables)

    assert "radialvicreg/dataset: celeba, cifar10" in app("--help")
    assert "'method': 'radialvicreg'" in app("--config-name", "radialvicreg")
    offered = app("-sc", "query=bash", COMP_LINE="python app.py radialvicreg/optimizer=")
    assert offered.split()[:2] == ["radialvicreg/optimizer=adam", "radialvicreg/optimizer=adamw"]
    (shown,) = [line for line in app("--info", "searchpath").splitlines() if line.startswith("| radial-vicreg ")]
    path = Path(shown.split("|")[2].strip().removeprefix("file://"))  # as it is: nothing is quoted
    assert " " in str(path)
    assert (path / "radialvicreg.yaml").is_file()


def test_composing_finds_the_configurations_and_those_of_a_folder_without_a_warning(
    installed: Installed, tmp_path: Path
) -> None:
    """Hydra's next version refuses what solo-learn's scripts ask of it."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "study.yaml").write_text("defaults: [/radialvicreg, _self_]\nseed: 77\n")
    code = (
        "from radial_vicreg.compose import compose, run_config; "
        "print(run_config(compose('radialvicreg', [])).method, run_config(compose('study', [], 'own')).seed)"
    )
    assert run(installed.python, "-W", "error", "-c", code, cwd=tmp_path).split() == ["radialvicreg", "77"]
