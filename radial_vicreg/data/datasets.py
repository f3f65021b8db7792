"""Datasets and loaders of the standalone host: solo-learn's, but validated at the training resolution."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from sklearn.model_selection import train_test_split
from torch.utils.data import DataLoader, Dataset, Subset
from torchvision import transforms
from torchvision.datasets import ImageFolder

from radial_vicreg.data.augmentation import MultiCrop, Transform, build_augmentation, to_normalised_tensor
from radial_vicreg.data.batches import collate
from radial_vicreg.data.celeba import NUM_ATTRIBUTES, CelebAFolder
from radial_vicreg.data.cifar import open_cifar
from radial_vicreg.data.folder import (
    IndexedDataset,
    UnlabelledFolder,
    check_same_classes,
    load_image_folder,
    require_directory,
)
from radial_vicreg.data.image import cut_long_image
from radial_vicreg.data.listing import class_folders
from radial_vicreg.errors import UserError

_LOG = logging.getLogger(__name__)

NUM_CLASSES = {"cifar10": 10, "cifar100": 100, "imagenet": 1000, "imagenet100": 100, "celeba": NUM_ATTRIBUTES}
"""Number of classes (CelebA: attributes) of the datasets that are known by name; ``custom`` counts its sub-folders."""

_CIFAR = ("cifar10", "cifar100")
_DATASETS = (*NUM_CLASSES, "custom")
_FORMATS = ("image_folder", "device", "dali")  # files are read in the same way for all of them
_RESIZE_RATIO = 256 / 224  # of shorter side to crop in ImageNet's usual validation
_SMALLEST_MARGIN_CROP = 64  # below it a margin of one eighth costs more of the object than it shows
_SPLIT_SEED = 42  # solo-learn's, so that data.fraction means the same images


def build_val_transform(cfg: DictConfig) -> transforms.Compose:
    """Build the validation pipeline, at the resolution of the training crops.

    CIFAR images are taken as they are at 32 px. Otherwise the shorter side is resized to 8/7 of the crop (for
    crops of 64 px and more) or to the crop itself, and the centre is cut out. Mean and standard deviation are
    the training's.

    Args:
        cfg: configuration in solo-learn's schema.

    Returns:
        RGB image to normalised float32 tensor ``(3, crop_size, crop_size)``.
    """
    normalise = to_normalised_tensor(cfg.data.dataset, cfg.augmentations[0])
    return transforms.Compose([*val_geometry(cfg), *normalise])


def val_geometry(cfg: DictConfig) -> list[Any]:
    """Build the first part of the validation pipeline: to the resolution of the training crops.

    Args:
        cfg: configuration in solo-learn's schema.

    Returns:
        Transforms of an RGB image to another.
    """
    size = int(cfg.augmentations[0].crop_size)
    if cfg.data.dataset in _CIFAR and size == 32:
        return []
    shorter = round(size * _RESIZE_RATIO) if size >= _SMALLEST_MARGIN_CROP else size
    return [cut_long_image, transforms.Resize(shorter), transforms.CenterCrop(size)]


def num_classes(cfg: DictConfig) -> int:
    """Count the classes of ``cfg.data.dataset``; for ``custom``, the sub-folders of ``train_path`` (>= 1).

    Args:
        cfg: configuration in solo-learn's schema.

    Returns:
        Width of the classifier.

    Raises:
        UserError: unknown dataset, or ``train_path`` is missing.
    """
    name = _dataset_name(cfg)
    if name in NUM_CLASSES:
        return NUM_CLASSES[name]
    root = require_directory(OmegaConf.select(cfg, "data.train_path"), "data.train_path")
    return max(1, len(class_folders(root)))


def build_train_dataset(cfg: DictConfig, transform: Transform | None = None) -> IndexedDataset:
    """Open the training set.

    Args:
        cfg: configuration in solo-learn's schema.
        transform: replaces the augmentations of ``cfg``.

    Returns:
        Samples ``(index, list of crops, target)``; the target is -1 under ``data.no_labels``.

    Raises:
        UserError: a missing or empty folder, unknown dataset or format, or a fraction outside (0, 1).
        ConnectionError: CIFAR is not there and cannot be downloaded.
    """
    name = _dataset_name(cfg)
    if transform is None:
        pipelines = [build_augmentation(name, aug_cfg) for aug_cfg in cfg.augmentations]
        transform = MultiCrop(pipelines, [int(aug_cfg.num_crops) for aug_cfg in cfg.augmentations])
    if OmegaConf.select(cfg, "data.format") == "dali":
        _LOG.info("data.format=dali: the standalone host reads the same image folders through torchvision")
    path = OmegaConf.select(cfg, "data.train_path")
    dataset: Any
    if name in _CIFAR:
        dataset = open_cifar(name, _cifar_root(path, "data.train_path"), train=True, transform=transform)
    elif name == "celeba":
        dataset = CelebAFolder(path, transform, on_bad_image=_on_bad_image(cfg))
    elif _without_labels(cfg):
        dataset = UnlabelledFolder(path, transform, "data.train_path", _on_bad_image(cfg))
    else:
        dataset = load_image_folder(path, transform, "data.train_path", _on_bad_image(cfg))
        _check_class_count(dataset, name)
    return IndexedDataset(_take_fraction(dataset, OmegaConf.select(cfg, "data.fraction", default=-1)))


def build_val_dataset(cfg: DictConfig, transform: Transform | None = None) -> Dataset[Any] | None:
    """Open the validation set.

    Args:
        cfg: configuration in solo-learn's schema.
        transform: replaces :func:`build_val_transform`.

    Returns:
        Samples ``(image, target)``; None without labels, or for a folder dataset without ``data.val_path``.
        CIFAR without ``data.val_path`` is read from ``data.train_path``, where torchvision puts both splits.

    Raises:
        UserError: a missing or empty folder, or classes other than the training's.
        ConnectionError: CIFAR is not there and cannot be downloaded.
    """
    name = _dataset_name(cfg)
    transform = build_val_transform(cfg) if transform is None else transform
    train_path = OmegaConf.select(cfg, "data.train_path")
    val_path = OmegaConf.select(cfg, "data.val_path")
    if name in _CIFAR:
        root = _cifar_root(train_path if val_path is None else val_path, "data.val_path")
        return open_cifar(name, root, train=False, transform=transform)
    if val_path is None or _without_labels(cfg):
        return None
    if name == "celeba":
        return CelebAFolder(val_path, transform, "data.val_path", _on_bad_image(cfg))
    dataset = load_image_folder(val_path, transform, "data.val_path", _on_bad_image(cfg))
    check_same_classes(class_folders(require_directory(train_path, "data.train_path")), dataset.classes)
    return dataset


def build_val_loader(cfg: DictConfig, dataset: Dataset[Any] | None = None) -> DataLoader[Any] | None:
    """Build the validation loader, in order and complete, or None where there is no validation set.

    Args:
        cfg: configuration in solo-learn's schema.
        dataset: replaces :func:`build_val_dataset`.

    Returns:
        Batches ``[images (N, 3, H, W), targets (N,)]``, or None.

    Raises:
        UserError: as :func:`build_val_dataset`.
    """
    dataset = build_val_dataset(cfg) if dataset is None else dataset
    if dataset is None:
        return None
    return DataLoader(
        dataset,
        batch_size=int(cfg.optimizer.batch_size),
        num_workers=int(OmegaConf.select(cfg, "data.num_workers", default=4)),
        pin_memory=torch.cuda.is_available(),
        collate_fn=collate,
    )


def skipped_images(cfg: DictConfig) -> dict[str, tuple[str, ...]]:
    """Name the images that ``data.on_bad_image=skip`` leaves out.

    Args:
        cfg: configuration in solo-learn's schema.

    Returns:
        Files for ``"train"`` and ``"val"``; nothing under ``data.on_bad_image=error``.
    """
    if _on_bad_image(cfg) == "error":
        return {}
    train, val = build_train_dataset(cfg).dataset, build_val_dataset(cfg)
    # data.fraction wraps the data set.
    return {
        split: getattr(getattr(dataset, "dataset", dataset), "skipped", ())
        for split, dataset in (("train", train), ("val", val))
    }


def _dataset_name(cfg: DictConfig) -> str:
    name, layout = str(cfg.data.dataset), OmegaConf.select(cfg, "data.format", default="image_folder")
    if name not in _DATASETS:
        raise UserError(f"data.dataset={name!r}: the standalone host reads {', '.join(_DATASETS)}")
    if layout not in _FORMATS:
        raise UserError(f"data.format={layout!r}: the standalone host reads image_folder, device (and dali's folders)")
    return name


def _without_labels(cfg: DictConfig) -> bool:
    # solo-learn looks at no_labels for custom folders only.
    return cfg.data.dataset == "custom" and bool(OmegaConf.select(cfg, "data.no_labels", default=False))


def _on_bad_image(cfg: DictConfig) -> str:
    return str(OmegaConf.select(cfg, "data.on_bad_image", default="error"))


def _cifar_root(path: str | Path | None, key: str) -> Path:
    if path is None:
        raise UserError(f"{key} is not set: give the folder for torchvision's copy of CIFAR, {key}=DIR")
    return Path(path)


def _check_class_count(dataset: ImageFolder, name: str) -> None:
    if name in NUM_CLASSES and len(dataset.classes) > NUM_CLASSES[name]:
        raise UserError(
            f"data.train_path={dataset.root} has {len(dataset.classes)} classes, but data.dataset={name} has"
            f" {NUM_CLASSES[name]}: correct the path or use data.dataset=custom"
        )


def _take_fraction(dataset: Any, fraction: float | None) -> Dataset[Any]:
    """Keep solo-learn's subset: a split stratified by class."""
    if fraction is None or fraction <= 0:
        return dataset
    if fraction >= 1:
        raise UserError(f"data.fraction={fraction}: expected a number between 0 and 1, or -1 for all images")
    targets = getattr(dataset, "targets", None)
    kept, _ = train_test_split(
        list(range(len(dataset))), train_size=fraction, stratify=targets, random_state=_SPLIT_SEED
    )
    return Subset(dataset, kept)
