"""scikit-learn's handwritten digits as an image folder: real images that need no download."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from radial_vicreg.data.staging import claim_folder, prepare_folder
from radial_vicreg.errors import UserError

_VAL_FRACTION = 0.2
_SPLIT_SEED = 0
_LARGEST_PIXEL = 16  # the digits' grey values are 0..16


def prepare_digits(out: str | Path, size: int = 32, replace: bool = False) -> Path:
    """Write the 1,797 digits as ``out/{train,val}/{0..9}/*.png``. Repeating it does nothing.

    The 8 x 8 images are enlarged by bicubic interpolation. The split is stratified and always the same: 1,437
    for training, 360 for validation.

    Args:
        out: the folder to write; it appears only when complete.
        size: side of the images in pixels, at least 8.
        replace: move a folder that holds something else, or lacks images, aside.

    Returns:
        ``out``.

    Raises:
        UserError: ``size`` is below 8, or ``out`` holds something else or lacks images.
    """
    if size < 8:
        raise UserError(f"size={size}: expected 8 or more, since the digits have 8 x 8 pixels")
    folder = claim_folder(out, replace)
    digits = load_digits()
    train, val = train_test_split(
        np.arange(len(digits.target)),
        test_size=_VAL_FRACTION,
        stratify=digits.target,
        random_state=_SPLIT_SEED,
    )
    images = {
        f"{split}/{digits.target[index]}/{index:04d}.png": digits.images[index]
        for split, indices in (("train", train), ("val", val))
        for index in indices
    }

    def fill(folder: Path) -> None:
        for name, grey in images.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            _to_image(grey, size).save(folder / name)

    description = {"dataset": "digits", "size": size, "num_images": len(images)}
    if not prepare_folder(folder, description, dict.fromkeys(images), fill, replace):
        print(f"{folder} already contains the {len(images)} digits at {size} px: nothing to do")
    return folder


def _to_image(grey: np.ndarray, size: int) -> Image.Image:
    pixels = np.round(grey * (255 / _LARGEST_PIXEL)).astype(np.uint8)
    return Image.fromarray(pixels).resize((size, size), Image.Resampling.BICUBIC)
