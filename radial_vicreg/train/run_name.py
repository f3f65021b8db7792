"""The name of a run, and the mark of its images: what solo-learn's auto-resume tells runs apart by.

For both hosts, and without PyTorch.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from radial_vicreg.identity import config_hash
from radial_vicreg.secrets import without_secrets

LONGEST_NAME = 120  # characters; solo-learn's checkpoints are called <name>-<version>-ep=<epoch>.ckpt
_DIGITS = 8
_LARGEST_EXACT = 2**53  # whole floats below it are whole numbers without doubt
_FIXED_DATA = ("cifar10", "cifar100", "stl10")  # torchvision checks their files: the data set's name says it all
_IMAGES = frozenset({".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"})  # torchvision's list


def name_run(cfg: DictConfig, processes: int, rates: Mapping[str, Any] | None = None) -> None:
    """Write the final ``name`` and ``data.fingerprint`` into a configuration, once.

    solo-learn reads both configuration and name again for auto-resume, checkpoints and W&B. A configuration that has a
    ``data.fingerprint`` (one that a script reads from ``args.json``, say) is left alone.

    Args:
        cfg: configuration with complete ``method_kwargs``; changed in place.
        processes: number of training processes.
        rates: ``lr`` and ``classifier_lr`` as written, where ``cfg`` holds scaled ones.
    """
    if "fingerprint" in cfg.data:
        return
    data = data_fingerprint(cfg.data.dataset, cfg.data.get("format", "image_folder"), cfg.data.get("train_path"))
    unresolved: Any = OmegaConf.to_container(cfg, resolve=False)
    unresolved["optimizer"].update(rates or {})
    written: Any = OmegaConf.to_container(OmegaConf.create(canonical_numbers(unresolved)), resolve=True)
    cfg.name = run_name(without_secrets(str(written["name"])), config_hash(written, processes), data)
    cfg.data.fingerprint = data


def run_name(text: str, identity: str, data: str | None) -> str:
    """Limit a name to 120 characters without letting two runs share it.

    Args:
        text: the name as configured, made of canonical numbers (:func:`canonical_numbers`) and rates as written.
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


def canonical_numbers(value: Any) -> Any:
    """Write every number in one way: ``100.0`` as ``100``.

    Args:
        value: plain containers.

    Returns:
        The same with whole floats as integers.
    """
    if isinstance(value, dict):
        return {key: canonical_numbers(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [canonical_numbers(item) for item in value]
    if isinstance(value, float) and math.isfinite(value) and value.is_integer() and abs(value) < _LARGEST_EXACT:
        return int(value)
    return value


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
    """Class and file names below a folder; hidden ones are left out, and links that lead back to a folder above."""
    state = folder.stat()
    if (here := (state.st_dev, state.st_ino)) in above:
        return  # a ring, which the reader of the images refuses by name
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if os.path.splitext(entry.name)[1].lower() in _IMAGES:
                yield f"{prefix}{entry.name}"
            elif entry.is_dir():
                yield from _image_names(Path(entry.path), f"{prefix}{entry.name}/", above | {here})


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:_DIGITS]
