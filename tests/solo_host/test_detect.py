"""Which host is used."""

from __future__ import annotations

import importlib.machinery
import os
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from radial_vicreg.solo import detect

Pretend = Callable[..., None]


@pytest.fixture
def pretend_solo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Pretend:
    """Lets ``find_spec('solo')`` find a folder with the given files, or nothing."""

    def pretend(*files: str) -> None:
        spec = None
        if files:
            spec = importlib.machinery.ModuleSpec("solo", None, is_package=True)
            spec.submodule_search_locations = [str(tmp_path / "solo")]
        for file in files:
            (tmp_path / "solo" / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "solo" / file).touch()
        monkeypatch.setattr(detect.importlib.util, "find_spec", lambda name: spec)

    return pretend


def test_without_solo_learn_auto_is_standalone_and_says_how_to_get_it(pretend_solo: Pretend) -> None:
    pretend_solo()
    host, reason = detect.choose_host("auto")
    assert host == "standalone"
    assert reason.startswith("solo-learn is not installed; git clone https://github.com/vturrisi/solo-learn, then pip")
    with pytest.raises(ValueError, match=r"host=solo cannot be used.*or use host=standalone"):
        detect.choose_host("solo")
    with pytest.raises(ValueError, match="host must be one of auto, solo, standalone, got 'gpu'"):
        detect.choose_host("gpu")


def test_the_old_release_is_recognised(pretend_solo: Pretend) -> None:
    pretend_solo("args/setup.py")
    found = detect.find_solo_learn()
    assert not found.usable
    assert "1.0.2" in found.reason
    assert "pip uninstall solo-learn" in found.reason


def test_a_backbone_is_looked_for_in_the_text_of_solo_learn(pretend_solo: Pretend, tmp_path: Path) -> None:
    """A checkout may have more backbones than the release whose names are listed."""
    pretend_solo("args/pretrain.py", "methods/base.py")
    (tmp_path / "solo" / "methods" / "base.py").write_text('_BACKBONES = {"resnet34": resnet34}')
    for known in ("resnet18", "resnet34", "convnext_tiny", "timm:anything"):
        detect.check_host("auto", known)
    with pytest.raises(ValueError, match=r"unknown backbone.name 'resnt18': did you mean resnet18\?$"):
        detect.check_host("auto", "resnt18")
    with pytest.raises(ValueError, match=r"unknown backbone.name 'resnet34': .*, or timm:NAME"):
        detect.check_host("standalone", "resnet34")


def test_a_checkout_that_does_not_import_is_reported_with_its_reason(
    pretend_solo: Pretend, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_solo("args/pretrain.py")

    def broken(name: str) -> None:
        raise ModuleNotFoundError("No module named 'einops'")

    monkeypatch.setattr(detect.importlib, "import_module", broken)
    found = detect.import_solo_learn()
    assert not found.usable
    assert "einops" in found.reason


def test_remedies_name_no_file_of_the_repository() -> None:
    """Who installed a wheel has none of them."""
    package = Path(detect.__file__).parents[1]
    assert [path.name for path in package.rglob("*.py") if "bash/" in path.read_text()] == []


def test_a_checkout_in_the_working_directory_is_used_where_none_is_installed(
    pretend_solo: Pretend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "path", ["elsewhere"])
    monkeypatch.chdir(tmp_path)
    pretend_solo()
    (tmp_path / "solo" / "args").mkdir(parents=True)
    assert detect.find_checkout(tmp_path) is None  # somebody else's folder of that name
    (tmp_path / "solo" / "args" / "pretrain.py").touch()
    assert detect.choose_host("auto")[0] == "standalone"  # wherever it is typed
    assert sys.path == ["elsewhere"]
    assert detect.find_checkout(tmp_path) == tmp_path
    assert sys.path == [str(tmp_path), "elsewhere"]
    pretend_solo("args/pretrain.py")  # an installed one comes first
    assert detect.find_checkout(tmp_path) is None


@pytest.mark.slow
@pytest.mark.solo
def test_the_commands_find_a_checkout_where_they_are_typed_and_beside_the_script(
    run_python: Callable[..., CompletedProcess[str]], tmp_path: Path
) -> None:
    def command(*arguments: str, cwd: Path) -> CompletedProcess[str]:
        """Run the installed command in an environment whose ``.pth`` files link nothing."""
        packages = os.pathsep.join([str(Path(detect.__file__).parents[2]), sysconfig.get_paths()["purelib"]])
        start = "import sys; del sys.path[0]; from radial_vicreg.cli import main; sys.exit(main())"
        return run_python("-S", "-c", start, *arguments, cwd=cwd, PYTHONPATH=packages)

    location = detect.find_solo_learn().location
    assert location is not None
    refused = command("solo", "main_pretrain.py", "--help", cwd=tmp_path)
    assert (refused.returncode, "solo-learn is not installed; git clone" in refused.stderr) == (2, True), refused.stderr
    done = command("solo", str(location.parent / "main_pretrain.py"), "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "main_pretrain is powered by Hydra" in done.stdout
    told = command("doctor", cwd=location.parent).stdout
    assert f"solo-learn in {location}: the working directory, used by its own scripts, radial-vicreg solo" in told
    assert "radial-vicreg pretrain would use the standalone host" in told


@pytest.mark.solo
def test_with_solo_learn_auto_prefers_it() -> None:
    assert detect.choose_host("auto")[0] == "solo"
