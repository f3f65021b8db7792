"""The batched operations against Pillow's, image by image."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFilter, ImageOps
from torch import Tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as F

from radial_vicreg.config.sections import ColorJitter as ColorJitterConfig
from radial_vicreg.data import batch_ops
from radial_vicreg.data.batch_augmentation import ColorJitter

COUNT, SIZE = 24, 32


def to_tensor(images: list[Image.Image]) -> Tensor:
    return torch.stack([torch.from_numpy(np.array(image)).permute(2, 0, 1) for image in images]).float()


def make_pictures() -> list[Image.Image]:
    """Smooth colours, hard edges and noise."""
    rng = np.random.default_rng(0)
    coarse = [Image.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)) for _ in range(COUNT)]
    pictures = [image.resize((SIZE, SIZE), Image.Resampling.BICUBIC) for image in coarse]
    for image in pictures[::3]:
        image.paste((250, 10, 120), (4, 4, 12, 20))
    noise = rng.integers(0, 256, (SIZE, SIZE, 3), dtype=np.uint8)
    return [*pictures[:-1], Image.fromarray(noise)]


PICTURES = make_pictures()
PIXELS = to_tensor(PICTURES)


def assert_close(found: Tensor, expected: Tensor, levels: int, exceptions: float = 0.0) -> None:
    difference = (found - expected).abs()
    share = float((difference > levels).float().mean())
    assert share <= exceptions, f"{share:.2%} of the pixels differ by more than {levels}, at most {difference.max()}"
    assert torch.equal(found, found.round())
    assert 0 <= float(found.min()) <= float(found.max()) <= 255


def parameters(low: float, high: float, count: int = COUNT) -> Tensor:
    return low + (high - low) * torch.rand(count, generator=torch.Generator().manual_seed(1))


def tone(which: int, images: Tensor, factor: Tensor) -> Tensor:
    return batch_ops.adjust_tone(images, torch.full((len(images),), which), factor)


@pytest.mark.parametrize(
    ("operation", "reference", "low", "high", "exceptions"),
    [
        (partial(tone, batch_ops.BRIGHTNESS), F.adjust_brightness, 0.0, 2.0, 0.0),
        (partial(tone, batch_ops.CONTRAST), F.adjust_contrast, 0.0, 2.0, 0.0),
        (partial(tone, batch_ops.SATURATION), F.adjust_saturation, 0.0, 2.0, 0.0),
        (batch_ops.gaussian_blur, lambda x, v: x.filter(ImageFilter.GaussianBlur(v)), 0.1, 2.0, 0.0),
        (batch_ops.shift_hue, F.adjust_hue, -0.5, 0.5, 2e-3),  # bytes that round the other way
    ],
    ids=["brightness", "contrast", "saturation", "blur", "hue"],
)
def test_an_operation_with_a_parameter_equals_pillows(
    operation: Callable[[Tensor, Tensor], Tensor],
    reference: Callable[[Image.Image, float], Image.Image],
    low: float,
    high: float,
    exceptions: float,
) -> None:
    values = parameters(low, high)
    expected = to_tensor([reference(image, float(v)) for image, v in zip(PICTURES, values, strict=True)])
    assert_close(operation(PIXELS, values), expected, levels=1, exceptions=exceptions)


def of_levels(*levels: int) -> Image.Image:
    return Image.fromarray(np.resize(np.array(levels, dtype=np.uint8), (SIZE, SIZE, 3)))


@pytest.mark.parametrize(
    ("operation", "reference"),
    [
        (lambda x: batch_ops.grey(x).expand_as(x), lambda image: F.to_grayscale(image, 3)),
        (lambda x: batch_ops.solarize(x, 128), ImageOps.solarize),
        (batch_ops.equalize, ImageOps.equalize),
    ],
    ids=["grayscale", "solarize", "equalize"],
)
def test_an_operation_without_a_parameter_is_pillows(
    operation: Callable[[Tensor], Tensor], reference: Callable[[Image.Image], Image.Image]
) -> None:
    pictures = [*PICTURES, of_levels(7), of_levels(0, 255), of_levels(0, 1, 2, 3)]
    assert torch.equal(operation(to_tensor(pictures)), to_tensor([reference(image) for image in pictures]))


@settings(deadline=None)
@given(
    st.tuples(st.integers(1, SIZE), st.integers(1, SIZE)),
    st.tuples(st.floats(0, 1), st.floats(0, 1)),
    st.integers(1, 48),
)
def test_a_resized_crop_is_pillows_whether_enlarged_or_reduced(
    sides: tuple[int, int], place: tuple[float, float], size: int
) -> None:
    (height, width), (top, left) = sides, (int(part * (SIZE - side)) for part, side in zip(place, sides, strict=True))
    box = torch.tensor([top, left, height, width], dtype=torch.float32)
    few = PICTURES[-8:]
    found = batch_ops.resized_crop(PIXELS[-8:].byte(), box.expand(8, 4), (size, size))
    cuts = [image.crop((left, top, left + width, top + height)) for image in few]
    # Pillow rounds and clips between its two passes, and chooses their order by cost; ours goes along the rows first.
    two_steps = [cut.resize((size, height), Image.BICUBIC).resize((size, size), Image.BICUBIC) for cut in cuts]
    assert_close(found, to_tensor(two_steps), levels=1, exceptions=1e-3)


def test_crops_of_the_paper_are_torchvisions() -> None:
    sides = [(height, width) for height in (14, 20, 26, 32) for width in (15, 20, 25, 32)]
    boxes = [(SIZE - height, (SIZE - width) // 2, height, width) for height, width in sides]
    found = batch_ops.resized_crop(PIXELS[: len(boxes)], torch.tensor(boxes).float(), (SIZE, SIZE))
    pairs = zip(PICTURES, boxes, strict=False)
    cuts = [F.resized_crop(image, *box, [SIZE, SIZE], InterpolationMode.BICUBIC) for image, box in pairs]
    assert_close(found, to_tensor(cuts), levels=1, exceptions=1e-3)


def test_the_four_operations_of_the_jitter_run_in_each_images_order() -> None:
    jitter = ColorJitter(ColorJitterConfig(brightness=0.4, contrast=0.4, saturation=0.2, hue=0.1))
    orders = list(itertools.permutations(range(4)))
    assert len(orders) == COUNT
    hue = 3
    factors = torch.stack([parameters(0.6, 1.4), parameters(0.6, 1.4).flip(0), parameters(0.8, 1.2)], dim=1)
    shift = parameters(-0.1, 0.1)
    expected = []
    for image, order, row, turn in zip(PICTURES, orders, factors.tolist(), shift.tolist(), strict=True):
        steps = (F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue)
        for number in order:
            image = steps[number](image, turn if number == hue else row[number])
        expected.append(image)
    tones = torch.tensor([[number for number in order if number != hue] for order in orders])
    before = torch.tensor([order.index(hue) for order in orders])
    # A hue that rounds the other way is amplified by what comes after it.
    found = jitter.apply(PIXELS, tones, factors, before, shift)
    assert_close(found, to_tensor(expected), levels=2, exceptions=2e-3)
