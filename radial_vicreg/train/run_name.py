"""The name of a run, and the mark of its images: what solo-learn's auto-resume tells runs apart by.

For both hosts, and without PyTorch.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from radial_vicreg.config import RunConfig
from radial_vicreg.identity import config_hash
from radial_vicreg.secrets import without_secrets

LONGEST_NAME = 120  # characters; solo-learn's checkpoints are called <name>-<version>-ep=<epoch>.ckpt
_DIGITS = 8
_FIXED_DATA = ("cifar10", "cifar100", "stl10")  # torchvision checks their files, so the data set's name is enough
_IMAGES = frozenset({".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"})  # torchvision's list


def named(config: RunConfig) -> RunConfig:
    """Give a configuration its final name and the mark of its images, once.

    Args:
        config: of a run. One that has a ``data.fingerprint`` (one that a script reads from ``args.json``, say) is left
            alone.

    Returns:
        The configuration with ``name`` and ``data.fingerprint``.
    """
    if is_named(config):
        return config
    mark = data_fingerprint(config.data.dataset, config.data.format, config.data.train_path)
    name = run_name(without_secrets(config.name), config_hash(config.plain(), config.processes), mark)
    data = config.data.model_copy(update={"fingerprint": mark})
    return config.model_copy(update={"name": name, "data": data})


def is_named(config: RunConfig) -> bool:
    """Tell whether a configuration has its final name: that of a prepared run, or of one that was stored."""
    return "fingerprint" in config.data.model_fields_set


def run_name(text: str, identity: str, data: str | None) -> str:
    """Limit a name to 120 characters without letting two runs share it.

    Args:
        text: the name as configured, made of canonical numbers and rates as written.
        identity: hash of everything that can change the result. Not of a weight that has no effect, which a name holds.
        data: mark of the training images (:func:`data_fingerprint`), or None.

    Returns:
        ``<text>-<8 digits for text and identity>[-<data>]``; the text gives way when it is too long.
    """
    suffix = f"-{_digest(f'{text} {identity}')}" + (f"-{data}" if data else "")
    # Bytes, since that is what file systems count.
    room = LONGEST_NAME - len(suffix)
    kept = text.encode()[:room].decode(errors="ignore")
    return (kept if kept == text else kept.rstrip("-._ ")) + suffix


def data_fingerprint(dataset: str, data_format: str, train_path: str | None) -> str | None:
    """Mark a folder of training images by its number of images and their names, wherever it lies.

    Contents and paths stay out of it: a cluster copies the same images to another folder for each job. Every folder is
    listed once, without a look into the files: half a second for 60,000 images on a local disk, so ten seconds for
    ImageNet's 1.3 million.

    Args:
        dataset: ``data.dataset``.
        data_format: ``data.format``; ``h5`` is one file, and its size its mark.
        train_path: ``data.train_path``.

    Returns:
        Eight hexadecimal digits; None for data sets that have one content only (CIFAR, STL-10), and where there is
        nothing to list.
    """
    if dataset in _FIXED_DATA or not train_path:
        return None
    path = Path(train_path)
    if data_format == "h5" or path.is_file():
        return _digest(f"h5 {path.stat().st_size}") if path.is_file() else None
    names = sorted(_image_names(path)) if path.is_dir() else []
    return _digest("\n".join([str(len(names)), *names])) if names else None


def _image_names(folder: Path, prefix: str = "", above: frozenset[tuple[int, int]] = frozenset()) -> Iterator[str]:
    """List class and file names below a folder, without hidden ones and links back to a folder above."""
    state = folder.stat()
    if (here := (state.st_dev, state.st_ino)) in above:
        return  # a ring; the reader of the images refuses it by name
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if os.path.splitext(entry.name)[1].lower() in _IMAGES:
                yield f"{prefix}{entry.name}"
            elif os.path.isdir(entry.path):  # entry.is_dir() raises at a link to itself
                yield from _image_names(Path(entry.path), f"{prefix}{entry.name}/", above | {here})


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:_DIGITS]
