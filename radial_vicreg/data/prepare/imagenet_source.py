"""The folder that ImageNet-10 is linked from: ImageNet itself, or Imagenette's unpacked archive."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from radial_vicreg.data.listing import Omitted, class_folders, labelled_files
from radial_vicreg.data.places import require_directory
from radial_vicreg.errors import UserError

PARTS = ("train", "val")
Images = Mapping[tuple[str, str], Sequence[Path]]
"""Image files by part (training or validation) and synset."""

_OPTION = "--imagenet"
_ARCHIVES = (".tgz", ".tar.gz", ".tar", ".zip")
_RESIZED_NAME = re.compile(r"-(320|160)(px)?$")  # imagenette2-320, imagenette2-160
_LARGEST_RESIZED = 320  # pixels; ImageNet's own images mostly have shorter sides of 333, 375 and more
_SAMPLE = 10  # images per class whose sizes are read


def open_source(path: str | Path) -> Path:
    """Return the folder with ``train/`` and ``val/``.

    Args:
        path: path from the user.

    Returns:
        The folder, resolved.

    Raises:
        UserError: an archive, no folder, or a folder of something else; the message says what to give instead.
    """
    path = Path(path)
    if path.is_file() and path.name.lower().endswith(_ARCHIVES):
        unpack = "unzip" if path.suffix.lower() == ".zip" else "tar xf"
        raise UserError(
            f"{_OPTION}={path} is an archive: unpack it ({unpack} {path.name}) and pass the folder that contains "
            "train/ and val/"
        )
    source = require_directory(path, _OPTION).resolve()
    if _has_parts(source):
        return source
    inside = [source / name for name in class_folders(source) if _has_parts(source / name)]
    better = [source.parent] if source.name in PARTS and _has_parts(source.parent) else inside
    hint = f": use {' or '.join(f'{_OPTION} {folder}' for folder in better)}" if better else ""
    raise UserError(f"{_OPTION}={path} has no train/ and val/ with one folder per class (SYNSET/*.JPEG){hint}")


def find_images(source: Path, synsets: Collection[str]) -> Images:
    """List the images of some classes in their present folders.

    Args:
        source: folder with ``train/SYNSET/`` and ``val/SYNSET/``.
        synsets: the classes.

    Returns:
        Paths by part and synset, sorted.

    Raises:
        UserError: a class has no folder, or a link leads to another class.
    """
    for part in PARTS:
        missing = [synset for synset in synsets if not (source / part / synset).is_dir()]
        if missing:
            flat = "; its images must be sorted into one folder per class" if not class_folders(source / part) else ""
            raise UserError(f"{source / part} lacks the classes {', '.join(missing)}{flat}")
    omitted = Omitted()
    names = list(synsets)
    images: dict[tuple[str, str], list[Path]] = {(part, synset): [] for part in PARTS for synset in names}
    for part in PARTS:
        for file, label in labelled_files(str(source / part), names, omitted):
            images[part, names[label]].append(Path(file))
    omitted.tell(source)
    return images


def _part_of(file: Path, synset: str) -> str | None:
    """Return the split of ImageNet that an image belongs to according to its name.

    Args:
        file: the image.
        synset: its class.

    Returns:
        ``"val"`` for ``ILSVRC2012_val_00046669.JPEG``, ``"train"`` for ``n03000684_1234.JPEG`` of that class, None
        for any other name.
    """
    if re.fullmatch(r"ILSVRC2012_val_\d{8}", file.stem):
        return "val"
    return "train" if re.fullmatch(rf"{synset}_\d+", file.stem) else None


def sort_by_name(images: Images) -> Images:
    """Put every image into ImageNet's own split; images without such a name keep their folder's split."""
    sorted_images: dict[tuple[str, str], list[Path]] = {key: [] for key in images}
    for (part, synset), files in images.items():
        for file in files:
            sorted_images[_part_of(file, synset) or part, synset].append(file)
    return sorted_images


def shorter_side_of_resized(source: Path, images: Images) -> int | None:
    """Return the size of reduced images, such as those of ``imagenette2-320`` and ``imagenette2-160``.

    The folder's name gives it, or most of a sample of images have the same shorter side of at most 320 pixels.

    Args:
        source: the folder.
        images: its images.

    Returns:
        The shorter side in pixels; None for images of many sizes.
    """
    if named := _RESIZED_NAME.search(source.name):
        return int(named[1])
    sample = [file for files in images.values() for file in islice(files, _SAMPLE)]
    sides = Counter(side for file in sample if (side := _shorter_side(file)) is not None)
    if not sides:
        return None
    side, count = sides.most_common(1)[0]
    return side if side <= _LARGEST_RESIZED and 2 * count > sides.total() else None


def _shorter_side(file: Path) -> int | None:
    try:
        with Image.open(file) as image:  # reads the header only
            side: int = min(image.size)
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError):
        return None  # training reports the file; here it does not count
    return side


def _has_parts(folder: Path) -> bool:
    return all(os.path.isdir(folder / part) for part in PARTS)
