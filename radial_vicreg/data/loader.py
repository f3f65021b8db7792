"""Loaders of a run: an epoch's batches depend on the seed and the epoch alone.

This holds if the loader's iterator is created after the epoch is set: see :mod:`radial_vicreg.train.callbacks.resumed`.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from lightning.pytorch.utilities import rank_zero_only
from torch.utils.data import DataLoader, Dataset, DistributedSampler
from torchvision import transforms

from radial_vicreg.config import RunConfig
from radial_vicreg.data.batch_augmentation import BatchAugmentation
from radial_vicreg.data.batches import collate
from radial_vicreg.data.build import RunData, TransformedImages
from radial_vicreg.data.decoded import CachedImages, DecodedImages, can_keep
from radial_vicreg.data.device_sets import DeviceImages, DeviceTrainingSet, DeviceValidationSet
from radial_vicreg.data.folder import IndexedDataset, check_batch_fits
from radial_vicreg.data.formats import memory_option
from radial_vicreg.names.counts import counted
from radial_vicreg.runtime.devices import usable_cores

_WORTH_A_LINE = 5.0  # seconds of decoding


def faster_loading(config: RunConfig, data: RunData) -> str | None:
    """Name a setting with which the images of a run would load faster on this machine.

    Args:
        config: of ``radial-vicreg pretrain``.
        data: its images.

    Returns:
        The setting and its effect, or None: the images are on the device, or they do not fit into memory and each
        processor core has a data-loading process.
    """
    option = memory_option(config)
    if option == "data.format=device":
        return None
    host = " host=standalone" if config.host == "solo" else ""
    copies = config.local_processes
    free = torch.cuda.mem_get_info()[0] if _on_gpu(config) else None
    if can_keep(data.train_images, same_size=True, copies=copies, on_device=free):
        return (
            f"data.format=device{host} keeps them in memory and augments whole batches: another experiment, with other "
            "random crops of the same distribution"
        )
    workers = usable_cores() // copies
    if workers > config.data.num_workers:
        return f"data.num_workers={workers}, one for each core, loads more of them at a time: the same experiment"
    if option is None and can_keep(data.train_images, same_size=False, copies=copies):
        return f"data.cache=ram{host} decodes each of them once: the same experiment"
    return None


def workers_note(config: RunConfig) -> str | None:
    """Describe a number of data-loading processes above that of the cores; None if there are enough cores.

    The number is not lowered: every process has random numbers of its own, so another number gives other crops.

    Args:
        config: of ``radial-vicreg pretrain``.
    """
    if memory_option(config) == "data.format=device":
        return None
    cores, copies = usable_cores(), config.local_processes
    if config.data.num_workers * copies <= cores:
        return None
    each = "" if copies == 1 else f" for each of {copies} processes"
    return (
        f"note: data.num_workers={config.data.num_workers}{each} on {counted(cores, 'core')}: "
        f"data.num_workers={max(1, cores // copies)} usually loads as fast, and is the same experiment"
    )


def build_training_set(config: RunConfig, data: RunData) -> IndexedDataset | DeviceTrainingSet:
    """Build the training set, and decode it if it is kept in memory.

    Args:
        config: of ``radial-vicreg pretrain``.
        data: its images.

    Returns:
        Samples or batches of index, crops and target.

    Raises:
        UserError: as :class:`RunData`, or the images cannot be kept in memory.
    """
    option = memory_option(config)
    if option is None:
        return data.training_set()
    decoded = _decode(config, data.train_images, option)
    if option == "data.cache=ram":
        return IndexedDataset(CachedImages(decoded, data.augmentations()))
    pipelines = [BatchAugmentation(config.data.dataset, augmentation) for augmentation in config.augmentations]
    num_crops = [augmentation.num_crops for augmentation in config.augmentations]
    return DeviceTrainingSet(decoded, _on_gpu(config), pipelines, num_crops)


def build_train_loader(config: RunConfig, dataset: Dataset[Any]) -> DataLoader[Any]:
    """Build the training loader: shuffled batches of full size.

    With several processes the sampler is Lightning's distributed one, which shuffles by seed and epoch as well.

    Args:
        config: batch size, seed and workers.
        dataset: yields (index, crops, target), or makes batches of them itself (:class:`DeviceImages`).

    Returns:
        Batches of ``[indexes, [view 1, view 2], targets]``.

    Raises:
        UserError: the data set holds less than one batch for every process; the numbers are named.
    """
    size, batch_size = len(dataset), config.optimizer.batch_size  # type: ignore[arg-type]
    check_batch_fits(size, batch_size, config.processes, where=f"data.train_path={config.data.train_path}")
    sampler = EpochSampler(dataset, seed=config.seed) if config.processes == 1 else None
    on_device = isinstance(dataset, DeviceImages)
    return DataLoader(
        dataset,
        batch_size=batch_size,
        sampler=sampler,
        shuffle=sampler is None,
        generator=None if sampler is None else sampler.generator,
        num_workers=0 if on_device else config.data.num_workers,  # workers cannot use the GPU of their process
        pin_memory=_on_gpu(config) and not on_device,
        collate_fn=dataset.collate if on_device else collate,  # type: ignore[attr-defined]
        drop_last=True,
    )


def build_val_loader(config: RunConfig, data: RunData) -> DataLoader[Any] | None:
    """Build the validation loader, in order and complete; images that are kept in memory are resized only once.

    Args:
        config: batch size and workers.
        data: its images.

    Returns:
        Batches ``[images (N, 3, H, W), targets (N,)]``, or None where there is no validation set.

    Raises:
        UserError: as :class:`RunData`, or the images cannot be kept in memory.
    """
    option = memory_option(config)
    images = data.val_images
    if images is None:
        return None
    dataset: Dataset[Any] = TransformedImages(images, data.val_transform())
    if option is not None:
        resized = TransformedImages(images, transforms.Compose(data.val_geometry()))
        decoded = _decode(config, resized, option)
        if option == "data.format=device":
            kept = DeviceValidationSet(decoded, _on_gpu(config), config.data.dataset, config.augmentations[0])
            return DataLoader(kept, batch_size=config.optimizer.batch_size, collate_fn=kept.collate)
        dataset = CachedImages(decoded, transforms.Compose(data.normalisation()))
    return DataLoader(
        dataset,
        batch_size=config.optimizer.batch_size,
        num_workers=config.data.num_workers,
        pin_memory=_on_gpu(config),
        collate_fn=collate,
    )


class EpochSampler(DistributedSampler[int]):
    """Shuffle by (seed, epoch), so that a resumed run sees the batches of an uninterrupted one.

    Args:
        dataset: data set to shuffle.
        seed: of the run.

    Attributes:
        generator: seeded by every :meth:`set_epoch`; the loader draws its workers' seeds from it.
    """

    def __init__(self, dataset: Dataset[Any], seed: int) -> None:
        super().__init__(dataset, num_replicas=1, rank=0, shuffle=True, seed=seed)
        self.generator = torch.Generator()
        self.set_epoch(0)

    def set_epoch(self, epoch: int) -> None:
        """Seed an epoch; Lightning calls it before each."""
        super().set_epoch(epoch)
        self.generator.manual_seed(self.seed + epoch)


def _decode(config: RunConfig, dataset: Dataset[Any], option: str) -> DecodedImages:
    began = time.perf_counter()
    same_size = option == "data.format=device"
    decoded = DecodedImages(dataset, config.data.num_workers, option, same_size, copies=config.local_processes)
    took = time.perf_counter() - began
    if took > _WORTH_A_LINE:
        rank_zero_only(print)(f"{option}: decoded {len(decoded):,} images in {took:.0f} s")
    return decoded


def _on_gpu(config: RunConfig) -> bool:
    return config.accelerator != "cpu" and torch.cuda.is_available()
