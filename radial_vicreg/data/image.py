"""Read one image file: every mode as RGB, with a one-line error for an unreadable file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import numpy as np
from PIL import Image, UnidentifiedImageError

from radial_vicreg.data.errors import LoaderResourceError, OneLineError, lacks_descriptor, too_many_files
from radial_vicreg.errors import UserError
from radial_vicreg.io.terminal import track
from radial_vicreg.names.choices import ON_BAD_IMAGE
from radial_vicreg.runtime.first_process import is_first_process

_WORD = 257  # 65,535 / 255: from 16 bits to 8
_SIXTEEN_BITS_AS_I = ("PNG", "PPM")  # Pillow opens their 16-bit greys as 32-bit integers, depending on its version
_MOST_THREADS = 16
_LONGEST = 32

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class UnreadableImageError(OneLineError, UserError, OSError):
    """An image file that cannot be read; its message is one line and names the file.

    Attributes:
        reason: why, without the file and the remedy; empty if the error comes from a loader's worker.
    """

    reason = ""


def open_image(path: str | Path) -> Image.Image:
    """Read one image file completely, as RGB; of an animation, its first frame.

    Pixels are those of Pillow's ``convert("RGB")`` (which drops an alpha channel and keeps the colours below it),
    but 16-bit greys are scaled to 8 bits, where Pillow would clip them to white.

    Args:
        path: an image file of any format and mode that Pillow reads.

    Returns:
        The decoded image, mode ``"RGB"``.

    Raises:
        UnreadableImageError: the file is missing, truncated, not an image, or of a mode without a fixed range (32-bit
            integers and floats); the message names it.
        LoaderResourceError: too many files are open; this one may be valid.
        MemoryError: memory ran out; the file may be valid.
    """
    try:
        with Image.open(path) as image:
            return _to_rgb(image)
    except MemoryError:
        raise
    except Exception as error:  # on a damaged file Pillow's readers raise errors of any kind, such as struct.error
        if lacks_descriptor(error):
            raise LoaderResourceError(too_many_files()) from error
        reason = _reason(error, path)
        refused = UnreadableImageError(
            f"cannot read the image {shown(path)} ({reason}): replace or remove the file, or skip such files with "
            "data.on_bad_image=skip"
        )
        refused.reason = reason
        raise refused from error


def cut_long_image(image: Image.Image) -> Image.Image:
    """Cut the ends off an image whose sides differ by more than a factor of 32.

    The centre stays, so resizing the shorter side and cutting out the centre gives the same crop, without gigabytes in
    between (an image of 20,000 x 1 pixels, at 256, would be 5,120,000 x 256).

    Args:
        image: of any size.

    Returns:
        The image itself, or its middle part.
    """
    longest = _LONGEST * min(image.size)
    if max(image.size) <= longest:
        return image
    left, top = (max(0, (side - longest) // 2) for side in image.size)
    right, bottom = (start + min(side, longest) for start, side in zip((left, top), image.size, strict=True))
    return image.crop((left, top, right, bottom))


def unreadable_images(paths: Iterable[str | Path], on_bad_image: str) -> tuple[str, ...]:
    """List the images that a data set skips; ``"skip"`` opens every file once, in threads.

    The result is cached for the life of the process, since several data sets may use the same files.

    Args:
        paths: image files.
        on_bad_image: ``"error"``: none, and reading a bad one will raise; ``"skip"``: those that :func:`open_image`
            refuses.

    Returns:
        Their paths, in the order given.

    Raises:
        UserError: ``on_bad_image`` is neither.
    """
    if on_bad_image not in ON_BAD_IMAGE:
        raise UserError(f"data.on_bad_image must be one of {', '.join(ON_BAD_IMAGE)}, got {on_bad_image!r}")
    return () if on_bad_image == "error" else _unreadable(tuple(str(path) for path in paths))


def in_threads(read: Callable[[_Item], _Result], items: Sequence[_Item], label: str) -> list[_Result]:
    """Read images in threads, since Pillow releases Python's lock to decode; the first process shows a bar.

    Args:
        read: reads one image.
        items: what it reads, such as paths.
        label: what the bar says.

    Returns:
        The results, in the order of the items.
    """
    with ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1)) as pool:
        found: Iterable[_Result] = pool.map(read, items)
        return list(track(found, label, len(items)) if is_first_process() else found)


def shown(path: str | Path) -> str:
    """Return a path as one line: one with line breaks or undecodable bytes is quoted and escaped."""
    text = str(path)
    return text if text.isprintable() and "  " not in text else ascii(text)


def _to_rgb(image: Image.Image) -> Image.Image:
    mode = image.mode
    if mode.startswith("I;16") or (mode == "I" and image.format in _SIXTEEN_BITS_AS_I):
        values = np.asarray(image).astype(np.uint32)
        return Image.fromarray(((values + _WORD // 2) // _WORD).astype(np.uint8)).convert("RGB")
    if mode in ("I", "F"):
        raise UserError(f"mode {mode}: 32-bit pixels have no fixed range; convert it to 8 or 16 bits")
    if mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")  # the same colours, without Pillow's warning for each image
    return image.convert("RGB")


def _reason(error: Exception, path: str | Path) -> str:
    if isinstance(error, FileNotFoundError):
        return "the file does not exist, or is a link to a missing file"
    if isinstance(error, UnidentifiedImageError):
        return "the file is empty" if os.path.getsize(path) == 0 else "not an image"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split()) or type(error).__name__


@lru_cache(maxsize=8)
def _unreadable(paths: tuple[str, ...]) -> tuple[str, ...]:
    found = in_threads(_is_readable, paths, "checking images")
    return tuple(path for path, readable in zip(paths, found, strict=True) if not readable)


def _is_readable(path: str) -> bool:
    try:
        open_image(path)
    except UnreadableImageError:
        return False
    return True
