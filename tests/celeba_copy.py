"""A small CelebA whose images say what their attributes are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

ATTRIBUTES = 40
_BLOCK = 8  # pixels of one attribute's square, which survives JPEG


def attributes_of(number: int) -> np.ndarray:
    """Attributes of an image by its number: random, but always the same."""
    return np.random.default_rng(number).integers(0, 2, ATTRIBUTES)


def encoded_image(attributes: np.ndarray) -> Image.Image:
    """A picture of 8 x 5 squares, white for an attribute that is there and black for one that is not."""
    squares = attributes.reshape(5, 8).astype(np.uint8) * 255
    return Image.fromarray(np.kron(squares, np.ones((_BLOCK, _BLOCK), dtype=np.uint8))).convert("RGB")


def decoded(image: Image.Image) -> Tensor:
    """The attributes that a picture shows, float32, shape ``(40,)``."""
    grey = np.asarray(image.convert("L"), dtype=float)
    return torch.from_numpy((grey[_BLOCK // 2 :: _BLOCK, _BLOCK // 2 :: _BLOCK] > 127).ravel()).float()


def write_copy(root: Path, counts: tuple[int, int, int] = (12, 6, 4), as_csv: bool = False) -> Path:
    """Writes a downloaded copy as its authors (or Kaggle, ``as_csv``) lay it out; images of the splits alternate."""
    images = root / ("img_align_celeba/img_align_celeba" if as_csv else "img_align_celeba")
    images.mkdir(parents=True)
    left = list(counts)
    names, splits = [], []
    for number in range(1, sum(counts) + 1):
        split = max(range(3), key=lambda index: left[index])
        left[split] -= 1
        names.append(f"{number:06d}.jpg")
        splits.append(split)
        encoded_image(attributes_of(number)).save(images / names[-1], quality=95)
    labels = [f"Attribute_{index}" for index in range(ATTRIBUTES)]
    signs = [[str(2 * value - 1) for value in attributes_of(int(name[:6]))] for name in names]
    if as_csv:
        rows = [",".join(["image_id", *labels]), *(",".join([n, *s]) for n, s in zip(names, signs, strict=True))]
        (root / "list_attr_celeba.csv").write_text("\n".join(rows) + "\n")
        rows = ["image_id,partition", *(f"{n},{s}" for n, s in zip(names, splits, strict=True))]
        (root / "list_eval_partition.csv").write_text("\n".join(rows) + "\n")
    else:
        rows = [str(len(names)), " ".join(labels), *(f"{n}  {' '.join(s)}" for n, s in zip(names, signs, strict=True))]
        (root / "list_attr_celeba.txt").write_text("\n".join(rows) + "\n")
        (root / "list_eval_partition.txt").write_text("".join(f"{n} {s}\n" for n, s in zip(names, splits, strict=True)))
    return root
