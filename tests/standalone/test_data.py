from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision
from omegaconf import OmegaConf
from PIL import Image
from torch.utils.data import DataLoader
from torchvision.transforms import functional as F

from radial_vicreg.data.datasets import (
    MultiCrop,
    build_augmentation,
    build_train_dataset,
    build_val_dataset,
    build_val_loader,
    build_val_transform,
    num_classes,
)

# solo-learn's loader pins memory whether or not there is a GPU.
pytestmark = pytest.mark.filterwarnings("ignore:.*pin_memory")


def seed(value: int) -> None:
    random.seed(value)
    np.random.seed(value)
    torch.manual_seed(value)


def epochs_of(loader: Any, count: int = 2) -> list[list[Any]]:
    """All batches of some epochs, drawn from a fixed seed."""
    seed(7)
    return [batch for _ in range(count) for batch in loader]


def our_loader(cfg: Any) -> DataLoader[Any]:
    """Our training set in solo-learn's order: a plain random sampler, whole batches."""
    return DataLoader(build_train_dataset(cfg), batch_size=cfg.optimizer.batch_size, shuffle=True, drop_last=True)


def assert_same_batches(ours: list[list[Any]], theirs: list[list[Any]]) -> None:
    assert len(ours) == len(theirs) > 0
    for (index, crops, target), (expected_index, expected_crops, expected_target) in zip(ours, theirs, strict=True):
        assert torch.equal(index, expected_index)
        assert torch.equal(target, expected_target)
        assert len(crops) == len(expected_crops)
        for crop, expected_crop in zip(crops, expected_crops, strict=True):
            assert torch.equal(crop, expected_crop)


@pytest.fixture
def folder_cfg(make_cfg: Any, image_folder: Path) -> Any:
    return make_cfg(data__train_path=str(image_folder / "train"), data__val_path=str(image_folder / "val"))


@pytest.fixture
def cifar_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """torchvision's layout of CIFAR-10 with 40 training and 10 test images; MD5 checks are switched off."""
    monkeypatch.setattr(torchvision.datasets.CIFAR10, "_check_integrity", lambda self: True)
    monkeypatch.setattr("torchvision.datasets.cifar.check_integrity", lambda *args: True)
    folder = tmp_path / "cifar" / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    names = [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]
    for name in names:
        count = 10 if name == "test_batch" else 8
        pixels = rng.integers(0, 256, (count, 3072), dtype=np.uint8)
        labels = [int(label) for label in np.arange(count) % 10]
        (folder / name).write_bytes(pickle.dumps({"data": pixels, "labels": labels}))
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": [f"class{i}" for i in range(10)]}))
    return folder.parent


# ---- the real solo-learn ----


def solo_loader(cfg: Any) -> Any:
    pretrain = pytest.importorskip("solo.data.pretrain_dataloader")
    pipelines = [
        pretrain.NCropAugmentation(pretrain.build_transform_pipeline(cfg.data.dataset, aug), aug.num_crops)
        for aug in cfg.augmentations
    ]
    dataset = pretrain.prepare_datasets(
        cfg.data.dataset,
        pretrain.FullTransformPipeline(pipelines),
        train_data_path=cfg.data.train_path,
        no_labels=bool(OmegaConf.select(cfg, "data.no_labels")),
        download=False,
        data_fraction=OmegaConf.select(cfg, "data.fraction", default=-1),
    )
    return pretrain.prepare_dataloader(dataset, batch_size=cfg.optimizer.batch_size, num_workers=0)


@pytest.mark.solo
def test_batches_equal_solo_learns_bit_for_bit(folder_cfg: Any) -> None:
    assert_same_batches(epochs_of(our_loader(folder_cfg)), epochs_of(solo_loader(folder_cfg)))


@pytest.mark.solo
def test_two_pipelines_with_own_statistics_equal_solo_learns(folder_cfg: Any) -> None:
    second = OmegaConf.merge(
        folder_cfg.augmentations[0],
        {"crop_size": 24, "num_crops": 3, "mean": [0.4, 0.5, 0.6], "std": [0.1, 0.2, 0.3]},
        {"color_jitter": {"prob": 0.0}, "gaussian_blur": {"prob": 1.0}},
    )
    folder_cfg.augmentations = [folder_cfg.augmentations[0], second]
    ours = epochs_of(our_loader(folder_cfg))
    assert [tuple(crop.shape[2:]) for crop in ours[0][1]] == [(32, 32)] * 2 + [(24, 24)] * 3
    assert_same_batches(ours, epochs_of(solo_loader(folder_cfg)))


