"""The images of a run: solo-learn's batches bit for bit, validation at the training resolution, errors by name."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from configs import make_config, solo_form
from PIL import Image
from torch.utils.data import DataLoader
from torchvision.transforms import functional as F

from radial_vicreg.config import AugmentationConfig, RunConfig
from radial_vicreg.data.build import open_data
from radial_vicreg.data.loader import build_val_loader
from radial_vicreg.errors import UserError

MakeConfig = Callable[..., RunConfig]

# solo-learn's loader pins memory whether or not there is a GPU.
pytestmark = pytest.mark.filterwarnings("ignore:.*pin_memory")


@pytest.fixture
def folder_config(noise_folder: Path) -> MakeConfig:
    return partial(make_config, data__train_path=str(noise_folder / "train"), data__val_path=str(noise_folder / "val"))


# ---- the real solo-learn ----


def two_epochs(loader: Any) -> list[list[Any]]:
    random.seed(7)
    np.random.seed(7)
    torch.manual_seed(7)
    return [batch for _ in range(2) for batch in loader]


def assert_batches_are_solo_learns(config: RunConfig) -> list[Any]:
    """Compare two epochs in solo-learn's order, a plain random sampler's; return the crops of a batch."""
    pretrain = pytest.importorskip("solo.data.pretrain_dataloader")
    cfg = solo_form(config)
    pipelines = [
        pretrain.NCropAugmentation(pretrain.build_transform_pipeline(cfg.data.dataset, aug), aug.num_crops)
        for aug in cfg.augmentations
    ]
    dataset = pretrain.prepare_datasets(
        cfg.data.dataset,
        pretrain.FullTransformPipeline(pipelines),
        train_data_path=cfg.data.train_path,
        no_labels=cfg.data.get("no_labels", False),
        download=False,
        data_fraction=cfg.data.get("fraction", -1),
    )
    theirs = two_epochs(pretrain.prepare_dataloader(dataset, batch_size=cfg.optimizer.batch_size, num_workers=0))
    ours = two_epochs(
        DataLoader(open_data(config).training_set(), config.optimizer.batch_size, shuffle=True, drop_last=True)
    )
    assert len(ours) == len(theirs) > 0
    for (index, crops, target), (expected_index, expected_crops, expected_target) in zip(ours, theirs, strict=True):
        assert torch.equal(index, expected_index)
        assert torch.equal(target, expected_target)
        assert all(torch.equal(crop, expected) for crop, expected in zip(crops, expected_crops, strict=True))
    return list(ours[0][1])


@pytest.mark.solo
def test_two_pipelines_with_own_statistics_equal_solo_learns(folder_config: MakeConfig) -> None:
    config = folder_config()
    content = config.plain()["augmentations"][0] | {"mean": [0.4, 0.5, 0.6], "std": [0.1, 0.2, 0.3]}
    content |= {"color_jitter": {"prob": 0.0}, "gaussian_blur": {"prob": 1.0}, "crop_size": 24, "num_crops": 3}
    both = (*config.augmentations, AugmentationConfig.model_validate(content))
    crops = assert_batches_are_solo_learns(config.model_copy(update={"augmentations": both}))
    assert [tuple(crop.shape[2:]) for crop in crops] == [(32, 32)] * 2 + [(24, 24)] * 3


@pytest.mark.solo
def test_cifar_batches_equal_solo_learns(cifar_root: Path) -> None:
    cifar = {"data__dataset": "cifar10", "data__train_path": str(cifar_root), "optimizer__batch_size": 8}
    assert_batches_are_solo_learns(make_config(**cifar))


@pytest.mark.solo
def test_a_fraction_of_unlabelled_images_equals_solo_learns(
    noise_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = noise_folder / "train" / "cat"
    # solo-learn takes the images in the file system's order; ours is sorted.
    names = sorted(p.name for p in path.iterdir())
    monkeypatch.setattr("solo.data.pretrain_dataloader.os.listdir", lambda root: names)
    config = make_config(data__train_path=str(path), data__no_labels=True, data__fraction=0.6)
    assert_batches_are_solo_learns(config)


# ---- validation ----


@pytest.mark.parametrize(("crop_size", "shorter"), [(32, 32), (63, 63), (64, 73), (224, 256)])
def test_validation_is_at_the_training_resolution_with_imagenets_margin_for_large_crops(
    folder_config: MakeConfig, crop_size: int, shorter: int
) -> None:
    data = open_data(folder_config(augmentations__0__crop_size=crop_size))
    resize, _ = data.val_transform().transforms[1:3]
    assert resize.size == shorter
    images = data.validation_set()
    assert images is not None
    assert images[0][0].shape == (3, crop_size, crop_size)


def test_cifar_is_validated_untouched_and_normalised_as_in_training() -> None:
    image = Image.effect_noise((32, 32), 60).convert("RGB")
    transform = open_data(make_config(data__dataset="cifar100")).val_transform()
    expected = F.normalize(F.to_tensor(image), (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762))
    assert torch.equal(transform(image), expected)


def test_cifar_has_both_splits_under_the_training_path_and_takes_a_fraction(cifar_root: Path) -> None:
    cifar = {"data__dataset": "cifar10", "data__train_path": str(cifar_root), "data__fraction": 0.5}
    data = open_data(make_config(**cifar))
    assert len(data.training_set()) == 20
    assert len(data.validation_set()) == 10  # type: ignore[arg-type]


@pytest.mark.parametrize("settings", [{"data__val_path": None}, {"data__no_labels": True}])
def test_no_validation_without_a_path_or_labels(folder_config: MakeConfig, settings: dict[str, Any]) -> None:
    data = open_data(folder_config(**settings))
    assert data.validation_set() is None
    assert build_val_loader(data.config, data) is None


def test_validation_is_complete_and_in_order(folder_config: MakeConfig) -> None:
    dali = open_data(folder_config(data__format="dali"))  # as of a run of solo-learn's: the same folders
    batches = list(build_val_loader(folder_config(), dali) or [])
    assert torch.cat([targets for _, targets in batches]).tolist() == [0, 0, 1, 1, 2, 2]
    assert [len(targets) for _, targets in batches] == [4, 2]


# ---- training set ----


def test_pipeline_survives_workers(folder_config: MakeConfig) -> None:
    pickle.dumps(open_data(folder_config()).training_set())


def test_fraction_is_stratified(folder_config: MakeConfig) -> None:
    targets = [target for _, _, target in open_data(folder_config(data__fraction=0.5)).training_set()]  # type: ignore[attr-defined]
    assert [targets.count(i) for i in range(3)] in ([4, 3, 3], [4, 4, 2])


def open_both_sets(config: RunConfig) -> None:
    data = open_data(config)
    data.training_set()
    data.validation_set()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"data__train_path": None}, "data.train_path is not set"),
        ({"data__train_path": "/nowhere/at/all"}, "data.train_path=/nowhere/at/all does not exist"),
        ({"data__val_path": "/nowhere/at/all"}, "data.val_path=/nowhere/at/all does not exist"),
        ({"data__fraction": 1}, r"data\.fraction=1"),
        ({"data__dataset": "stl10"}, "data.dataset='stl10'.*cifar10, cifar100.*custom; .*main_pretrain.py reads it"),
        ({"data__dataset": "cifar11"}, "did you mean cifar10"),
        ({"data__dataset": "digits"}, "digits is a folder of images, data.dataset=custom: radialvicreg/dataset=digits"),
        ({"data__format": "h5"}, "data.format='h5'"),
    ],
)
def test_wrong_data_settings_are_named(folder_config: MakeConfig, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        open_both_sets(folder_config(**settings))


def test_classes_come_from_the_name_or_the_sub_folders(folder_config: MakeConfig, noise_folder: Path) -> None:
    for name, expected in (("cifar100", 100), ("imagenet", 1000), ("imagenet100", 100), ("celeba", 40), ("custom", 3)):
        config = folder_config(data__dataset=name, data__multi_label=name == "celeba")
        assert open_data(config).num_classes == expected, name
    flat = make_config(data__train_path=str(noise_folder / "train" / "cat"))
    assert open_data(flat).num_classes == 1  # a classifier all the same


def test_a_named_dataset_has_no_more_classes_than_its_name_says(tmp_path: Path) -> None:
    for index in range(101):
        (tmp_path / f"n{index:03d}").mkdir()
        Image.new("RGB", (4, 4)).save(tmp_path / f"n{index:03d}" / "0.png")
    with pytest.raises(UserError, match=r"101 classes, but data.dataset=imagenet100 has 100"):
        open_data(make_config(data__dataset="imagenet100", data__train_path=str(tmp_path))).training_set()
