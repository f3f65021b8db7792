"""What lies in an image folder: classes and files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from torchvision.datasets.folder import IMG_EXTENSIONS

from radial_vicreg.data.image import shown
from radial_vicreg.distributed import is_first_process
from radial_vicreg.errors import UserError

_MACOS_PREFIX = "._"  # a file's Finder data, written beside it on every file system but Apple's
_MACOS_FOLDER = "__MACOSX"  # the same, as macOS packs them into a ZIP archive
_told: set[str] = set()


def class_folders(root: str | Path) -> list[str]:
    """List the class sub-folders of an image folder, sorted, without hidden ones and ``__MACOSX``."""
    with os.scandir(root) as entries:
        return sorted(
            entry.name
            for entry in entries
            if entry.is_dir() and not entry.name.startswith(".") and entry.name != _MACOS_FOLDER
        )


def image_files(folder: str, left_out: list[str] | None = None) -> Iterator[str]:
    """List image files at any depth, folder by folder, sorted, links followed, macOS's ``._*`` left out.

    Args:
        folder: to look in.
        left_out: macOS's files are appended, for :func:`tell_macos_files`.

    Raises:
        UserError: a link leads back to a folder that it lies in, directly or by way of other links.
        OSError: a folder may not be listed.
    """

    def stop(error: OSError) -> None:
        raise error  # os.walk would take the folder for an empty one

    found = []
    inside = {folder: {_identity(folder)}}  # folders on the way to each place, by identity and not by name
    for place, folders, names in os.walk(folder, onerror=stop, followlinks=True):
        around = inside.pop(place)
        for name in folders:
            inner = os.path.join(place, name)
            if (identity := _identity(inner)) in around or _is_parent(inner, place):
                raise UserError(f"{shown(inner)} is a link to a folder that it lies in: remove it")
            inside[inner] = around | {identity}
        found.append((place, names))
        if left_out is not None:
            left_out += (os.path.join(place, name) for name in names if is_macos_file(name))
    for place, names in sorted(found):
        yield from (os.path.join(place, name) for name in sorted(names) if is_image(name))


def is_image(name: str) -> bool:
    """Tell by its name whether a file is an image, and not what macOS keeps beside one."""
    return name.lower().endswith(IMG_EXTENSIONS) and not is_macos_file(name)


def is_macos_file(name: str) -> bool:
    """Tell whether a file is macOS's ``._NAME`` beside another."""
    return name.startswith(_MACOS_PREFIX)


def tell_macos_files(root: str | Path, count: int) -> None:
    """Say, once for each folder, how many of macOS's ``._*`` files beside the images are left out.

    Args:
        root: folder that a setting names.
        count: number of such files in it.
    """
    if count and str(root) not in _told and is_first_process():
        _told.add(str(root))
        print(f"{shown(root)}: left out {count:,} file(s) of macOS (._*), which are no images")


def _identity(folder: str) -> tuple[int, int]:
    state = os.stat(folder)
    return state.st_dev, state.st_ino


def _is_parent(inner: str, place: str) -> bool:
    """Tell whether a link leads to a folder around the one that it stands in."""
    if not os.path.islink(inner):
        return False
    here, target = os.path.realpath(place), os.path.realpath(inner)
    return os.path.commonpath([here, target]) == target
