"""Decoded images, in memory or on the training device: what comes out is what was in the files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from configs import make_config
from PIL import Image
from torch.utils.data import DataLoader
from torchvision.transforms import functional as F

from radial_vicreg.data import decoded as decoded_module
from radial_vicreg.data.batch_augmentation import BatchAugmentation
from radial_vicreg.data.decoded import CachedImages, DecodedImages, free_memory
from radial_vicreg.data.device_sets import DeviceTrainingSet, DeviceValidationSet
from radial_vicreg.data.folder import LabelledFolder
from radial_vicreg.errors import UserError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twenty JPEGs of different sizes in two classes."""
    rng = np.random.default_rng(0)
    for index in range(20):
        place = tmp_path / "images" / f"class_{index % 2}"
        place.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 256, (6 + index % 5, 9 + index % 3, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(place / f"{index:02d}.jpg")
    return tmp_path / "images"


def decode(dataset: Any, **settings: Any) -> DecodedImages:
    return DecodedImages(dataset, **{"threads": 2, "option": "data.cache=ram", **settings})


@pytest.mark.parametrize("block", [1024, 7, 1])
def test_images_of_any_size_come_back_bit_for_bit_without_their_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(decoded_module, "_BLOCK", block)
    expected = [(F.pil_to_tensor(image), target) for image, target in LabelledFolder(folder)]
    dataset = LabelledFolder(folder)
    cached = CachedImages(decode(dataset), F.pil_to_tensor)
    for path, _ in dataset.samples:
        Path(path).unlink()
    for index, (pixels, target) in enumerate(expected):
        assert torch.equal(cached[index][0], pixels)
        assert cached[index][1] == target
        assert type(cached[index][1]) is int


@pytest.mark.slow
def test_workers_see_the_same_images_however_they_are_started(folder: Path) -> None:
    dataset = LabelledFolder(folder)
    cached = CachedImages(decode(dataset), F.pil_to_tensor)
    loader = DataLoader(cached, batch_size=None, num_workers=2, multiprocessing_context="spawn")  # as macOS does
    for index, (pixels, target) in enumerate(loader):
        assert torch.equal(pixels, F.pil_to_tensor(dataset[index][0]))
        assert int(target) == dataset.targets[index]


def test_tensor_targets_stay_tensors() -> None:
    pairs = [(Image.new("RGB", (2, 2)), torch.tensor([index, 1.0])) for index in range(3)]
    assert torch.equal(CachedImages(decode(pairs), F.to_tensor)[2][1], torch.tensor([2.0, 1.0]))


@pytest.mark.parametrize("odd", [0, 25])
def test_images_of_two_sizes_are_refused_where_one_is_needed(make_folder: Callable[..., Path], odd: int) -> None:
    root = make_folder(a=40)
    Image.new("RGB", (8, 9)).save(root / "a" / f"{odd}.png")
    with pytest.raises(UserError, match=r"data.format=device needs images of one size.*8x8, 8x9.*data.cache=ram"):
        decode(LabelledFolder(root), option="data.format=device", same_size=True)


@pytest.mark.parametrize(("side", "copies"), [(1000, 1), (500, 2)])
def test_too_little_memory_is_an_error_before_the_images_are_decoded(
    folder: Path, monkeypatch: pytest.MonkeyPatch, side: int, copies: int
) -> None:
    opened: list[int] = []

    def read(self: LabelledFolder, index: int) -> tuple[Image.Image, int]:
        opened.append(index)
        return Image.new("RGB", (side, 1000)), 0

    monkeypatch.setattr(LabelledFolder, "__getitem__", read)
    monkeypatch.setattr(decoded_module, "free_memory", lambda: 40 * 2**20)
    with pytest.raises(UserError, match=r"data.cache=ram needs 57.2 MiB for the pixels, but 40.0 MiB of memory"):
        decode(LabelledFolder(folder), copies=copies)
    assert len(opened) < 20


def test_free_memory_is_the_control_groups_where_that_is_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = free_memory()
    limit, used = tmp_path / "limit", tmp_path / "used"
    limit.write_text("5000000\n")
    used.write_text("1000000\n")
    monkeypatch.setattr(decoded_module, "_CGROUPS", ((str(limit), str(used)),))
    assert free_memory() == 4_000_000
    limit.write_text("max\n")
    unlimited = free_memory()
    assert (unlimited is None) == (machine is None)
    assert unlimited is None or unlimited > 4_000_000


# ---- on the training device ----

AUGMENTED = make_config().augmentations[0]
BARE = make_config(augmentations=[{"crop_size": 32, "num_crops": 2}]).augmentations[0]
SMALL = make_config(augmentations__0__crop_size=16).augmentations[0]


@pytest.fixture(params=[1024, 5])
def levels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> DecodedImages:
    """Image ``i`` of 12 is all of level ``10 i`` and has the target ``i``."""
    monkeypatch.setattr(decoded_module, "_BLOCK", request.param)
    pairs = [(Image.new("RGB", (8, 8), (10 * index,) * 3), index) for index in range(12)]
    return decode(pairs, option="data.format=device", same_size=True)


def test_a_batch_holds_the_images_that_were_asked_for(levels: DecodedImages) -> None:
    dataset = DeviceTrainingSet(levels, False, [BatchAugmentation("custom", BARE)], [2])
    indexes, crops, targets = dataset.collate([3, 11, 0])
    assert not levels.blocks  # handed over
    assert indexes.tolist() == targets.tolist() == [3, 11, 0]
    assert [crop.shape for crop in crops] == [(3, 3, 32, 32)] * 2
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    for crop in crops:
        found = (crop.permute(0, 2, 3, 1) * std + mean) * 255
        assert torch.allclose(found, torch.tensor([30.0, 110.0, 0.0]).view(3, 1, 1, 1).expand_as(found), atol=1e-3)


def test_pipelines_give_their_numbers_of_crops_in_order_by_the_seed_alone(levels: DecodedImages) -> None:
    pipelines = [BatchAugmentation("custom", augmentation) for augmentation in (AUGMENTED, SMALL)]
    dataset = DeviceTrainingSet(levels, False, pipelines, [2, 3])
    draws = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        _, crops, _ = dataset.collate([7, 8, 9, 10])
        assert [crop.shape[-1] for crop in crops] == [32, 32, 16, 16, 16]
        assert not torch.equal(crops[0], crops[1])
        draws.append(torch.cat(crops[:2]))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


def test_validation_images_are_only_normalised(levels: DecodedImages) -> None:
    images, targets = DeviceValidationSet(levels, False, "cifar10", AUGMENTED).collate([5])
    assert targets.tolist() == [5]
    assert images.shape == (1, 3, 8, 8)
    assert images[0, 0, 0, 0] == pytest.approx((50 / 255 - 0.4914) / 0.2470, abs=1e-6)


@pytest.mark.gpu
def test_a_batch_on_a_gpu_never_waits_for_it(levels: DecodedImages) -> None:
    dataset = DeviceTrainingSet(levels, True, [BatchAugmentation("custom", AUGMENTED)], [2])
    dataset.collate([0])  # moves pixels and constants
    torch.cuda.set_sync_debug_mode("error")
    try:
        _, crops, targets = dataset.collate([1, 2, 3])
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert crops[0].is_cuda
    assert targets.tolist() == [1, 2, 3]
