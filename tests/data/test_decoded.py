"""Decoded images: what comes out is what was in the files, and memory is asked for first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader
from torchvision.transforms import functional as F

from radial_vicreg.data import decoded as decoded_module
from radial_vicreg.data.decoded import CachedImages, DecodedImages, free_memory
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


def same(left: Image.Image, right: Image.Image) -> bool:
    return (left.mode, left.size, left.tobytes()) == (right.mode, right.size, right.tobytes())


@pytest.mark.parametrize("block", [1024, 7, 1])
@pytest.mark.parametrize("threads", [0, 3])
def test_images_of_any_size_come_back_bit_for_bit(
    folder: Path, monkeypatch: pytest.MonkeyPatch, block: int, threads: int
) -> None:
    monkeypatch.setattr(decoded_module, "_BLOCK", block)
    dataset = LabelledFolder(folder)
    decoded = decode(dataset, threads=threads)
    assert len(decoded) == 20
    assert decoded.targets.tolist() == dataset.targets
    assert all(same(decoded[index], dataset[index][0]) for index in range(20))


def test_files_are_not_opened_again(folder: Path) -> None:
    dataset = LabelledFolder(folder)
    cached = CachedImages(decode(dataset), F.to_tensor)
    for path, _ in dataset.samples:
        Path(path).unlink()
    assert [cached[index][1] for index in range(20)] == [0] * 10 + [1] * 10
    assert type(cached[0][1]) is int


@pytest.mark.parametrize("start", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_workers_see_the_same_images_however_they_are_started(folder: Path, start: str) -> None:
    dataset = LabelledFolder(folder)
    cached = CachedImages(decode(dataset), F.pil_to_tensor)
    loader = DataLoader(cached, batch_size=None, num_workers=2, multiprocessing_context=start)
    for index, (pixels, target) in enumerate(loader):
        assert torch.equal(pixels, F.pil_to_tensor(dataset[index][0]))
        assert int(target) == dataset.targets[index]


def test_tensor_targets_stay_tensors() -> None:
    class Attributes(torch.utils.data.Dataset):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> tuple[Image.Image, torch.Tensor]:
            return Image.new("RGB", (2, 2)), torch.tensor([index, 1.0])

    target = CachedImages(decode(Attributes()), F.to_tensor)[2][1]
    assert torch.equal(target, torch.tensor([2.0, 1.0]))


@pytest.mark.parametrize("block", [1024, 3])
def test_pixels_of_one_size_are_handed_over_as_one_tensor(
    make_folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(decoded_module, "_BLOCK", block)
    dataset = LabelledFolder(make_folder(a=4, b=3))
    decoded = decode(dataset, same_size=True)
    pixels = decoded.move_to(torch.device("cpu"))
    assert torch.equal(pixels, torch.stack([F.pil_to_tensor(dataset[index][0]) for index in range(7)]))
    assert not decoded.blocks


@pytest.mark.parametrize("odd", [0, 25])
def test_images_of_two_sizes_are_refused_where_one_is_needed(make_folder: Callable[..., Path], odd: int) -> None:
    root = make_folder(a=40)
    Image.new("RGB", (8, 9)).save(root / "a" / f"{odd}.png")
    with pytest.raises(UserError, match=r"data.format=device needs images of one size.*8x8, 8x9.*data.cache=ram"):
        decode(LabelledFolder(root), option="data.format=device", same_size=True)


@pytest.mark.parametrize(("side", "copies", "needed"), [(1000, 1, "57.2"), (500, 2, "57.2")])
def test_too_little_memory_is_an_error_before_the_images_are_decoded(
    folder: Path, monkeypatch: pytest.MonkeyPatch, side: int, copies: int, needed: str
) -> None:
    dataset = LabelledFolder(folder)
    opened: list[int] = []
    monkeypatch.setattr(
        type(dataset), "__getitem__", lambda self, index: opened.append(index) or (Image.new("RGB", (side, 1000)), 0)
    )
    monkeypatch.setattr(decoded_module, "free_memory", lambda: 40 * 2**20)
    with pytest.raises(UserError, match=rf"data.cache=ram needs {needed} MiB for the pixels, but 40.0 MiB of memory"):
        decode(dataset, copies=copies)
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
