"""Which host is used."""

from __future__ import annotations

import importlib.machinery
from pathlib import Path

import pytest

from radial_vicreg.solo import detect


@pytest.fixture
def pretend_solo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):  # type: ignore[no-untyped-def]
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


def test_without_solo_learn_auto_is_standalone_and_says_how_to_get_it(pretend_solo) -> None:  # type: ignore[no-untyped-def]
    pretend_solo()
    host, reason = detect.choose_host("auto")
    assert host == "standalone"
    assert "install_solo_learn.sh" in reason


def test_the_old_release_is_recognised(pretend_solo) -> None:  # type: ignore[no-untyped-def]
    pretend_solo("args/setup.py")
    found = detect.find_solo_learn()
    assert not found.usable
    assert "1.0.2" in found.reason
    assert "pip uninstall solo-learn" in found.reason


def test_asking_for_solo_where_there_is_none_is_an_error(pretend_solo) -> None:  # type: ignore[no-untyped-def]
    pretend_solo()
    with pytest.raises(ValueError, match=r"host=solo cannot be used.*or use host=standalone"):
        detect.choose_host("solo")


def test_a_checkout_that_does_not_import_is_reported_with_its_reason(
    pretend_solo,
    monkeypatch: pytest.MonkeyPatch,  # type: ignore[no-untyped-def]
) -> None:
    pretend_solo("args/pretrain.py")

    def broken(name: str) -> None:
        raise ModuleNotFoundError("No module named 'einops'")

    monkeypatch.setattr(detect.importlib, "import_module", broken)
    found = detect.import_solo_learn()
    assert not found.usable
    assert "einops" in found.reason


def test_an_unknown_host_is_an_error() -> None:
    with pytest.raises(ValueError, match="host must be one of auto, solo, standalone, got 'gpu'"):
        detect.choose_host("gpu")


@pytest.mark.solo
def test_with_solo_learn_auto_prefers_it() -> None:
    assert detect.choose_host("auto")[0] == "solo"
