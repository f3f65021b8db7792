"""Folders as people have them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

SUFFIXES = ("jpg", "PNG", "webp", "JPEG", "bmp", "tiff")


def _image(index: int, rng: np.random.Generator) -> Image.Image:
    """An image of one of many sizes and modes."""
    width, height = (int(side) for side in rng.integers(20, 90, 2))
    pixels = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    if index % 6 == 5:  # 16-bit grey, in a TIFF
        return Image.fromarray(rng.integers(0, 65536, (height, width), dtype=np.uint16))
    image = Image.fromarray(pixels)
    return image.convert("RGBA") if index % 6 == 1 else image


@pytest.fixture
def photos(tmp_path: Path) -> Callable[..., Path]:
    """Writes images of any size, type and mode, by class; a class named "" lies directly in the folder."""

    def make(**counts: int) -> Path:
        rng = np.random.default_rng(0)
        root = tmp_path / "my photos"
        for label, count in counts.items():
            folder = root if label == "none" else root / label
            folder.mkdir(parents=True)
            for index in range(count):
                suffix = SUFFIXES[index % len(SUFFIXES)]
                _image(index, rng).save(folder / f"{index:04d}.{suffix}")
        return root

    return make
