"""What lies in an image folder: classes and files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from torchvision.datasets.folder import IMG_EXTENSIONS

from radial_vicreg.data.image import shown
from radial_vicreg.distributed import is_first_process
from radial_vicreg.errors import UserError
from radial_vicreg.files import lies_in

_MACOS_PREFIX = "._"  # a file's Finder data, written beside it on every file system but Apple's
_MACOS_FOLDER = "__MACOSX"  # the same, as macOS packs them into a ZIP archive
_told: set[str] = set()
_Identity = tuple[int, int]  # device and inode


def class_folders(root: str | Path) -> list[str]:
    """List the class sub-folders of an image folder, sorted, without hidden ones and ``__MACOSX``."""
    with os.scandir(root) as entries:
        return sorted(
            entry.name
            for entry in entries
            if _is_folder(entry) and not entry.name.startswith(".") and entry.name != _MACOS_FOLDER
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
    for place in _places(folder, left_out):
        yield from place.files()


def labelled_files(root: str, classes: Sequence[str], left_out: list[str] | None = None) -> list[tuple[str, int]]:
    """List the image files of class folders, each class as :func:`image_files` does.

    A link that repeats an image within its class is followed: the image counts as often as it is listed.

    Args:
        root: folder of the class folders.
        classes: their names.
        left_out: as for :func:`image_files`.

    Returns:
        Paths, and the position of the class among ``classes``.

    Raises:
        UserError: as :func:`image_files`, or a link gives an image of one class to another.
        OSError: a folder may not be listed.
    """
    owners: dict[_Identity, tuple[int, str]] = {}  # of each folder of images: its class, and where it was found
    linked: list[tuple[int, str]] = []
    samples: list[tuple[str, int]] = []
    for label, name in enumerate(classes):
        for place in _places(os.path.join(root, name), left_out):
            if not place.names:
                continue
            owner, path = owners.setdefault(place.identity, (label, place.path))
            if owner != label:
                raise _two_labels(place.path, path, root)
            samples += ((path, label) for path in place.files())
            linked += ((label, os.path.join(place.path, name)) for name in place.linked)
    _refuse_linked_files(linked, owners, root)
    return samples


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


class _Place(NamedTuple):
    """A folder of images.

    Attributes:
        path: by which it was found.
        identity: the folder's own, whatever links lead to it.
        names: of its images, sorted.
        linked: those of them that are links.
    """

    path: str
    identity: _Identity
    names: list[str]
    linked: list[str]

    def files(self) -> Iterator[str]:
        """Give the paths of its images."""
        return (os.path.join(self.path, name) for name in self.names)


def _places(folder: str, left_out: list[str] | None) -> list[_Place]:
    """List a folder and those inside it, sorted by path; links are followed, and macOS's files appended."""
    found = []
    waiting: list[tuple[str, frozenset[_Identity]]] = [(folder, frozenset())]
    while waiting:
        path, above = waiting.pop()
        place = _Place(path, _identity(path), [], [])
        around = above | {place.identity}  # the folders on the way, by identity and not by name
        with os.scandir(path) as entries:
            for entry in entries:
                if _is_folder(entry):
                    leads_up = entry.is_symlink() and lies_in(path, entry.path)
                    if leads_up or _identity(entry.path) in around:
                        raise UserError(f"{shown(entry.path)} is a link to a folder that it lies in: remove it")
                    waiting.append((entry.path, around))
                elif is_image(entry.name):
                    place.names.append(entry.name)
                    if entry.is_symlink():
                        place.linked.append(entry.name)
                elif left_out is not None and is_macos_file(entry.name):
                    left_out.append(entry.path)
        place.names.sort()
        found.append(place)
    return sorted(found)


def _refuse_linked_files(
    linked: Iterable[tuple[int, str]], owners: Mapping[_Identity, tuple[int, str]], root: str
) -> None:
    """Refuse links to files of another class, and links of two classes to one file.

    Args:
        linked: class and path of each link.
        owners: class and path of each folder of images.
        root: folder of the class folders.
    """
    identities: dict[str, _Identity] = {}  # thousands of links lead to a few folders
    targets: dict[tuple[_Identity, str], tuple[int, str]] = {}
    for label, link in linked:
        if not os.path.exists(link):
            continue  # it leads nowhere, or to itself: reading the image says so
        target = link
        while os.path.islink(target):
            target = os.path.join(os.path.dirname(target), os.readlink(target))
        folder, name = os.path.split(target)
        if folder not in identities:
            identities[folder] = _identity(folder)
        owner, path = owners.get(identities[folder], (label, ""))
        if owner != label and is_image(name):
            raise _two_labels(link, os.path.join(path, name), root)
        owner, path = targets.setdefault((identities[folder], name), (label, link))
        if owner != label:
            raise _two_labels(link, path, root)


def _two_labels(path: str, other: str, root: str) -> UserError:
    """Make the error for one folder or image that is found at two places; the one that a link leads to is named."""
    link = _link_on(path, root)
    if link is None and (link := _link_on(other, root)) is not None:
        other = path
    return UserError(
        f"{shown(link or path)} is a link to images of another class, {shown(other)}: one image would have two labels,"
        " remove the link"
    )


def _link_on(path: str, root: str) -> str | None:
    """Find the link by which a path leads on; links above ``root`` do not count."""
    while len(path) > len(root):
        if os.path.islink(path):
            return path
        path = os.path.dirname(path)
    return None


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself, say
        return False


def _identity(folder: str) -> _Identity:
    state = os.stat(folder)
    return state.st_dev, state.st_ino
