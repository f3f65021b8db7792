"""Images to embed: files below a folder, selection of evenly spaced images, transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from PIL import Image
from torchvision import transforms

from radial_vicreg.data.build import centre_crop
from radial_vicreg.data.image import cut_long_image, open_image, shown, unreadable_images
from radial_vicreg.data.image_set import ImageSet
from radial_vicreg.data.listing import Omitted, Paths, image_files
from radial_vicreg.data.places import require_directory
from radial_vicreg.errors import UserError
from radial_vicreg.names.data_sets import IMAGE_EXTENSIONS, UNLABELLED

Transform = Callable[[Image.Image], Any]


class ImagesBelow(ImageSet):
    """The images of a folder, flat or in class folders, sorted; hidden folders are skipped.

    Args:
        root: the folder.
        on_bad_image: ``"error"``: reading an invalid file raises; ``"skip"``: unreadable files are excluded.

    Attributes:
        skipped: image files that were excluded.
        omitted: files of other types.

    Raises:
        UserError: the folder does not exist or holds fewer than two images.
    """

    labels = "none"

    def __init__(self, root: Path, on_bad_image: str = "error") -> None:
        folder = require_directory(root, "--images")
        self.omitted = Omitted()
        found = list(image_files(str(folder), self.omitted, hidden=False))
        self.omitted.tell(folder)
        self.skipped = unreadable_images(found, on_bad_image)
        bad = set(self.skipped)
        self.files = Paths(path for path in found if path not in bad)
        self.targets = [UNLABELLED] * len(self.files)
        if len(self.files) < 2:
            raise UserError(
                f"--images {shown(folder)}: expected 2 or more usable images at any depth, found "
                f"{len(self.files)} (image files end in {', '.join(IMAGE_EXTENSIONS)})"
            )

    def __getitem__(self, index: int) -> tuple[Any, int]:
        """Return ``(image, -1)``."""
        return open_image(self.files[index]), UNLABELLED

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.files)


def plain_transform(size: int, mean: Sequence[float], std: Sequence[float]) -> transforms.Compose:
    """Build a validation transform: centre crop of ``size`` pixels, normalised."""
    return transforms.Compose([*centre_crop(size), transforms.ToTensor(), transforms.Normalize(list(mean), list(std))])


def guarded(transform: Transform) -> transforms.Compose:
    """Prepend :func:`cut_long_image` to a library's transform, which may resize a long image to gigabytes."""
    return transforms.Compose([cut_long_image, transform])
