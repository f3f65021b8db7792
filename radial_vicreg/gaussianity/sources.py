"""Sources of embeddings, opened by name: a run, a checkpoint, an export, a library's backbone, a matrix.

What opens networks and images is imported for those alone: timm and torchvision take longer than a matrix.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from radial_vicreg.data.batches import evenly_spaced
from radial_vicreg.data.image_set import ImageSet
from radial_vicreg.errors import UserError
from radial_vicreg.gaussianity.content import Details
from radial_vicreg.gaussianity.forms import PREFIXES, require_source
from radial_vicreg.gaussianity.settings import Settings
from radial_vicreg.names.probes import FEATURES
from radial_vicreg.runs.stored import single_run

if TYPE_CHECKING:
    from radial_vicreg.data.build import TransformedImages
    from radial_vicreg.runs.loaded import LoadedRun

_FEATURES = {"encoder": FEATURES["encoder"]}


@dataclass
class Network:
    """A network and its images.

    Attributes:
        label: short name, for columns and legends.
        details: details for the JSON file.
        model: network that maps images to a dictionary of outputs, on the CPU.
        outputs: names of the diagnosed outputs, with their keys.
        images: data set of ``(image, target)``, transformed for the network.
        workers: number of data-loading processes.
    """

    label: str
    details: Details
    model: nn.Module
    outputs: dict[str, str]
    images: Dataset[Any]
    workers: int


@dataclass
class Matrix:
    """Embeddings that were computed elsewhere.

    Attributes:
        label: short name, for columns and legends.
        details: details for the JSON file.
        embeddings: embeddings, shape ``(N, d)``, float32; of several views, those of the first.
        views: embeddings of all views, shape ``(V, N, d)``; None if there is only one.
    """

    label: str
    details: Details
    embeddings: Tensor = field(repr=False)
    views: Tensor | None = field(default=None, repr=False)


Source = Network | Matrix


def open_sources(names: Sequence[str], settings: Settings, untrained: bool = False) -> list[Source]:
    """Open all sources, so that errors are reported before the first image is embedded.

    Args:
        names: see :data:`radial_vicreg.gaussianity.forms.FORMS`; a folder above a single run counts as that run.
        settings: settings of the images and the backbones.
        untrained: prepend the first run's network with the random weights of its seed.

    Returns:
        One source per name, with distinct labels.

    Raises:
        UserError: a source cannot be opened, or an option applies to none of them.
    """
    opened = [_open(name, settings) for name in names]
    if not settings.pretrained and not any(name.startswith(PREFIXES) for name in names):
        raise UserError("--no-pretrained applies to timm:NAME and torchvision:NAME, and no source is one of them")
    if untrained:
        first = next((name for name, source in zip(names, opened, strict=True) if _kind(source) == "run"), None)
        if first is None:
            raise UserError("--untrained needs a run among the sources, whose seed gives the weights")
        opened.insert(0, _open_run(single_run(first), settings, untrained=True))
    _number_equal_labels(opened)
    return opened


def _number_equal_labels(sources: Sequence[Source]) -> None:
    totals, seen = Counter(source.label for source in sources), Counter[str]()
    for source in sources:
        label = source.label
        seen[label] += 1
        source.label = f"{label} {seen[label]}" if totals[label] > 1 else label


def _open(name: str, settings: Settings) -> Source:
    require_source(name)
    if name.startswith(PREFIXES):
        return _open_named(name, settings)
    path = Path(name)
    if path.suffix == ".npy":
        return _open_matrix(path, settings.max_images)
    from radial_vicreg.export import CARD

    card = path / CARD if path.is_dir() else path
    if card.name == CARD and card.is_file():
        return _open_export(card, settings)
    return _open_run(single_run(path), settings)


def _kind(source: Source) -> Any:
    return source.details["kind"]


def _open_named(name: str, settings: Settings) -> Network:
    from radial_vicreg.gaussianity.backbones import build_named

    library, _, model_name = name.partition(":")
    _require_images(name, settings)
    backbone, transform = build_named(library, model_name, settings.pretrained, settings.seed)
    weights = "pretrained" if settings.pretrained else f"random, seed {settings.seed}"
    images, workers = _folder_images(settings, transform)
    described = _described(images.dataset, str(settings.images))
    details: Details = {"kind": library, "source": name, "weights": weights, **described}
    return Network(name, details, _Backbone(backbone), _FEATURES, images, workers)


def _open_export(card_file: Path, settings: Settings) -> Network:
    from radial_vicreg.export import load_exported, read_card
    from radial_vicreg.gaussianity.images import plain_transform

    _require_images(str(card_file.parent), settings)
    card = read_card(card_file)
    try:
        transform = plain_transform(card["image_size"], *(card["normalisation"][key] for key in ("mean", "std")))
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{card_file} does not contain how images are normalised: {error}") from error
    images, workers = _folder_images(settings, transform)
    described = _described(images.dataset, str(settings.images))
    details: Details = {"kind": "export", "source": str(card_file.parent), **described}
    details["architecture"], details["weights_sha256"] = card["architecture"], card["sha256"]
    backbone = _Backbone(load_exported(card_file))
    return Network(f"exported {card['architecture']}", details, backbone, _FEATURES, images, workers)


def _open_run(path: Path, settings: Settings, untrained: bool = False) -> Network:
    from radial_vicreg.figures import configured_method
    from radial_vicreg.runs.loaded import open_run

    run = open_run(path, untrained=untrained)
    images, described = _run_images(run, settings)
    details: Details = {
        "kind": "run",
        "source": str(path),
        "untrained": untrained,
        "method": configured_method(run.config.plain()),
        "epoch": run.epoch,
        "checkpoint": None if untrained else run.checkpoint.name,
        "config_hash": run.hashes["config_hash"],
        "experiment_hash": run.hashes["experiment_hash"],
        **described,
    }
    label = "untrained" if untrained else str(run.config.method)
    workers = run.config.data.num_workers if settings.workers is None else settings.workers
    return Network(label, details, run.model, dict(FEATURES), images, workers)


def _run_images(run: LoadedRun, settings: Settings) -> tuple[Dataset[Any], Details]:
    from torchvision import transforms

    from radial_vicreg.data.augmentation import to_normalised_tensor
    from radial_vicreg.data.build import centre_crop, open_data

    config = run.config
    policy = settings.on_bad_image or config.data.on_bad_image
    if settings.images is not None:
        normalise = to_normalised_tensor(config.data.dataset, config.augmentations[0])
        transform = transforms.Compose([*centre_crop(config.crop_size), *normalise])
        below, _ = _folder_images(settings, transform, policy)
        return below, _described(below.dataset, str(settings.images))
    reading = config.data.model_copy(update={"on_bad_image": policy})
    data = open_data(config.model_copy(update={"data": reading}))
    try:
        val = data.validation_set()
        if val is not None:
            where = f"validation: {config.data.val_path or config.data.train_path}"
            return val, _described(val.dataset, where)
        train = data.plain_training_set()
        return train, _described(train.dataset, f"training, not augmented: {config.data.train_path}")
    except UserError as error:
        raise UserError(f"the run's images cannot be read; pass others as --images DIR: {error}") from error


def _described(images: ImageSet, where: str) -> Details:
    """Return the location of images, and the number of files of unsupported types."""
    omitted = images.omitted
    return {"images": where, "omitted_files": omitted.counts()} if omitted.others else {"images": where}


def _folder_images(settings: Settings, transform: Any, on_bad_image: str = "error") -> tuple[TransformedImages, int]:
    assert settings.images is not None
    from radial_vicreg.data.build import TransformedImages
    from radial_vicreg.gaussianity.images import ImagesBelow

    images = ImagesBelow(settings.images, settings.on_bad_image or on_bad_image)
    return TransformedImages(images, transform), settings.workers or 0


def _require_images(name: str, settings: Settings) -> None:
    if settings.images is None:
        raise UserError(f"{name} has no images: pass a folder of images, --images DIR")


def _open_matrix(path: Path, max_rows: int) -> Matrix:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:  # numpy's message may advise to unpickle, which runs code
        reason = (
            error.strerror if isinstance(error, OSError) else None
        ) or "it is incomplete, or not a .npy of plain numbers"
        raise UserError(f"{path} cannot be read: {reason}") from error
    if not isinstance(array, np.ndarray) or array.ndim not in (2, 3) or array.dtype.kind != "f" or 0 in array.shape:
        found = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else "an archive"
        expected = "a matrix (N, d) or views (V, N, d) of floating-point numbers"
        raise UserError(f"{path} holds {found}, expected {expected}")
    if array.ndim == 3 and len(array) < 2:
        raise UserError(f"{path} has 1 view of shape {array.shape[1:]}: save a matrix (N, d), or 2 or more views")
    count = array.shape[-2]
    if count < 2:
        raise UserError(f"{path} has {count} row, expected 2 or more embeddings")
    with np.errstate(over="ignore"):  # values that overflow float32 are reported as not finite
        rows = torch.from_numpy(np.asarray(array[..., evenly_spaced(count, max_rows), :], dtype=np.float32))
    details: Details = {"kind": "matrix", "source": str(path), "rows": count}
    if array.ndim == 2:
        return Matrix(path.stem, details, rows)
    return Matrix(path.stem, {**details, "views": len(array)}, rows[0], rows)


class _Backbone(nn.Module):
    """A backbone that returns its output in a dictionary, as the network of a run does."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        return {_FEATURES["encoder"]: self.backbone(images)}
