"""Cells of the tables are trained for two steps: one of each build, on both hosts and through main_pretrain.py."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
import torchvision
from celeba_copy import write_copy
from helpers import composed, read_results, type_rows
from hosts_fixtures import quiet_trainer  # noqa: F401
from omegaconf import OmegaConf
from PIL import Image

from radial_vicreg.compose import compose, run_config
from radial_vicreg.data.build import open_data
from radial_vicreg.data.celeba import IMAGES, prepare_celeba
from radial_vicreg.data.loader import build_val_loader
from radial_vicreg.data.prepare.imagenet10 import CLASSES, COUNTS, prepare_imagenet10
from radial_vicreg.solo.host import build_solo
from radial_vicreg.train.run import build_standalone, prepare

CELLS = sorted(json.loads(resources.files("radial_vicreg").joinpath("paper/paper.json").read_text())["configs"])
TRAINED = {
    "standalone": [
        "cifar100/resnet18/radialvicreg_d512",
        "cifar100/vit_tiny/vicreg_d2048",
        "imagenet10/resnet18/radialvicreg_d8192",
        "celeba/resnet18/radial_ent_d2048",
    ],
    "solo": [
        "cifar100/resnet18/radialvicreg_w1_d512",
        "cifar100/vit_tiny/radialvicreg_d512",
        "imagenet10/resnet18/vicreg_d2048",
        "celeba/resnet18/radial_ce_d512",
    ],
}
"""One cell of each build for either host, which between them have every objective and every dimension of the tables."""
BATCH = 4
SMALL = [
    *(f"optimizer.batch_size={BATCH}", "data.num_workers=0", "max_epochs=1", "scheduler.warmup_epochs=0"),
    *("accelerator=cpu", "devices='1'"),
]


def write_cifar100(root: Path) -> list[str]:
    """torchvision's layout of CIFAR-100 with 8 training and 4 test images."""
    folder = root / "cifar-100-python"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name, count in (("train", 2 * BATCH), ("test", BATCH)):
        pixels = rng.integers(0, 256, (count, 3072), dtype=np.uint8)
        (folder / name).write_bytes(pickle.dumps({"data": pixels, "fine_labels": [i % 100 for i in range(count)]}))
    (folder / "meta").write_bytes(pickle.dumps({"fine_label_names": [f"class_{i:02d}" for i in range(100)]}))
    return [f"data.train_path={root}", f"data.val_path={root}"]


