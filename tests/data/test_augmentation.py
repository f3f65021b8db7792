"""The random crops of an image."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from configs import make_config, solo_form
from PIL import Image

from radial_vicreg.data.augmentation import build_augmentation

OPERATIONS = ("color_jitter", "grayscale", "gaussian_blur", "solarization", "equalization", "horizontal_flip")
IMAGE = Image.effect_noise((50, 40), 60).convert("RGB")


def seed(value: int) -> None:
    random.seed(value)
    np.random.seed(value)
    torch.manual_seed(value)


def assert_crop_is_solo_learns(name: str, draw: int, **settings: object) -> None:
    pretrain = pytest.importorskip("solo.data.pretrain_dataloader")
    config = make_config(**{f"augmentations__0__{key}": value for key, value in settings.items()})
    seed(draw)
    ours = build_augmentation(name, config.augmentations[0])(IMAGE)
    seed(draw)
    theirs = pretrain.build_transform_pipeline(name, solo_form(config).augmentations[0])(IMAGE)
    assert torch.equal(ours, theirs), f"{name}, draw {draw}, {settings}"


@pytest.mark.solo
@pytest.mark.parametrize("cropped", [True, False])
def test_crops_of_every_named_dataset_equal_solo_learns(cropped: bool) -> None:
    for name in ("cifar10", "cifar100", "imagenet", "imagenet100", "custom"):
        assert_crop_is_solo_learns(name, 1, rrc__enabled=cropped)


@pytest.mark.solo
@pytest.mark.parametrize("rare", range(len(OPERATIONS)), ids=OPERATIONS)
def test_every_operation_has_its_own_probability_as_solo_learns(rare: int) -> None:
    probabilities = {f"{name}__prob": 0.5 + 0.08 * (index - rare) for index, name in enumerate(OPERATIONS)}
    for probability in (0.0, 0.05):  # one that is off draws no random numbers
        for draw in range(6):
            assert_crop_is_solo_learns("custom", draw, **{**probabilities, f"{OPERATIONS[rare]}__prob": probability})


def test_absent_operations_are_off() -> None:
    bare = make_config(augmentations=[{"crop_size": 32, "num_crops": 2, "rrc": {"enabled": False}}]).augmentations[0]
    plain = build_augmentation("cifar10", bare)
    assert len(plain.transforms) == 3
    assert torch.equal(plain(IMAGE), plain(IMAGE))
