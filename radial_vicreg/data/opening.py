"""Data sets that are kept in memory: ``data.cache=ram`` and ``data.format=device``."""

from __future__ import annotations

import difflib
import time
from typing import Any

import torch
from lightning.pytorch.utilities import rank_zero_only
from omegaconf import DictConfig, OmegaConf
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

from radial_vicreg.data import datasets as files
from radial_vicreg.data.augmentation import MultiCrop, build_augmentation, to_normalised_tensor
from radial_vicreg.data.cache import CachedImages, DecodedImages
from radial_vicreg.data.device import BatchAugmentation, DeviceTrainingSet, DeviceValidationSet
from radial_vicreg.data.folder import IndexedDataset
from radial_vicreg.errors import UserError
from radial_vicreg.optim import process_count

FORMATS = ("image_folder", "device")
CACHES = ("none", "ram")
_WORTH_A_LINE = 5.0  # seconds of decoding


def memory_option(cfg: DictConfig) -> str | None:
    """The setting that keeps images in memory, checked.

    Args:
        cfg: configuration in solo-learn's schema.

    Returns:
        ``"data.format=device"``, ``"data.cache=ram"`` or None.

    Raises:
        UserError: an unknown value; the nearest known one is named.
    """
    chosen = None
    for key, known, wanted in (("cache", CACHES, "ram"), ("format", FORMATS, "device")):
        value = OmegaConf.select(cfg, f"data.{key}", default=None)
        value = known[0] if value is None else str(value)
        if key == "format" and value == "dali":
            raise UserError(
                "data.format=dali is run by solo-learn's main_pretrain.py; here use data.format=image_folder or device"
            )
        if value not in known:
            near = difflib.get_close_matches(value, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise UserError(f"data.{key} must be one of {', '.join(known)}, got {value!r}{hint}")
        chosen = f"data.{key}={wanted}" if value == wanted else chosen
    return chosen


def build_train_dataset(cfg: DictConfig) -> IndexedDataset | DeviceTrainingSet:
    """Open the training set, and decode it where it is kept in memory.

    Args:
        cfg: configuration in solo-learn's schema.

    Returns:
        Samples or batches of index, crops and target.

    Raises:
        UserError: as :func:`radial_vicreg.data.datasets.build_train_dataset`, or the images cannot be kept.
    """
    option = memory_option(cfg)
    if option is None:
        return files.build_train_dataset(cfg)
    plain = files.build_train_dataset(cfg, transform=_as_it_is).dataset
    decoded = _decode(cfg, plain, option)
    name, augmentations = cfg.data.dataset, cfg.augmentations
    num_crops = [int(aug_cfg.num_crops) for aug_cfg in augmentations]
    if option == "data.format=device":
        batch_pipelines = [BatchAugmentation(name, aug_cfg) for aug_cfg in augmentations]
        return DeviceTrainingSet(decoded, _on_gpu(cfg), batch_pipelines, num_crops)
    pipelines = [build_augmentation(name, aug_cfg) for aug_cfg in augmentations]
    return IndexedDataset(CachedImages(decoded, MultiCrop(pipelines, num_crops)))


def build_val_loader(cfg: DictConfig) -> DataLoader[Any] | None:
    """Build the validation loader, in order and complete; images that are kept in memory are resized only once.

    Args:
        cfg: configuration in solo-learn's schema.

    Returns:
        Batches ``[images (N, 3, H, W), targets (N,)]``, or None where there is no validation set.

    Raises:
        UserError: as :func:`radial_vicreg.data.datasets.build_val_dataset`, or the images cannot be kept.
    """
    option = memory_option(cfg)
    resized = None if option is None else files.build_val_dataset(cfg, transforms.Compose(files.val_geometry(cfg)))
    if option is None or resized is None:
        return files.build_val_loader(cfg)
    decoded = _decode(cfg, resized, option)
    if option == "data.format=device":
        kept = DeviceValidationSet(decoded, _on_gpu(cfg), cfg.data.dataset, cfg.augmentations[0])
        return DataLoader(kept, batch_size=int(cfg.optimizer.batch_size), collate_fn=kept.collate)
    normalise = to_normalised_tensor(cfg.data.dataset, cfg.augmentations[0])
    return files.build_val_loader(cfg, CachedImages(decoded, transforms.Compose(normalise)))


def _decode(cfg: DictConfig, dataset: Dataset[Any], option: str) -> DecodedImages:
    began = time.perf_counter()
    threads = int(OmegaConf.select(cfg, "data.num_workers", default=4))
    copies = process_count(cfg) // int(cfg.get("num_nodes", 1))
    decoded = DecodedImages(dataset, threads, option, same_size=option == "data.format=device", copies=copies)
    took = time.perf_counter() - began
    if took > _WORTH_A_LINE:
        rank_zero_only(print)(f"{option}: decoded {len(decoded):,} images in {took:.0f} s")
    return decoded


def _on_gpu(cfg: DictConfig) -> bool:
    return str(cfg.accelerator) != "cpu" and torch.cuda.is_available()


def _as_it_is(image: Image.Image) -> Image.Image:
    return image
