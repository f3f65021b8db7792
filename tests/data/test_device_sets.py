"""Data sets that live on the training device."""

from __future__ import annotations

import pytest
import torch
from configs import make_config
from PIL import Image

from radial_vicreg.data.batch_augmentation import BatchAugmentation
from radial_vicreg.data.decoded import DecodedImages
from radial_vicreg.data.device_sets import DeviceTrainingSet, DeviceValidationSet

BARE = make_config(augmentations=[{"crop_size": 32, "num_crops": 2}]).augmentations[0]
AUGMENTED = make_config().augmentations[0]


class Pictures(torch.utils.data.Dataset[tuple[Image.Image, int]]):
    """Image ``i`` is all of level ``10 i`` and has the target ``i``."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        return Image.new("RGB", (8, 8), (10 * index,) * 3), index


@pytest.fixture
def decoded() -> DecodedImages:
    return DecodedImages(Pictures(), threads=1, option="data.format=device", same_size=True)


def test_a_batch_holds_the_images_that_were_asked_for(decoded: DecodedImages) -> None:
    dataset = DeviceTrainingSet(decoded, False, [BatchAugmentation("custom", BARE)], [2])
    indexes, crops, targets = dataset.collate([3, 11, 0])
    assert indexes.tolist() == targets.tolist() == [3, 11, 0]
    assert [crop.shape for crop in crops] == [(3, 3, 32, 32)] * 2
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    for crop in crops:
        levels = (crop.permute(0, 2, 3, 1) * std + mean) * 255
        assert torch.allclose(levels, torch.tensor([30.0, 110.0, 0.0]).view(3, 1, 1, 1).expand_as(levels), atol=1e-3)


def test_pipelines_give_their_numbers_of_crops_in_order(decoded: DecodedImages) -> None:
    pipelines = [
        BatchAugmentation("custom", make_config(augmentations__0__crop_size=size).augmentations[0]) for size in (32, 16)
    ]
    _, crops, _ = DeviceTrainingSet(decoded, False, pipelines, [2, 3]).collate([0, 1])
    assert [crop.shape[-1] for crop in crops] == [32, 32, 16, 16, 16]
    assert not torch.equal(crops[0], crops[1])


def test_validation_images_are_only_normalised(decoded: DecodedImages) -> None:
    images, targets = DeviceValidationSet(decoded, False, "cifar10", AUGMENTED).collate([5])
    assert targets.tolist() == [5]
    assert images.shape == (1, 3, 8, 8)
    assert images[0, 0, 0, 0] == pytest.approx((50 / 255 - 0.4914) / 0.2470, abs=1e-6)


def test_the_same_seed_gives_the_same_crops_and_another_seed_others(decoded: DecodedImages) -> None:
    dataset = DeviceTrainingSet(decoded, False, [BatchAugmentation("custom", AUGMENTED)], [2])
    draws = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        draws.append(torch.cat(dataset.collate([7, 8, 9, 10])[1]))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


@pytest.mark.gpu
def test_a_batch_on_a_gpu_never_waits_for_it(decoded: DecodedImages) -> None:
    dataset = DeviceTrainingSet(decoded, True, [BatchAugmentation("custom", AUGMENTED)], [2])
    dataset.collate([0])  # moves pixels and constants
    torch.cuda.set_sync_debug_mode("error")
    try:
        _, crops, targets = dataset.collate([1, 2, 3])
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert crops[0].is_cuda
    assert targets.tolist() == [1, 2, 3]
