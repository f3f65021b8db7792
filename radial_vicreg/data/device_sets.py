"""Data sets on the training device: batches are made there, including random crops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from radial_vicreg.config import AugmentationConfig
from radial_vicreg.data.batch_augmentation import BatchAugmentation, Normalisation
from radial_vicreg.data.decoded import DecodedImages
from radial_vicreg.runtime.devices import process_device


class DeviceImages(Dataset[int]):
    """Images on the device; the loader samples their numbers, and :meth:`collate` makes the batch.

    The pixels move to the device with the first batch, after the trainer has assigned a device to each process. Random
    numbers come from that device's default generator, which ``EpochSeed`` seeds by (seed, epoch, process).

    Args:
        images: decoded images of one size; their pixels are moved out of them.
        on_gpu: the device is the process's current GPU, otherwise the CPU.
    """

    def __init__(self, images: DecodedImages, on_gpu: bool) -> None:
        self._decoded: DecodedImages | None = images
        self._count = len(images)
        self._on_gpu = on_gpu
        self._images = torch.empty(0)
        self._targets = images.targets

    def __getitem__(self, index: int) -> int:
        """Return the number itself."""
        return index

    def __len__(self) -> int:
        """Return the number of images."""
        return self._count

    def collate(self, indexes: Sequence[int]) -> list[Any]:
        """Make a batch, on the device; for ``DataLoader(collate_fn=...)`` without workers.

        Args:
            indexes: numbers of the images.

        Returns:
            A batch in the host's format.
        """
        raise NotImplementedError

    def _take(self, indexes: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
        """Take numbers, uint8 pixels ``(N, 3, H, W)`` and targets of a batch."""
        if self._decoded is not None:
            device = process_device(self._on_gpu)
            self._images, self._decoded = self._decoded.move_to(device), None
            self._targets = self._targets.to(device)
        chosen = torch.tensor(indexes).to(self._images.device, non_blocking=True)
        return chosen, self._images[chosen], self._targets[chosen]


class DeviceTrainingSet(DeviceImages):
    """Training images with augmented crops.

    Args:
        images: as in :class:`DeviceImages`.
        on_gpu: as in :class:`DeviceImages`.
        pipelines: one per entry of ``cfg.augmentations``.
        num_crops: number of crops from each.
    """

    def __init__(
        self, images: DecodedImages, on_gpu: bool, pipelines: Sequence[BatchAugmentation], num_crops: Sequence[int]
    ) -> None:
        super().__init__(images, on_gpu)
        self.pipelines, self.num_crops = list(pipelines), list(num_crops)

    def collate(self, indexes: Sequence[int]) -> list[Any]:
        """Return ``[indexes, [crop 1, crop 2, ...], targets]``."""
        chosen, pixels, targets = self._take(indexes)
        crops: list[Tensor] = []
        for pipeline, count in zip(self.pipelines, self.num_crops, strict=True):
            crops += pipeline(pixels.repeat(count, 1, 1, 1)).chunk(count)  # one call for all crops: fewer kernels
        return [chosen, crops, targets]


class DeviceValidationSet(DeviceImages):
    """Validation images, only normalised.

    Args:
        images: as in :class:`DeviceImages`.
        on_gpu: as in :class:`DeviceImages`.
        dataset_name: as in :func:`radial_vicreg.data.augmentation.build_augmentation`.
        augmentation: as in :func:`radial_vicreg.data.augmentation.build_augmentation`.
    """

    def __init__(
        self, images: DecodedImages, on_gpu: bool, dataset_name: str, augmentation: AugmentationConfig
    ) -> None:
        super().__init__(images, on_gpu)
        self._normalise = Normalisation(dataset_name, augmentation)

    def collate(self, indexes: Sequence[int]) -> list[Any]:
        """Return ``[images, targets]``."""
        _, pixels, targets = self._take(indexes)
        return [self._normalise(pixels.float()), targets]
