"""The origin of a figure: the images and the weights on which it was measured. Compare two origins.

A set of images has a fingerprint in several versions, each ``VERSION:DIGITS``, computed by
:mod:`radial_vicreg.data.fingerprint`: version 1 from the names alone, as in radial-vicreg 0.2 for the training images,
version 2 from names and sizes. Two sets are compared by the newest version that both have.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from radial_vicreg.config import RunConfig
from radial_vicreg.names.data_sets import facts_of, lacks_labels

NAMES_ONLY = 1
"""Version of a fingerprint of names alone: different images with the same names have the same fingerprint."""

UNTRAINED = "untrained"
"""Replaces epoch and step in the origin of a figure of random weights."""

_DIGITS = 8
_NEWEST = 2
_WORDS = {"train": "trained", "val": "validated"}

Fingerprints = tuple[str, ...] | None
"""Fingerprints of one set of images, of all versions; empty without images, None if none is known."""


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
        config: configuration of a run. A run writes ``data.fingerprints``, and version 0.2 wrote ``data.fingerprint``.
            Before a training there is neither.

    Returns:
        The fingerprints, as far as they are known.
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
    """Return whether a configuration has validation images: a path (CIFAR needs none), labels, and no limit of 0."""
    data = config.data
    if config.limit_val_batches == 0 or lacks_labels(data.dataset, data.no_labels):
        return False
    return data.val_path is not None or facts_of(data.dataset).is_fixed


def fixed_fingerprints(dataset: str, part: str) -> tuple[str, ...]:
    """Return the fingerprint of a part of a data set whose content is always the same."""
    return (fingerprint(_NEWEST, digits(f"{dataset} {part}")),)


def fingerprint(version: int, value: str) -> str:
    """Write a fingerprint with its version."""
    return f"{version}:{value}"


def digits(text: str) -> str:
    """Hash a text to the eight hexadecimal digits of a fingerprint."""
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:_DIGITS]


def names_only(fingerprints: Fingerprints) -> str | None:
    """Choose version 0.2's fingerprint of a set of images, without the version prefix; None if there is none."""
    prefix = fingerprint(NAMES_ONLY, "")
    return next((entry.removeprefix(prefix) for entry in fingerprints or () if entry.startswith(prefix)), None)


class Compared(NamedTuple):
    """The comparison of two sets of images.

    Attributes:
        same: whether the sets agree; None if this is not known.
        version: version of the compared fingerprints; None if the sets have no version in common.
        values: the two fingerprints.
    """

    same: bool | None
    version: int | None = None
    values: tuple[str, str] = ("", "")


def compare_fingerprints(first: Fingerprints, second: Fingerprints) -> Compared:
    """Compare two sets of images by the newest version of their fingerprints that both have.

    Args:
        first: fingerprints of a set.
        second: fingerprints of another set.

    Returns:
        The comparison. An empty set differs from every set that is not empty.
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
    """Describe how the images of two runs differ; None if they agree as far as is known.

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
    """Describe which images agree only by older fingerprints, or cannot be compared; None if there are none.

    Args:
        pairs: images of two runs each.

    Returns:
        For example ``validation images are compared by file names only (fingerprints of version 1)``.
    """
    found: dict[str, None] = {}
    for pair in pairs:
        for part, one, other in zip(("training", "validation"), *pair, strict=True):
            compared = compare_fingerprints(one, other)
            if compared.version == NAMES_ONLY:
                found[f"{part} images are compared by file names only (fingerprints of version {NAMES_ONLY})"] = None
            elif compared.same is None:
                found[f"{part} images are not compared (a run has no fingerprint)"] = None
    return "; ".join(sorted(found)) or None


def origin_of(images: Images, epoch: int | None = None, step: int | None = None) -> dict[str, object]:
    """Describe the origin of a figure, as ``origin`` in ``results.json``.

    Args:
        images: images on which the figure was measured.
        epoch: epochs that the measured weights have seen; None: they are untrained.
        step: steps that the measured weights have seen.

    Returns:
        ``checkpoint`` (``epoch`` and ``step``, or ``untrained``), ``train`` and ``val``; unknown ones are omitted.
    """
    known = {part: list(fingerprints) for part, fingerprints in images._asdict().items() if fingerprints is not None}
    return {"checkpoint": UNTRAINED if epoch is None else {"epoch": epoch, "step": step}, **known}


def is_of(origin: Mapping[str, Any] | None, images: Images) -> bool:
    """Return whether a figure is of these images, as far as is known.

    Args:
        origin: origin of the figure, as in ``results.json``; None if an earlier version has measured it.
        images: for example those of the run.
    """
    found = {} if origin is None else origin
    known = Images(*(None if found.get(part) is None else tuple(found[part]) for part in Images._fields))
    return other_images(known, images) is None


def _newest(fingerprints: Sequence[str]) -> str:
    return max(fingerprints, key=_version, default="none")


def _by_version(fingerprints: Sequence[str]) -> dict[int, str]:
    return {_version(entry): entry for entry in fingerprints}


def _version(entry: str) -> int:
    version = entry.partition(":")[0]
    return int(version) if version.isdecimal() else 0
