"""scikit-learn's handwritten digits as an image folder: real images that need no download."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from radial_vicreg.data.staging import is_complete, staged_folder
from radial_vicreg.errors import UserError
from radial_vicreg.files import claim_output

_VAL_FRACTION = 0.2
_SPLIT_SEED = 0
_LARGEST_PIXEL = 16  # the digits' grey values are 0..16


def prepare_digits(out: str | Path, size: int = 32) -> Path:
    """Write the 1,797 digits as ``out/{train,val}/{0..9}/*.png``. Repeating it does nothing.

    The 8 x 8 images are enlarged by bicubic interpolation. The split is stratified and always the same: 1,437
    for training, 360 for validation.

    Args:
        out: the folder to write; it appears only when complete.
        size: side of the images in pixels, at least 8.

    Returns:
        ``out``.

    Raises:
        UserError: ``size`` is below 8, or ``out`` holds something else.
    """
    if size < 8:
        raise UserError(f"size={size}: the digits have 8 x 8 pixels, give 8 or more")
    folder = claim_output(out, "folder")
    digits = load_digits()
    description = {"dataset": "digits", "size": size, "num_images": len(digits.target)}
    if is_complete(folder, description):
        print(f"{folder} already holds the {len(digits.target)} digits at {size} px: nothing to do")
        return folder
    train, val = train_test_split(
        np.arange(len(digits.target)),
        test_size=_VAL_FRACTION,
        stratify=digits.target,
        random_state=_SPLIT_SEED,
    )
    with staged_folder(folder, description) as staging:
        for split, indices in (("train", train), ("val", val)):
            for index in indices:
                target = staging / split / str(digits.target[index]) / f"{index:04d}.png"
                target.parent.mkdir(parents=True, exist_ok=True)
                _to_image(digits.images[index], size).save(target)
    return folder


def _to_image(grey: np.ndarray, size: int) -> Image.Image:
    pixels = np.round(grey * (255 / _LARGEST_PIXEL)).astype(np.uint8)
    return Image.fromarray(pixels).resize((size, size), Image.Resampling.BICUBIC)
