"""What lies in an image folder: classes and files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from torchvision.datasets.folder import IMG_EXTENSIONS

from radial_vicreg.data.image import shown


def class_folders(root: str | Path) -> list[str]:
    """Names of the class sub-folders of an image folder, sorted; hidden ones are none."""
    with os.scandir(root) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))


def image_files(folder: str) -> Iterator[str]:
    """Image files of a folder at any depth, folder by folder, sorted, links followed.

    Raises:
        ValueError: a link leads back to a folder that it lies in.
        OSError: a folder may not be listed.
    """

    def stop(error: OSError) -> None:
        raise error  # os.walk would take the folder for an empty one

    found = []
    for place, folders, names in os.walk(folder, onerror=stop, followlinks=True):
        here = os.path.realpath(place)
        for name in folders:
            link = os.path.join(place, name)
            if os.path.islink(link) and os.path.commonpath([here, target := os.path.realpath(link)]) == target:
                raise ValueError(f"{shown(link)} is a link to a folder that it lies in: remove it")
        found.append((place, names))
    for place, names in sorted(found):
        yield from (os.path.join(place, name) for name in sorted(names) if name.lower().endswith(IMG_EXTENSIONS))
