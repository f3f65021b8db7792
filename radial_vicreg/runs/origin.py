"""Where a figure comes from: the images and the weights that it was measured on, and whether two of them agree.

A set of images has a fingerprint in several versions, each ``VERSION:DIGITS``, taken by
:mod:`radial_vicreg.data.fingerprint`: version 1 is of the names alone, as radial-vicreg 0.2 took it of the training
images, version 2 of names and sizes. Two sets are compared by the newest version that both have.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from radial_vicreg.config import RunConfig
from radial_vicreg.names.data_sets import facts_of, lacks_labels

NAMES_ONLY = 1
"""Version of a fingerprint of names alone: other images under the same names have the same."""

UNTRAINED = "untrained"
"""What stands in place of the epoch and step of a figure of random weights."""

_DIGITS = 8
_NEWEST = 2
_WORDS = {"train": "trained", "val": "validated"}

Fingerprints = tuple[str, ...] | None
"""Fingerprints of one set of images, of all versions; empty where there are no images, None where none is known."""


class Images(NamedTuple):
    """The images of a run.

    Attributes:
        train: fingerprints of the training images.
        val: fingerprints of the validation images.
    """

    train: Fingerprints = None
    val: Fingerprints = None


def images_of(config: RunConfig) -> Images:
    """Read the fingerprints of a run's images from its configuration, of any version so far.

    Args:
        config: ``data.fingerprints`` is what a run writes, ``data.fingerprint`` what version 0.2 wrote. One that has
            not been trained with yet has neither.

    Returns:
        What is known of the images.
    """
    data = config.data
    if (known := data.fingerprints) is not None:
        return Images(known.train, known.val)
    is_fixed = facts_of(data.dataset).is_fixed
    if is_fixed:
        named: Fingerprints = fixed_fingerprints(data.dataset, "train")
    else:
        named = None if data.fingerprint is None else (fingerprint(NAMES_ONLY, data.fingerprint),)
    if data.train_path and not validates(config):
        return Images(named, ())
    return Images(named, fixed_fingerprints(data.dataset, "val") if is_fixed else None)


def validates(config: RunConfig) -> bool:
    """Tell whether a configuration has validation images: a path (CIFAR needs none), labels, and no limit of 0."""
    data = config.data
    if config.limit_val_batches == 0 or lacks_labels(data.dataset, data.no_labels):
        return False
    return data.val_path is not None or facts_of(data.dataset).is_fixed


def fixed_fingerprints(dataset: str, part: str) -> tuple[str, ...]:
    """Give the fingerprint of a part of a data set that has one content only."""
    return (fingerprint(_NEWEST, digits(f"{dataset} {part}")),)


def fingerprint(version: int, value: str) -> str:
    """Write a fingerprint with its version."""
    return f"{version}:{value}"


def digits(text: str) -> str:
    """Hash a text to the eight hexadecimal digits of a fingerprint."""
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:_DIGITS]


def names_only(marks: Fingerprints) -> str | None:
    """Choose version 0.2's fingerprint, without its version, from those of a set of images; None where it has none."""
    prefix = fingerprint(NAMES_ONLY, "")
    return next((mark.removeprefix(prefix) for mark in marks or () if mark.startswith(prefix)), None)


class Compared(NamedTuple):
    """Two sets of images beside one another.

    Attributes:
        same: whether they agree; None where that is not known.
        version: of the fingerprints that were compared; None where there were none of one version.
        values: the two fingerprints.
    """

    same: bool | None
    version: int | None = None
    values: tuple[str, str] = ("", "")


def compare_fingerprints(first: Fingerprints, second: Fingerprints) -> Compared:
    """Compare two sets of images by the newest version of their fingerprints that both have.

    Args:
        first: fingerprints of a set.
        second: those of another.

    Returns:
        Whether they agree. No images are other images than any.
    """
    if first is None or second is None:
        return Compared(None)
    if not first or not second:
        return Compared(first == second, None, (_newest(first), _newest(second)))
    versions = [_by_version(found) for found in (first, second)]
    shared = versions[0].keys() & versions[1].keys()
    if not shared:
        return Compared(None)
    newest = max(shared)
    values = versions[0][newest], versions[1][newest]
    return Compared(values[0] == values[1], newest, values)


def other_images(first: Images, second: Images) -> str | None:
    """Describe in what the images of two runs differ; None where they agree as far as is known.

    Args:
        first: images of a run.
        second: images of another.

    Returns:
        For example ``validated on other images (2:0a1b2c3d and 2:4e5f6a7b)``.
    """
    found = []
    for part, one, other in zip(Images._fields, first, second, strict=True):
        compared = compare_fingerprints(one, other)
        if compared.same is False:
            found.append(f"{_WORDS[part]} on other images ({' and '.join(compared.values)})")
    return "; ".join(found) or None


def images_remark(pairs: Iterable[tuple[Images, Images]]) -> str | None:
    """Describe which images agree by less than their newest fingerprints, or are not compared; None without any.

    Args:
        pairs: images of two runs each.

    Returns:
        For example ``validation images are compared by names alone (fingerprints of version 1)``.
    """
    found: dict[str, None] = {}
    for pair in pairs:
        for part, one, other in zip(("training", "validation"), *pair, strict=True):
            compared = compare_fingerprints(one, other)
            if compared.version == NAMES_ONLY:
                found[f"{part} images are compared by names alone (fingerprints of version {NAMES_ONLY})"] = None
            elif compared.same is None:
                found[f"{part} images are not compared (a run has no fingerprint of them)"] = None
    return "; ".join(sorted(found)) or None


def origin_of(images: Images, epoch: int | None = None, step: int | None = None) -> dict[str, object]:
    """Describe where a figure comes from, as ``origin`` in ``results.json``.

    Args:
        images: that it was measured on.
        epoch: epochs that the measured weights have seen; None: they are untrained.
        step: steps that they have seen.

    Returns:
        ``checkpoint`` (``epoch`` and ``step``, or ``untrained``), ``train`` and ``val``; not what is not known.
    """
    known = {part: list(marks) for part, marks in images._asdict().items() if marks is not None}
    return {"checkpoint": UNTRAINED if epoch is None else {"epoch": epoch, "step": step}, **known}


def is_of(origin: Mapping[str, Any] | None, images: Images) -> bool:
    """Tell whether a figure is of these images, as far as is known.

    Args:
        origin: of the figure, as in ``results.json``; None of one that an earlier version has measured.
        images: for example those of the run.
    """
    found = {} if origin is None else origin
    known = Images(*(None if found.get(part) is None else tuple(found[part]) for part in Images._fields))
    return other_images(known, images) is None


def _newest(marks: Sequence[str]) -> str:
    return max(marks, key=_version, default="none")


def _by_version(marks: Sequence[str]) -> dict[int, str]:
    return {_version(mark): mark for mark in marks}


def _version(mark: str) -> int:
    version = mark.partition(":")[0]
    return int(version) if version.isdecimal() else 0
