"""The tables' cells through solo-learn's unmodified main_pretrain.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from celeba_copy import write_copy
from helpers import Typed, type_rows
from test_cells_train import write_cifar100, write_imagenet10

from radial_vicreg.data.celeba import IMAGES, prepare_celeba

pytestmark = [pytest.mark.solo, pytest.mark.slow]

CIFAR_CELLS = ("resnet18/radialvicreg_d2048", "vit_tiny/radialvicreg_d512")
SMALL = [
    *("optimizer.batch_size=4", "data.num_workers=0", "max_epochs=1", "scheduler.warmup_epochs=0"),
    *("accelerator=cpu", "strategy=auto", "precision=32", 'devices="1"', "method_kwargs.proj_output_dim=16"),
    "diagnostics.max_images=8",
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Typed]:
    """What each cell ended with, all typed in one process."""
    root = tmp_path_factory.mktemp("cells")
    cifar, imagenet10 = write_cifar100(root / "cifar"), write_imagenet10(root / "data")
    celeba = prepare_celeba(root / "celeba", write_copy(root / "copy", (8, 2, 1)))
    rows = {f"cifar100/{cell}": cifar for cell in (*CIFAR_CELLS, "resnet18/vicreg_d512")}
    rows["imagenet10/resnet18/radialvicreg_d512"] = [*imagenet10, "data.format=image_folder"]
    without_validation = ["data.dataset=custom", "data.val_path=null"]
    rows["celeba/resnet18/radial_ce_d512"] = [f"data.train_path={celeba / 'train'}", *without_validation]
    typed = [["--config-name", name, *overrides, *SMALL] for name, overrides in rows.items()]
    return dict(zip(rows, type_rows(typed, root), strict=True))


def results_of(done: Typed) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr[-3000:]
    (path,) = done.folder.glob("trained_models/radialvicreg/*/results.json")
    results: dict[str, Any] = json.loads(path.read_text())
    assert results["status"] == "finished"
    assert results["steps"] == 2
    return results


@pytest.mark.parametrize("cell", CIFAR_CELLS)
def test_cifar100(cell: str, runs: dict[str, Typed]) -> None:
    results = results_of(runs[f"cifar100/{cell}"])
    assert results["config"]["data"]["dataset"] == "cifar100"
    assert results["radii"]["images"] == "validation"


def test_vicreg_is_solo_learns_own(runs: dict[str, Typed]) -> None:
    done = runs["cifar100/resnet18/vicreg_d512"]
    assert done.returncode == 0, done.stderr[-3000:]
    assert list(done.folder.glob("trained_models/vicreg/*/*.ckpt"))
    assert not list(done.folder.rglob("results.json"))


def test_imagenet10_as_a_custom_folder(runs: dict[str, Typed]) -> None:
    assert results_of(runs["imagenet10/resnet18/radialvicreg_d512"])["config"]["data"]["num_classes"] == 10


def test_celeba_trains_there_without_validation_by_file_numbers(runs: dict[str, Typed]) -> None:
    results = results_of(runs["celeba/resnet18/radial_ce_d512"])
    assert results["config"]["data"]["num_classes"] == 40
    assert 0.3 < results["history"][-1]["train_class_loss"] < 2.0
    assert (Path(results["config"]["data"]["train_path"]) / IMAGES).is_dir()
