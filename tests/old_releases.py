"""What earlier releases left on people's disks (``tests/fixtures``): copied, found, read and run again in tests."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import finished, started
from helpers import read_results as results_of

from radial_vicreg.cli import main
from radial_vicreg.compose.overrides import with_present_groups
from radial_vicreg.export import load_exported
from radial_vicreg.runs.loaded import open_run

FIXTURES = Path(__file__).parent / "fixtures"

KL = ["method_kwargs.radial_ce_loss_weight=1", "method_kwargs.radial_ent_loss_weight=0.1", "precision=32"]

SWEEP = ["host=standalone", "runs_dir=sweep/runs"]
EPOCHS = 3  # of the killed runs

#: solo-learn's vit_tiny has fixed sizes: the fixtures' name means timm's, with the sizes of ``backbone.kwargs``.
SMALL_VIT = """
import timm
from solo.methods.base import BaseMethod
def small_vit(method, **sizes):
    return timm.create_model("vit_tiny_patch16_224", num_classes=0, **sizes)
BaseMethod._BACKBONES["vit_tiny"] = small_vit
"""

Only = Callable[[str], Path]


def copy_release(name: str, folder: Path) -> Path:
    """Copy the fixtures of a release, to be worked on; their paths are relative to the copy."""
    root = Path(shutil.copytree(FIXTURES / name, folder / name, symlinks=True))
    for order, file in enumerate(sorted(root.rglob("epoch-*.ckpt"))):
        os.utime(file, (1e9 + order, 1e9 + order))  # in the order of writing, which a git checkout does not keep
    return root


@pytest.fixture
def release(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the fixtures that have the name of the tests' folder, as the working directory.

    Their paths are relative to it, as when they were made.
    """
    root = copy_release(request.path.parent.name, tmp_path)
    monkeypatch.chdir(root)
    return root


@pytest.fixture(scope="module")
def shared_copy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy for the tests of a module that only read."""
    return copy_release(request.path.parent.name, tmp_path_factory.mktemp("shared"))


@pytest.fixture
def reading(shared_copy: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The shared copy as the working directory: for a test that only reads."""
    monkeypatch.chdir(shared_copy)
    return shared_copy


@pytest.fixture
def overrides(request: pytest.FixtureRequest) -> list[str]:
    """What every run was given."""
    return (FIXTURES / request.path.parent.name / "overrides.txt").read_text().split()


@pytest.fixture
def only(release: Path) -> Only:
    """Finds the one run folder that fits a pattern."""

    def find(pattern: str) -> Path:
        (results,) = release.glob(f"{pattern}/results.json")
        return results.parent.relative_to(release)

    return find


@pytest.fixture
def small_vit(monkeypatch: pytest.MonkeyPatch) -> None:
    """solo-learn's table of backbones as it was when the fixtures were made."""
    table: dict[str, Any] = pytest.importorskip("solo.methods.base").BaseMethod._BACKBONES
    monkeypatch.setitem(table, "vit_tiny", table["vit_tiny"])  # put back afterwards
    exec(SMALL_VIT, {})


def epochs_of(results: dict[str, Any]) -> list[float]:
    return [entry["epoch"] for entry in results["history"]]


def statuses(capsys: pytest.CaptureFixture[str], overrides: Sequence[str], sweep: str) -> list[str]:
    """The second column of ``sweep --status``."""
    capsys.readouterr()
    assert main(["sweep", f"sweep/{sweep}.yaml", "--status", *overrides, *SWEEP]) == 0
    _, *lines, _ = capsys.readouterr().out.splitlines()
    return [line.split()[1] for line in lines]


def resume(overrides: Sequence[str], host: str, ckpt: str, *more: str) -> int:
    """Resume the run of seed 5 that was killed in its last epoch; the exit status."""
    given = [*KL, f"max_epochs={EPOCHS}", "seed=5", f"host={host}", f"runs_dir={host}/runs", f"ckpt={ckpt}", *more]
    return main(["pretrain", *overrides, *given])


def assert_resumed(folder: Path, before: dict[str, Any]) -> None:
    """Assert that a run with these results was resumed after its second epoch and has finished."""
    after = results_of(folder)
    assert (after["status"], after["epochs"], epochs_of(after)) == ("finished", EPOCHS, [1, 2, 3])
    assert after["history"][:2] == before["history"]
    assert after["steps"] == 9
    assert after["radii"]["initial"] == before["radii"]["initial"]
    assert (folder / "checkpoints" / "last.ckpt").resolve().name == "epoch-3.ckpt"
    assert open_run(folder).epoch == EPOCHS


def assert_exported(folder: Path) -> None:
    """Assert that a run is exported, and that the file gives the run's features."""
    assert main(["export", str(folder), "--format", "timm"]) == 0
    images = torch.randn(2, 3, 16, 16)
    with torch.no_grad():
        expected = open_run(folder).model(images)["feats"]
        found = load_exported(folder / "export" / "timm" / "card.json")(images)
    assert torch.allclose(found, expected, atol=1e-6)


def run_main_pretrain(release: Path, runs: int, *arguments: str) -> str:
    """What solo-learn's own script prints in a copy of the fixtures, where it has left so many runs."""
    from radial_vicreg.solo.detect import find_solo_learn

    location = find_solo_learn().location
    assert location is not None
    for version in range(runs):  # Lightning's logger counts these, and solo-learn names its folders after them
        (release / "lightning_logs" / f"version_{version}").mkdir(parents=True)
    # That script has nobody who translates names of groups, and its users write the present ones (UPGRADING).
    written = with_present_groups((release / "overrides.txt").read_text().split())
    given = ["--config-name", "radialvicreg", *written, *KL]
    given += ["data.val_path=null", "checkpoint.dir=main_pretrain/trained_models", "strategy=auto", *arguments]
    script = str(location.parent / "main_pretrain.py")
    code = f"{SMALL_VIT}\nimport runpy\nrunpy.run_path({script!r}, None, '__main__')"
    done = finished(started([sys.executable, "-c", code, *given], release))
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