@pytest.mark.solo
@pytest.mark.parametrize("cropped", [True, False])
@pytest.mark.parametrize("name", ["cifar10", "cifar100", "imagenet", "imagenet100", "custom"])
def test_crops_of_every_named_dataset_equal_solo_learns(folder_cfg: Any, name: str, cropped: bool) -> None:
    pretrain = pytest.importorskip("solo.data.pretrain_dataloader")
    image = Image.effect_noise((50, 40), 60).convert("RGB")
    aug_cfg = folder_cfg.augmentations[0]
    aug_cfg.rrc.enabled = cropped
    seed(1)
    ours = build_augmentation(name, aug_cfg)(image)
    seed(1)
    assert torch.equal(ours, pretrain.build_transform_pipeline(name, aug_cfg)(image))


@pytest.mark.solo
def test_cifar_batches_equal_solo_learns(make_cfg: Any, cifar_root: Path) -> None:
    cfg = make_cfg(data__dataset="cifar10", data__train_path=str(cifar_root), optimizer__batch_size=8)
    assert_same_batches(epochs_of(our_loader(cfg)), epochs_of(solo_loader(cfg)))


@pytest.mark.solo
def test_fraction_keeps_solo_learns_images(folder_cfg: Any) -> None:
    folder_cfg.data.fraction = 0.5
    assert_same_batches(epochs_of(our_loader(folder_cfg)), epochs_of(solo_loader(folder_cfg)))


@pytest.mark.solo
@pytest.mark.parametrize("fraction", [-1, 0.6])
def test_unlabelled_batches_equal_solo_learns(
    make_cfg: Any, image_folder: Path, monkeypatch: pytest.MonkeyPatch, fraction: float
) -> None:
    pretrain = pytest.importorskip("solo.data.pretrain_dataloader")
    path = str(image_folder / "train" / "cat")
    cfg = make_cfg(data__train_path=path, data__no_labels=True, data__fraction=fraction)
    # solo-learn takes the images in the file system's order; ours is sorted.
    names = sorted(p.name for p in Path(path).iterdir())
    monkeypatch.setattr(pretrain.os, "listdir", lambda root: names)
    assert_same_batches(epochs_of(our_loader(cfg)), epochs_of(solo_loader(cfg)))


# ---- augmentations ----


def test_blur_off_draws_nothing_from_pythons_generator(folder_cfg: Any) -> None:
    aug_cfg = folder_cfg.augmentations[0]
    aug_cfg.gaussian_blur.prob = 0.0
    state = random.getstate()
    build_augmentation("custom", aug_cfg)(Image.new("RGB", (40, 40)))
    assert random.getstate() == state


def test_pipeline_survives_workers(folder_cfg: Any) -> None:
    pickle.dumps(build_train_dataset(folder_cfg))


def test_absent_operations_are_off(make_cfg: Any) -> None:
    aug_cfg = OmegaConf.create({"crop_size": 32, "num_crops": 1, "rrc": {"enabled": False}})
    image = Image.effect_noise((32, 32), 60).convert("RGB")
    plain = build_augmentation("cifar10", aug_cfg)
    assert len(plain.transforms) == 3
    assert torch.equal(plain(image), plain(image))


def test_crops_come_in_the_order_of_the_pipelines() -> None:
    image = Image.new("RGB", (4, 4))
    crops = MultiCrop([lambda _: torch.zeros(1), lambda _: torch.ones(1)], [1, 2])(image)
    assert [float(crop) for crop in crops] == [0, 1, 1]


def test_number_of_crops_is_needed_for_each_pipeline() -> None:
    with pytest.raises(ValueError, match=r"1 pipelines but 2 numbers"):
        MultiCrop([F.to_tensor], [1, 2])


# ---- validation ----


@pytest.mark.parametrize("crop_size", [16, 32, 64, 96, 224])
def test_validation_is_at_the_training_resolution(folder_cfg: Any, crop_size: int) -> None:
    folder_cfg.augmentations[0].crop_size = crop_size
    image, target = build_val_dataset(folder_cfg)[0]
    assert image.shape == (3, crop_size, crop_size)
    assert target == 0


@pytest.mark.parametrize(("crop_size", "shorter"), [(32, 32), (63, 63), (64, 73), (128, 146), (224, 256)])
def test_validation_margin_is_imagenets_for_large_crops(folder_cfg: Any, crop_size: int, shorter: int) -> None:
    folder_cfg.augmentations[0].crop_size = crop_size
    resize, crop = build_val_transform(folder_cfg).transforms[1:3]
    assert resize.size == shorter
    assert tuple(crop.size) == (crop_size, crop_size)


def test_cifar_is_validated_untouched_and_normalised_as_in_training(make_cfg: Any) -> None:
    image = Image.effect_noise((32, 32), 60).convert("RGB")
    cfg = make_cfg(data__dataset="cifar100")
    expected = F.normalize(F.to_tensor(image), (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762))
    assert torch.equal(build_val_transform(cfg)(image), expected)


