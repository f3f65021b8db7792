"""The tables' cells through solo-learn's unmodified main_pretrain.py, in processes of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from celeba_copy import write_copy
from test_cells_train import write_cifar100, write_imagenet10

from radial_vicreg.data.celeba import IMAGES, prepare_celeba

pytestmark = [pytest.mark.solo, pytest.mark.slow]

Run = Callable[..., CompletedProcess[str]]
SMALL = [
    *("optimizer.batch_size=4", "data.num_workers=0", "max_epochs=1", "scheduler.warmup_epochs=0"),
    *("accelerator=cpu", "strategy=auto", "precision=32", 'devices="1"', "method_kwargs.proj_output_dim=16"),
    "diagnostics.max_images=8",
]
# torchvision compares the files' MD5 sums; the script itself is run as it is.
WITHOUT_MD5 = """
import runpy, sys, torchvision
torchvision.datasets.CIFAR100._check_integrity = lambda self: True
torchvision.datasets.cifar.check_integrity = lambda *arguments: True
sys.argv = sys.argv[1:]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture
def script() -> str:
    from radial_vicreg.solo.detect import find_solo_learn

    location = find_solo_learn().location
    assert location is not None
    return str(location.parent / "main_pretrain.py")


def results_of(done: CompletedProcess[str], tmp_path: Path) -> dict:
    assert done.returncode == 0, done.stderr[-3000:]
    (path,) = tmp_path.glob("trained_models/radialvicreg/*/results.json")
    results: dict = json.loads(path.read_text())
    assert results["status"] == "finished"
    assert results["steps"] == 2
    return results


@pytest.mark.parametrize("cell", ["resnet18/radialvicreg_d2048", "vit_tiny/radialvicreg_d512"])
def test_cifar100(cell: str, script: str, run_python: Run, tmp_path: Path) -> None:
    (tmp_path / "launch.py").write_text(WITHOUT_MD5)
    overrides = [*write_cifar100(tmp_path / "cifar"), *SMALL]
    done = run_python("launch.py", script, "--config-name", f"cifar100/{cell}", *overrides)
    results = results_of(done, tmp_path)
    assert results["config"]["data"]["dataset"] == "cifar100"
    assert results["radii"]["images"] == "validation"


def test_vicreg_is_solo_learns_own(script: str, run_python: Run, tmp_path: Path) -> None:
    (tmp_path / "launch.py").write_text(WITHOUT_MD5)
    overrides = [*write_cifar100(tmp_path / "cifar"), *SMALL]
    done = run_python("launch.py", script, "--config-name", "cifar100/resnet18/vicreg_d512", *overrides)
    assert done.returncode == 0, done.stderr[-3000:]
    assert list(tmp_path.glob("trained_models/vicreg/*/*.ckpt"))
    assert not list(tmp_path.rglob("results.json"))


def test_imagenet10_as_a_custom_folder(script: str, run_python: Run, tmp_path: Path) -> None:
    overrides = [*write_imagenet10(tmp_path / "data"), *SMALL, "data.format=image_folder"]
    done = run_python(script, "--config-name", "imagenet10/resnet18/radialvicreg_d512", *overrides)
    results = results_of(done, tmp_path)
    assert results["config"]["data"]["num_classes"] == 10


def test_celeba_trains_there_without_validation_by_file_numbers(script: str, run_python: Run, tmp_path: Path) -> None:
    out = prepare_celeba(tmp_path / "celeba", write_copy(tmp_path / "copy", (8, 2, 1)))
    overrides = [f"data.train_path={out / 'train'}", "data.dataset=custom", "data.val_path=null", *SMALL]
    done = run_python(script, "--config-name", "celeba/resnet18/radial_ce_d512", *overrides)
    results = results_of(done, tmp_path)
    assert results["config"]["data"]["num_classes"] == 40
    assert 0.3 < results["history"][-1]["train_class_loss"] < 2.0
    assert (out / "train" / IMAGES).is_dir()
