"""Features of a frozen network, cached on disk with checksums."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from radial_vicreg.data.batches import collate
from radial_vicreg.data.build import RunData, TransformedImages
from radial_vicreg.data.errors import resources_named
from radial_vicreg.errors import UserError
from radial_vicreg.io.files import atomic_file, write_json
from radial_vicreg.io.locks import changing
from radial_vicreg.io.terminal import track
from radial_vicreg.names.probes import FEATURES
from radial_vicreg.runs.checkpoints import file_checksum, read_tensors
from radial_vicreg.runs.loaded import LoadedRun
from radial_vicreg.runtime.devices import process_device

_BATCH_SIZE = 256


@dataclass
class Features:
    """Frozen features of the training and the validation set.

    Attributes:
        train: features ``(N, F)`` float32 and labels of the training set, without augmentation.
        val: features and labels of the validation set.
        cached: whether they were read from the cache.
    """

    train: tuple[Tensor, Tensor]
    val: tuple[Tensor, Tensor]
    cached: bool


def run_features(run: LoadedRun, data: RunData, kind: str, untrained: bool, workers: int | None = None) -> Features:
    """Extract features of a run's training and validation images, with a cache in ``<run>/probes/features``.

    The cache key consists of the checkpoint's content, the images and the resolution. Cached files have checksums;
    features whose checksum does not match are extracted again.

    Args:
        run: run opened with :func:`radial_vicreg.runs.loaded.open_run`.
        data: its images.
        kind: one of :data:`radial_vicreg.names.probes.FEATURES`.
        untrained: whether the network has random weights.
        workers: number of data-loading processes; default: the configuration's.

    Returns:
        The features, on the CPU.

    Raises:
        UserError: images, labels or the validation set are missing.
        LoaderResourceError: file descriptors, shared memory or memory ran out.
    """
    datasets = _datasets(data)
    source = f"untrained-{run.config.seed}" if untrained else file_checksum(run.checkpoint)
    parts = [source, *(dataset.dataset.digest() for dataset in datasets), str(run.config.crop_size)]
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    folder = run.folder / "probes" / "features"
    names = {split: folder / f"{key}-{kind}-{split}.pt" for split in ("train", "val")}
    kept = {split: _read(file) for split, file in names.items()}
    if kept["train"] is not None and kept["val"] is not None:
        return Features(kept["train"], kept["val"], cached=True)
    device = process_device(torch.cuda.is_available())
    run.model.to(device)
    for split, dataset in zip(("train", "val"), datasets, strict=True):
        loader = feature_loader(dataset, run.config.data.num_workers if workers is None else workers)
        with resources_named():
            watched = track(loader, f"{split} images", len(loader))
            outputs, labels = extract(run.model, watched, tuple(FEATURES.values()))
        for name, output in FEATURES.items():
            _write(folder / f"{key}-{name}-{split}.pt", outputs[output], labels)
        kept[split] = (outputs[FEATURES[kind]], labels)
    run.model.cpu()
    return Features(kept["train"], kept["val"], cached=False)  # type: ignore[arg-type]


def feature_loader(dataset: Dataset[Any], workers: int, batch_size: int = _BATCH_SIZE) -> DataLoader[Any]:
    """Build a loader of batches (images, labels), without shuffling or dropping images."""
    return DataLoader(dataset, batch_size=batch_size, num_workers=workers, collate_fn=collate)


@torch.no_grad()
def extract(
    model: nn.Module,
    loader: Iterable[Any],
    outputs: Sequence[str],
    precision: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> tuple[dict[str, Tensor], Tensor]:
    """Compute outputs of a network for every image of a loader, in evaluation mode; its training mode is restored.

    Args:
        model: network that returns a dictionary of outputs for a batch of images; it stays on its device.
        loader: batches (images, labels).
        outputs: keys of the requested outputs.
        precision: returns the context of a call of the network, such as a trainer's autocast.

    Returns:
        Each output, shape ``(N, F)``, float32, and the labels, all on the CPU.
    """
    was_training, parameter = model.training, next(model.parameters())
    found: dict[str, list[Tensor]] = {name: [] for name in outputs}
    labels = []
    model.eval()
    try:
        for images, targets in loader:
            with precision():
                out = model(images.to(parameter.device, parameter.dtype))
            for name in outputs:
                found[name].append(out[name].float().cpu())
            labels.append(targets.cpu())
    finally:
        model.train(was_training)
    return {name: torch.cat(values) for name, values in found.items()}, torch.cat(labels)


def _datasets(data: RunData) -> tuple[TransformedImages, TransformedImages]:
    if data.config.data.no_labels:
        raise UserError("a probe needs labels, but data.no_labels is true for this run")
    train, val = data.plain_training_set(), data.validation_set()
    if val is None:
        raise UserError("a probe needs a validation set: pass it as --val DIR")
    return train, val


def _write(path: Path, features: Tensor, labels: Tensor) -> None:
    with changing(path):  # two probes of a run may write the same features
        with atomic_file(path) as stream:
            torch.save({"features": features.clone(), "labels": labels}, stream)
        write_json(path.with_suffix(".json"), {"sha256": file_checksum(path), "shape": list(features.shape)})


def _read(path: Path) -> tuple[Tensor, Tensor] | None:
    card = path.with_suffix(".json")
    if not path.is_file() or not card.is_file():
        return None
    try:
        expected = json.loads(card.read_text())["sha256"]
    except (ValueError, KeyError, TypeError, RecursionError):
        expected = None
    if expected != file_checksum(path):
        print(f"{path} does not match its checksum: extracting the features again")
        return None
    try:
        content = read_tensors(path)
        features, labels = content["features"], content["labels"]
        agree = features.ndim == 2 and features.is_floating_point() and len(features) == len(labels)
    except (ValueError, KeyError, TypeError, AttributeError):  # another program's file with a valid checksum
        agree = False
    if not agree:
        print(f"{path} does not contain features: extracting them again")
        return None
    return features, labels
