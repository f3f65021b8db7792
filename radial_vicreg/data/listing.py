"""Listings of image folders: classes and files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, overload

import numpy as np

from radial_vicreg.data.image import shown
from radial_vicreg.data.staging import MARKER
from radial_vicreg.errors import UserError
from radial_vicreg.io.files import lies_in
from radial_vicreg.names.counts import counted, first_of
from radial_vicreg.names.data_sets import IMAGE_EXTENSIONS
from radial_vicreg.runtime.first_process import is_first_process

_MACOS_PREFIX = "._"  # a file's Finder data, written next to it on every file system but Apple's
_MACOS_FOLDER = "__MACOSX"  # the same, as macOS packs them into a ZIP archive
_NO_EXTENSION = "no extension"
_told: set[str] = set()
_Identity = tuple[int, int]  # device and inode


@dataclass
class Omitted:
    """Files that are found in a folder of images while it is listed, and are not read as images.

    Hidden files, and the marker of a prepared folder, do not count.

    Attributes:
        macos: number of macOS's ``._*`` files.
        others: paths of the other files, by extension in lower case.
    """

    macos: int = 0
    others: dict[str, list[str]] = field(default_factory=dict)

    def add(self, path: str) -> None:
        """Count a file."""
        name = os.path.basename(path)
        if _is_macos_file(name):
            self.macos += 1
        elif not name.startswith(".") and name != MARKER:
            self.others.setdefault(os.path.splitext(name)[1].lower() or _NO_EXTENSION, []).append(path)

    def counts(self) -> dict[str, int]:
        """Count the files of each extension, the most frequent first; without macOS's."""
        counted = {extension: len(paths) for extension, paths in self.others.items()}
        return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))

    def tell(self, root: str | Path) -> None:
        """Print, once for each folder and in the first process, how many files are omitted, with the first names.

        Args:
            root: folder that a setting names.
        """
        if str(root) in _told or not (self.macos or self.others) or not is_first_process():
            return
        _told.add(str(root))
        if self.macos:
            print(f"{shown(root)}: omitted {counted(self.macos, 'file')} of macOS (._*), not read as images")
        if self.others:
            counts = self.counts()
            types = ", ".join(self._type(extension, count) for extension, count in counts.items())
            print(
                f"{shown(root)}: omitted {counted(sum(counts.values()), 'file')} of unsupported types: {types}. "
                f"Supported types: {', '.join(IMAGE_EXTENSIONS)}"
            )

    def _type(self, extension: str, count: int) -> str:
        names = first_of([shown(os.path.basename(path)) for path in sorted(self.others[extension])])
        text = "without an extension" if extension == _NO_EXTENSION else extension
        place = " next to the class folders" if extension in IMAGE_EXTENSIONS else ""
        return f"{count:,} {text}{place} ({names})"