def write_imagenet10(root: Path) -> list[str]:
    """Ten classes of one image each for training and for validation."""
    rng = np.random.default_rng(0)
    for split in ("train", "val"):
        for name in CLASSES["imagenette"]:
            (root / "imagenet" / split / name).mkdir(parents=True)
            pixels = rng.integers(0, 256, (48, 64, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(root / "imagenet" / split / name / "image.JPEG")
    one_each = dict.fromkeys(("train", "val"), dict.fromkeys(CLASSES["imagenette"], 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(COUNTS, ("imagenette", "imagenet"), one_each)
        out = prepare_imagenet10(root / "imagenet", root / "imagenet10")
    return [f"data.train_path={out / 'train'}", f"data.val_path={out / 'val'}"]


def write_celeba(root: Path) -> list[str]:
    out = prepare_celeba(root / "celeba", write_copy(root / "copy", (2 * BATCH, BATCH, 1)))
    return [f"data.train_path={out / 'train'}", f"data.val_path={out / 'val'}"]


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The overrides that point each data set to its tiny stand-in."""
    writers = {"cifar100": write_cifar100, "imagenet10": write_imagenet10, "celeba": write_celeba}
    return {name: write(tmp_path_factory.mktemp(name)) for name, write in writers.items()}


def built(cell: str) -> tuple[str, ...]:
    """What decides which data, network and optimizer are built: other cells differ in weights and dimensions alone."""
    cfg = composed(cell)
    augmented = OmegaConf.to_yaml(cfg.augmentations, resolve=True)
    return cell.split("/")[0], OmegaConf.to_yaml(cfg.backbone), augmented, cfg.optimizer.name, cfg.scheduler.name


def test_every_build_of_the_tables_is_trained_on_both_hosts() -> None:
    builds = {built(cell) for cell in CELLS}
    for cells in TRAINED.values():
        assert {built(cell) for cell in cells} == builds
    trained = [composed(cell).method_kwargs for cells in TRAINED.values() for cell in cells]
    for key in ("radial_objective", "proj_output_dim"):
        assert {kwargs.get(key) for kwargs in trained} == {composed(cell).method_kwargs.get(key) for cell in CELLS}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cell", "host"),
    [
        pytest.param(cell, host, marks=[pytest.mark.solo] * (host == "solo"))
        for host, cells in TRAINED.items()
        for cell in cells
    ],
)
def test_a_cell_takes_two_steps(
    cell: str,
    host: str,
    paths: dict[str, list[str]],
    quiet_trainer: Callable[..., pl.Trainer],  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torchvision.datasets.CIFAR100, "_check_integrity", lambda self: True)
    monkeypatch.setattr("torchvision.datasets.cifar.check_integrity", lambda *args: True)
    dataset = cell.split("/")[0]
    more = ["data.format=image_folder", "diagnostics.enabled=false"]
    config = prepare(run_config(compose(cell, [*paths[dataset], *SMALL, *more])))
    data = open_data(config)
    run = (build_solo if host == "solo" else build_standalone)(config, data)
    val_loader = build_val_loader(config, data)
    run.model.results_folder = str(tmp_path)  # type: ignore[assignment]
    before = {name: parameter.detach().clone() for name, parameter in run.model.named_parameters()}
    trainer = quiet_trainer(max_epochs=1, limit_train_batches=2, limit_val_batches=1)
    trainer.fit(run.model, run.train_loader, val_loader)
    assert trainer.global_step == 2
    moved = {name for name, now in run.model.named_parameters() if not torch.equal(now.detach(), before[name])}
    for part in ("backbone", "projector", "classifier"):
        assert any(name.startswith(part) for name in moved), part
    index, views, targets = next(iter(run.train_loader))
    shape = (3, config.crop_size, config.crop_size)
    assert len(index) == BATCH
    assert [tuple(view.shape) for view in views] == [(BATCH, *shape)] * 2
    assert tuple(targets.shape) == ((BATCH, 40) if dataset == "celeba" else (BATCH,))
    assert val_loader is not None
    assert next(iter(val_loader))[0].shape[1:] == shape
    assert read_results(tmp_path)["config"]["data"]["name"] == dataset


@pytest.mark.solo
@pytest.mark.slow
def test_cells_are_trained_by_main_pretrain(
    paths: dict[str, list[str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    celeba, _ = paths["celeba"]
    rows = {
        "cifar100/resnet18/radialvicreg_d2048": paths["cifar100"],
        "cifar100/vit_tiny/radialvicreg_d512": paths["cifar100"],
        "cifar100/resnet18/vicreg_d512": paths["cifar100"],
        "imagenet10/resnet18/radialvicreg_d512": [*paths["imagenet10"], "data.format=image_folder"],
        # by the numbers of files, without validation
        "celeba/resnet18/radial_ce_d512": [celeba, "data.dataset=custom", "data.val_path=null"],
    }
    small = ["strategy=auto", "precision=32", "method_kwargs.proj_output_dim=16", "diagnostics.max_images=8"]
    typed = [["--config-name", name, *overrides, *SMALL, *small] for name, overrides in rows.items()]
    done = dict(zip(rows, type_rows(typed, tmp_path_factory.mktemp("typed")), strict=True))
    for name, command in done.items():
        assert command.returncode == 0, (name, command.stderr[-3000:])
    vicreg = done.pop("cifar100/resnet18/vicreg_d512").folder  # solo-learn's own
    assert list(vicreg.glob("trained_models/vicreg/*/*.ckpt"))
    assert not list(vicreg.rglob("results.json"))
    found = {}
    for name, command in done.items():
        (path,) = command.folder.glob("trained_models/radialvicreg/*/results.json")
        found[name] = results = read_results(path.parent)
        assert (results["status"], results["steps"]) == ("finished", 2), name
        if name.startswith("cifar100"):
            assert (results["config"]["data"]["dataset"], results["radii"]["images"]) == ("cifar100", "validation")
    assert found["imagenet10/resnet18/radialvicreg_d512"]["config"]["data"]["num_classes"] == 10
    results = found["celeba/resnet18/radial_ce_d512"]
    assert results["config"]["data"]["num_classes"] == 40
    assert 0.3 < results["history"][-1]["train_class_loss"] < 2.0
    assert (Path(results["config"]["data"]["train_path"]) / IMAGES).is_dir()


@pytest.mark.solo
@pytest.mark.parametrize("cell", ["imagenet10/resnet18/radialvicreg_d512", "celeba/resnet18/radial_ce_d512"])
def test_dali_builds_the_same_augmentations(cell: str, paths: dict[str, list[str]]) -> None:
    pytest.importorskip("nvidia.dali", reason="nvidia-dali-cuda120 is not installed")
    from solo.data.dali_dataloader import PretrainPipelineBuilder, build_transform_pipeline_dali
    from solo.data.pretrain_dataloader import FullTransformPipeline, NCropAugmentation

    dataset = cell.split("/")[0]
    cfg = compose(cell, paths[dataset])
    crops = [
        NCropAugmentation(build_transform_pipeline_dali("custom", augmentation, dali_device="cpu"), 2)
        for augmentation in cfg.augmentations
    ]
    builder = PretrainPipelineBuilder(
        cfg.data.train_path,
        batch_size=BATCH,
        device="cpu",
        transforms=FullTransformPipeline(crops),
        device_id=0,
        encode_indexes_into_labels=dataset == "celeba",
        random_shuffle=False,
    )
    pipeline = builder.pipeline(batch_size=BATCH, num_threads=1, device_id=None, seed=1)
    pipeline.build()
    *views, labels = pipeline.run()
    size = cfg.augmentations[0].crop_size
    assert [np.asarray(view.as_tensor()).shape for view in views] == [(BATCH, 3, size, size)] * 2
    # CelebA: numbers of files, by which the method finds their attributes; otherwise classes.
    assert np.asarray(labels.as_tensor()).ravel().tolist() == list(range(BATCH))
