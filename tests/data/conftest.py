from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image


@pytest.fixture
def make_folder(tmp_path: Path) -> Callable[..., Path]:
    """Writes an image folder: keyword arguments are classes, values their numbers of PNG images."""

    def make(name: str = "images", **counts: int) -> Path:
        rng = np.random.default_rng(0)
        root = tmp_path / name
        root.mkdir()
        for class_name, count in counts.items():
            (root / class_name).mkdir()
            for index in range(count):
                pixels = rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(root / class_name / f"{index}.png")
        return root

    return make
