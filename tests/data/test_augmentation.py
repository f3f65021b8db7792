"""The random crops of an image."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from configs import make_config, solo_form
from PIL import Image
from torchvision.transforms import functional as F

from radial_vicreg.data.augmentation import MultiCrop, build_augmentation
from radial_vicreg.errors import UserError


def seed(value: int) -> None:
    random.seed(value)
    np.random.seed(value)
    torch.manual_seed(value)


@pytest.mark.solo
@pytest.mark.parametrize("cropped", [True, False])
@pytest.mark.parametrize("name", ["cifar10", "cifar100", "imagenet", "imagenet100", "custom"])
def test_crops_of_every_named_dataset_equal_solo_learns(name: str, cropped: bool) -> None:
    pretrain = pytest.importorskip("solo.data.pretrain_dataloader")
    image = Image.effect_noise((50, 40), 60).convert("RGB")
    config = make_config(augmentations__0__rrc__enabled=cropped)
    seed(1)
    ours = build_augmentation(name, config.augmentations[0])(image)
    seed(1)
    assert torch.equal(ours, pretrain.build_transform_pipeline(name, solo_form(config).augmentations[0])(image))


OPERATIONS = ("color_jitter", "grayscale", "gaussian_blur", "solarization", "equalization", "horizontal_flip")


def crops_of_both(image: Image.Image, draw: int, **probabilities: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Our crop and solo-learn's of the same draw; an operation without a probability is off."""
    pretrain = pytest.importorskip("solo.data.pretrain_dataloader")
    given = {f"augmentations__0__{name}__prob": probabilities.get(name, 0.0) for name in OPERATIONS}
    config = make_config(**given)
    seed(draw)
    ours = build_augmentation("custom", config.augmentations[0])(image)
    seed(draw)
    return ours, pretrain.build_transform_pipeline("custom", solo_form(config).augmentations[0])(image)


@pytest.mark.solo
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_that_always_happens_is_solo_learns(operation: str) -> None:
    image = Image.effect_noise((50, 40), 60).convert("RGB")
    for draw in range(5):
        ours, theirs = crops_of_both(image, draw, **{operation: 1.0})
        assert torch.equal(ours, theirs)
        assert operation == "grayscale" or not torch.equal(ours, crops_of_both(image, draw)[0])  # the noise is grey


@pytest.mark.solo
def test_every_operation_has_its_own_probability_as_solo_learns() -> None:
    image = Image.effect_noise((50, 40), 60).convert("RGB")
    for position, operation in enumerate(OPERATIONS):  # each is the rarest once
        probabilities = {name: 0.5 + 0.08 * (index - position) for index, name in enumerate(OPERATIONS)}
        probabilities[operation] = 0.05
        for draw in range(12):
            ours, theirs = crops_of_both(image, draw, **probabilities)
            assert torch.equal(ours, theirs), f"draw {draw}, {operation} rarely"


def test_blur_off_draws_nothing_from_pythons_generator() -> None:
    config = make_config(augmentations__0__gaussian_blur__prob=0.0)
    state = random.getstate()
    build_augmentation("custom", config.augmentations[0])(Image.new("RGB", (40, 40)))
    assert random.getstate() == state


def test_absent_operations_are_off() -> None:
    bare = make_config(augmentations=[{"crop_size": 32, "num_crops": 2, "rrc": {"enabled": False}}]).augmentations[0]
    image = Image.effect_noise((32, 32), 60).convert("RGB")
    plain = build_augmentation("cifar10", bare)
    assert len(plain.transforms) == 3
    assert torch.equal(plain(image), plain(image))


def test_crops_come_in_the_order_of_the_pipelines() -> None:
    image = Image.new("RGB", (4, 4))
    crops = MultiCrop([lambda _: torch.zeros(1), lambda _: torch.ones(1)], [1, 2])(image)
    assert [float(crop) for crop in crops] == [0, 1, 1]


def test_number_of_crops_is_needed_for_each_pipeline() -> None:
    with pytest.raises(UserError, match=r"1 pipelines but 2 numbers"):
        MultiCrop([F.to_tensor], [1, 2])