class Paths(Sequence[str]):
    """Paths of files in one array of bytes.

    A list of strings has an object for each path. Reading one changes the count of its references, so that every
    data-loading process gets a copy of the memory in which it lies.

    Args:
        paths: any iterable of paths.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        encoded = [os.fsencode(path) for path in paths]
        self._ends = np.cumsum([len(path) for path in encoded], dtype=np.int64)
        self._bytes = b"".join(encoded)

    def __len__(self) -> int:
        """Return the number of paths."""
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> Paths: ...

    def __getitem__(self, index: int | slice) -> str | Paths:
        """Return a path, or some of them."""
        if isinstance(index, slice):
            return Paths(self[position] for position in range(*index.indices(len(self))))
        position = range(len(self))[index]
        start = int(self._ends[position - 1]) if position else 0
        return os.fsdecode(self._bytes[start : int(self._ends[position])])

    def __eq__(self, other: object) -> bool:
        """Return whether another object holds the same paths."""
        return isinstance(other, Paths) and self._bytes == other._bytes and np.array_equal(self._ends, other._ends)

    __hash__ = None  # type: ignore[assignment]  # as lists


class LabelledPaths(Sequence[tuple[str, int]]):
    """Pairs of a path and its target, as torchvision's ``ImageFolder.samples``.

    Args:
        files: the paths.
        targets: their targets.
    """

    def __init__(self, files: Paths, targets: Sequence[int]) -> None:
        self.files, self.targets = files, targets

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.files)

    @overload
    def __getitem__(self, index: int) -> tuple[str, int]: ...

    @overload
    def __getitem__(self, index: slice) -> LabelledPaths: ...

    def __getitem__(self, index: int | slice) -> tuple[str, int] | LabelledPaths:
        """Return a pair, or some of them."""
        if isinstance(index, slice):
            return LabelledPaths(self.files[index], self.targets[index])
        return self.files[index], self.targets[index]


def class_folders(root: str | Path, omitted: Omitted | None = None) -> list[str]:
    """List the class sub-folders of an image folder, sorted, without hidden ones and ``__MACOSX``.

    Args:
        root: the image folder.
        omitted: collects the files next to the class folders.
    """
    found = []
    with os.scandir(root) as entries:
        for entry in entries:
            if not _is_folder(entry):
                if omitted is not None:
                    omitted.add(entry.path)
            elif not entry.name.startswith(".") and entry.name != _MACOS_FOLDER:
                found.append(entry.name)
    return sorted(found)


def flat_files(folder: str | Path, omitted: Omitted | None = None) -> list[Path]:
    """List the image files directly in a folder, sorted.

    Args:
        folder: folder to list, without its sub-folders.
        omitted: collects other files.
    """
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if _is_folder(entry):
                continue
            if _is_image(entry.name):  # even a dead link: reading the image reports it
                found.append(Path(folder) / entry.name)
            elif omitted is not None:
                omitted.add(entry.path)
    return sorted(found)


def image_files(folder: str, omitted: Omitted | None = None, hidden: bool = True) -> Iterator[str]:
    """List image files at any depth, folder by folder, sorted, links followed.

    Args:
        folder: folder to list.
        omitted: collects other files.
        hidden: list those in hidden sub-folders as well.

    Raises:
        UserError: a link leads back to a folder that it lies in, directly or by way of other links.
        OSError: a folder may not be listed.
    """
    for place in _places(folder, omitted, hidden):
        yield from place.files()


def labelled_files(root: str, classes: Sequence[str], omitted: Omitted | None = None) -> list[tuple[str, int]]:
    """List the image files of class folders, each class as :func:`image_files` does.

    A link that repeats an image within its class is followed: the image counts as often as it is listed.

    Args:
        root: folder of the class folders.
        classes: their names.
        omitted: as for :func:`image_files`.

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
        for place in _places(os.path.join(root, name), omitted):
            if not place.names:
                continue
            owner, path = owners.setdefault(place.identity, (label, place.path))
            if owner != label:
                raise _two_labels(place.path, path, root)
            samples += ((path, label) for path in place.files())
            linked += ((label, os.path.join(place.path, name)) for name in place.linked)
    _refuse_linked_files(linked, owners, root)
    return samples


def _is_image(name: str) -> bool:
    """Return whether a file is an image according to its name, and not macOS's file next to one."""
    return name.lower().endswith(IMAGE_EXTENSIONS) and not _is_macos_file(name)


def _is_macos_file(name: str) -> bool:
    """Return whether a file is macOS's ``._NAME`` next to another."""
    return name.startswith(_MACOS_PREFIX)


class _Place(NamedTuple):
    """A folder of images.

    Attributes:
        path: path by which it was found.
        identity: the folder's own, whatever links lead to it.
        names: of its images, sorted.
        linked: names that are links.
    """

    path: str
    identity: _Identity
    names: list[str]
    linked: list[str]

    def files(self) -> Iterator[str]:
        """Yield the paths of its images."""
        return (os.path.join(self.path, name) for name in self.names)


def _places(folder: str, omitted: Omitted | None, hidden: bool = True) -> list[_Place]:
    """List a folder and those inside it, sorted by path; follow links, and add files of other types to ``omitted``."""
    found = []
    waiting: list[tuple[str, frozenset[_Identity]]] = [(folder, frozenset())]
    while waiting:
        path, above = waiting.pop()
        place = _Place(path, _identity(path), [], [])
        around = above | {place.identity}  # the folders on the way, by identity and not by name
        with os.scandir(path) as entries:
            for entry in entries:
                if _is_folder(entry):
                    if entry.name.startswith(".") and not hidden:
                        continue
                    leads_up = entry.is_symlink() and lies_in(path, entry.path)
                    if leads_up or _identity(entry.path) in around:
                        raise UserError(f"{shown(entry.path)} is a link to a folder that contains it: remove it")
                    waiting.append((entry.path, around))
                elif _is_image(entry.name):
                    place.names.append(entry.name)
                    if entry.is_symlink():
                        place.linked.append(entry.name)
                elif omitted is not None:
                    omitted.add(entry.path)
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
            continue  # it leads nowhere, or to itself: reading the image reports it
        target = link
        while os.path.islink(target):
            target = os.path.join(os.path.dirname(target), os.readlink(target))
        folder, name = os.path.split(target)
        if folder not in identities:
            identities[folder] = _identity(folder)
        owner, path = owners.get(identities[folder], (label, ""))
        if owner != label and _is_image(name):
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
        f"{shown(link or path)} is a link to images of another class, {shown(other)}, so an image would have two "
        "labels: remove the link"
    )


def _link_on(path: str, root: str) -> str | None:
    """Find the last link in a path; links above ``root`` do not count."""
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
