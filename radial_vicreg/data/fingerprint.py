"""Fingerprints of image folders, which distinguish runs on different images. Without PyTorch."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from radial_vicreg.config import RunConfig
from radial_vicreg.config.sections import FingerprintsConfig
from radial_vicreg.names.data_sets import ATTRIBUTES_FILE, IMAGE_EXTENSIONS, facts_of, is_folder
from radial_vicreg.runs.origin import (
    NAMES_ONLY,
    Fingerprints,
    digits,
    fingerprint,
    fixed_fingerprints,
    validates,
)

_NAMES_AND_SIZES = 2
_THREADS = 16  # on a network file system each access to a file waits for an answer
_BLOCK = 512  # number of files per task of a thread
_LISTED = "RADIAL_VICREG_LISTED"


class _Listing(NamedTuple):
    """Fingerprints of a folder of images, and how long they took."""

    fingerprints: list[str]
    seconds: float


def fingerprints_of(config: RunConfig) -> FingerprintsConfig:
    """Take the fingerprints of a run's training and validation images.

    They depend on neither the files' contents nor the folder's path: a cluster copies the same images to another folder
    for each job. Every folder is listed once, in threads, without opening files; within :func:`listed_once` once for
    all runs.

    Args:
        config: of the run. A missing folder has no fingerprint; the reader of the images reports it.

    Returns:
        Fingerprints of all versions, and the seconds that listing took.
    """
    data, seconds = config.data, 0.0
    found: dict[str, Fingerprints] = {}
    for part, path in (("train", data.train_path), ("val", data.val_path)):
        if part == "val" and not validates(config):
            found[part] = ()
        elif facts_of(data.dataset).is_fixed:
            found[part] = fixed_fingerprints(data.dataset, part)
        else:
            listing = _listing(data.format, path)
            found[part] = tuple(listing.fingerprints) or None
            seconds += listing.seconds
    return FingerprintsConfig(**found, seconds=round(seconds, 3))


@contextmanager
def listed_once() -> Iterator[None]:
    """List each folder once for all runs that start within: in this process, or in those that inherit its environment.

    A sweep starts many runs on the same images, each in a process of its own.
    """
    if _LISTED in os.environ:  # nested
        yield
        return
    os.environ[_LISTED] = "{}"
    try:
        yield
    finally:
        del os.environ[_LISTED]


def _listing(data_format: str, path: str | None) -> _Listing:
    """List a folder, or return its stored listing."""
    if not path:
        return _Listing([], 0.0)
    key = os.path.abspath(path)
    listed = _already_listed()
    if key in listed:
        return _Listing(*listed[key])
    started = time.monotonic()
    fingerprints = _fingerprints(Path(path), data_format)
    found = _Listing(fingerprints, round(time.monotonic() - started, 3))
    if _LISTED in os.environ and fingerprints:
        os.environ[_LISTED] = json.dumps({**listed, key: found})
    return found


def _already_listed() -> dict[str, tuple[list[str], float]]:
    known: dict[str, tuple[list[str], float]] = json.loads(os.environ.get(_LISTED, "{}"))
    return known


def _fingerprints(path: Path, data_format: str) -> list[str]:
    if not is_folder(data_format) or path.is_file():
        value = digits(f"h5 {path.stat().st_size}") if path.is_file() else None
        return [] if value is None else [fingerprint(version, value) for version in (NAMES_ONLY, _NAMES_AND_SIZES)]
    with ThreadPoolExecutor(_THREADS) as pool:
        names = sorted(_image_names(path, pool)) if path.is_dir() else []
        if not names:
            return []
        measured = [*names, *([ATTRIBUTES_FILE] if (path / ATTRIBUTES_FILE).is_file() else [])]
        blocks = [measured[start : start + _BLOCK] for start in range(0, len(measured), _BLOCK)]
        sizes = chain.from_iterable(pool.map(lambda block: _sizes(path, block), blocks))
        lines = [f"{name}/{size}" for name, size in zip(measured, sizes, strict=True)]  # no name holds a slash there
    return [
        fingerprint(NAMES_ONLY, digits("\n".join([str(len(names)), *names]))),
        fingerprint(_NAMES_AND_SIZES, digits("\n".join([str(len(lines)), *lines]))),
    ]


def _image_names(root: Path, pool: ThreadPoolExecutor) -> Iterator[str]:
    """List class and file names below a folder, without hidden ones and links back to a folder above."""
    # Folders of one depth at a time, each with those above it by identity and not by name.
    level: list[tuple[str, frozenset[tuple[int, int]]]] = [("", frozenset())]
    while level:
        listed = list(pool.map(lambda folder: _entries(root, *folder), level))
        level = []
        for names, folders in listed:
            yield from names
            level += folders


def _entries(
    root: Path, prefix: str, above: frozenset[tuple[int, int]]
) -> tuple[list[str], list[tuple[str, frozenset[tuple[int, int]]]]]:
    names: list[str] = []
    folders: list[tuple[str, frozenset[tuple[int, int]]]] = []
    state = os.stat(root / prefix)
    if (here := (state.st_dev, state.st_ino)) in above:
        return names, folders  # a cycle; the reader of the images reports it
    with os.scandir(root / prefix) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if os.path.splitext(entry.name)[1].lower() in IMAGE_EXTENSIONS:
                names.append(f"{prefix}{entry.name}")
            elif os.path.isdir(entry.path):  # entry.is_dir() raises at a link to itself
                folders.append((f"{prefix}{entry.name}/", above | {here}))
    return names, folders


def _sizes(root: Path, names: Sequence[str]) -> list[int]:
    return [_size(os.path.join(root, name)) for name in names]


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:  # a link whose file is gone; the reader of the images reports it
        return -1