def test_cifar_has_both_splits_under_the_training_path(make_cfg: Any, cifar_root: Path) -> None:
    cfg = make_cfg(data__dataset="cifar10", data__train_path=str(cifar_root))
    assert len(build_train_dataset(cfg)) == 40
    assert len(build_val_dataset(cfg)) == 10  # type: ignore[arg-type]


@pytest.mark.parametrize("settings", [{"data__val_path": None}, {"data__no_labels": True}])
def test_no_validation_without_a_path_or_labels(make_cfg: Any, image_folder: Path, settings: dict[str, Any]) -> None:
    paths = {"data__train_path": str(image_folder / "train"), "data__val_path": str(image_folder / "val")}
    assert build_val_loader(make_cfg(**{**paths, **settings})) is None


def test_validation_is_complete_and_in_order(folder_cfg: Any) -> None:
    loader = build_val_loader(folder_cfg)
    targets = torch.cat([targets for _, targets in loader])
    assert targets.tolist() == [0, 0, 1, 1, 2, 2]
    assert [len(t) for _, t in loader] == [4, 2]


def test_validation_classes_must_be_the_trainings(
    make_cfg: Any, image_folder: Path, tmp_path: Path, noise_images: Any
) -> None:
    for name in ("cat", "dog", "fox"):
        noise_images(tmp_path / name, 1)
    cfg = make_cfg(data__train_path=str(image_folder / "train"), data__val_path=str(tmp_path))
    with pytest.raises(ValueError, match=r"only in training owl, only in validation fox"):
        build_val_dataset(cfg)


# ---- training set ----


def test_fraction_is_stratified(folder_cfg: Any) -> None:
    folder_cfg.data.fraction = 0.5
    dataset = build_train_dataset(folder_cfg)
    targets = [target for _, _, target in (dataset[i] for i in range(len(dataset)))]
    assert len(targets) == 10
    assert [targets.count(i) for i in range(3)] in ([4, 3, 3], [4, 4, 2])


@pytest.mark.parametrize("fraction", [1, 1.5])
def test_fraction_outside_its_range_is_named(folder_cfg: Any, fraction: float) -> None:
    folder_cfg.data.fraction = fraction
    with pytest.raises(ValueError, match=f"data.fraction={fraction}"):
        build_train_dataset(folder_cfg)


def test_fraction_of_cifar_works(make_cfg: Any, cifar_root: Path) -> None:
    cfg = make_cfg(data__dataset="cifar10", data__train_path=str(cifar_root), data__fraction=0.5)
    assert len(build_train_dataset(cfg)) == 20


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"data__train_path": None}, "data.train_path is not set"),
        ({"data__train_path": "/nowhere/at/all"}, "data.train_path=/nowhere/at/all does not exist"),
        ({"data__dataset": "stl10"}, "data.dataset='stl10'.*cifar10, cifar100.*custom"),
        ({"data__format": "h5"}, "data.format='h5'"),
        ({"data__dataset": "cifar10", "data__train_path": None}, "data.train_path is not set"),
    ],
)
def test_wrong_data_settings_are_named(make_cfg: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build_train_dataset(make_cfg(**settings))


def test_missing_validation_path_is_named(make_cfg: Any, image_folder: Path) -> None:
    cfg = make_cfg(data__train_path=str(image_folder / "train"), data__val_path=str(image_folder / "test"))
    with pytest.raises(ValueError, match=r"data.val_path=.*test does not exist"):
        build_val_loader(cfg)


def test_dali_configurations_read_the_same_folders(folder_cfg: Any) -> None:
    folder_cfg.data.format = "dali"
    assert len(build_train_dataset(folder_cfg)) == 20


@pytest.mark.parametrize(
    ("name", "expected"),
    [("cifar10", 10), ("cifar100", 100), ("imagenet", 1000), ("imagenet100", 100), ("custom", 3)],
)
def test_classes_come_from_the_name_or_the_sub_folders(folder_cfg: Any, name: str, expected: int) -> None:
    folder_cfg.data.dataset = name
    assert num_classes(folder_cfg) == expected


def test_a_folder_without_classes_still_has_a_classifier(make_cfg: Any, image_folder: Path) -> None:
    assert num_classes(make_cfg(data__train_path=str(image_folder / "train" / "cat"))) == 1


def test_a_named_dataset_has_no_more_classes_than_its_name_says(make_cfg: Any, tmp_path: Path) -> None:
    for index in range(101):
        (tmp_path / f"n{index:03d}").mkdir()
        Image.new("RGB", (4, 4)).save(tmp_path / f"n{index:03d}" / "0.png")
    with pytest.raises(ValueError, match=r"101 classes, but data.dataset=imagenet100 has 100"):
        build_train_dataset(make_cfg(data__dataset="imagenet100", data__train_path=str(tmp_path)))
