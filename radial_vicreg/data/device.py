"""A data set that lives on the training device: crops are made there, a batch at a time.

Operations, probabilities, ranges and rounding are those of :mod:`radial_vicreg.data.augmentation`; the random numbers
are torch's on that device, so the crops differ one by one and agree in distribution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from torch import Tensor
from torch.utils.data import Dataset

from radial_vicreg.data import batch_ops
from radial_vicreg.data.augmentation import BLUR_SIGMA, SOLARIZE_THRESHOLD, mean_and_std, probability
from radial_vicreg.data.cache import DecodedImages

_RATIO = (3 / 4, 4 / 3)  # width to height of a crop, torchvision's default
_GATHERING_DEVICES = ("cpu",)  # a GPU would have to be waited for to count the chosen images, and has lanes to spare
_ATTEMPTS = 10  # after which torchvision gives up and takes the centre


class DeviceImages(Dataset[int]):
    """Images on the device; the loader draws their numbers, :meth:`collate` makes the batch.

    The pixels move to the device with the first batch, when the trainer has chosen each process its own. Random
    numbers come from that device's default generator, which ``EpochSeed`` seeds by (seed, epoch, process).

    Args:
        images: decoded, of one size; they are handed over.
        on_gpu: the device is the process's current GPU, otherwise the CPU.
    """

    def __init__(self, images: DecodedImages, on_gpu: bool) -> None:
        self._decoded: DecodedImages | None = images
        self._count = len(images)
        self._device = torch.device("cuda" if on_gpu else "cpu")
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
            What the host takes as a batch.
        """
        raise NotImplementedError

    def _take(self, indexes: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
        """Numbers, uint8 pixels ``(N, 3, H, W)`` and targets of a batch."""
        if self._decoded is not None:
            self._images, self._decoded = self._decoded.move_to(self._device), None
            self._targets = self._targets.to(self._device)
        chosen = torch.tensor(indexes).to(self._device, non_blocking=True)
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
            crops += pipeline(pixels.repeat(count, 1, 1, 1)).chunk(count)  # all in one go: fewer kernels
        return [chosen, crops, targets]


class DeviceValidationSet(DeviceImages):
    """Validation images, only normalised.

    Args:
        images: as in :class:`DeviceImages`.
        on_gpu: as in :class:`DeviceImages`.
        dataset_name: as in :func:`radial_vicreg.data.augmentation.build_augmentation`.
        aug_cfg: as in :func:`radial_vicreg.data.augmentation.build_augmentation`.
    """

    def __init__(self, images: DecodedImages, on_gpu: bool, dataset_name: str, aug_cfg: DictConfig) -> None:
        super().__init__(images, on_gpu)
        self._normalise = _Normalise(dataset_name, aug_cfg)

    def collate(self, indexes: Sequence[int]) -> list[Any]:
        """Return ``[images, targets]``."""
        _, pixels, targets = self._take(indexes)
        return [self._normalise(pixels.float()), targets]


class BatchAugmentation:
    """One entry of ``cfg.augmentations`` for a whole batch, every image with random numbers of its own.

    Args:
        dataset_name: as in :func:`radial_vicreg.data.augmentation.build_augmentation`.
        aug_cfg: as in :func:`radial_vicreg.data.augmentation.build_augmentation`.
    """

    def __init__(self, dataset_name: str, aug_cfg: DictConfig) -> None:
        self.size = int(aug_cfg.crop_size)
        self.scale = None
        if OmegaConf.select(aug_cfg, "rrc.enabled", default=False):
            self.scale = (float(aug_cfg.rrc.crop_min_scale), float(aug_cfg.rrc.crop_max_scale))
        self._steps: list[tuple[float, Callable[[Tensor], Tensor]]] = []
        if chance := probability(aug_cfg, "color_jitter"):
            self._steps.append((chance, ColorJitter(aug_cfg.color_jitter)))
        self._steps += [(chance, step) for name, step in _STEPS.items() if (chance := probability(aug_cfg, name))]
        self._normalise = _Normalise(dataset_name, aug_cfg)

    def __call__(self, images: Tensor) -> Tensor:
        """Crops and distorts.

        Args:
            images: uint8 ``(N, 3, H, W)``.

        Returns:
            Normalised float32 ``(N, 3, crop_size, crop_size)``.
        """
        pixels = batch_ops.resized_crop(images, *self._boxes(images))
        for chance, step in self._steps:
            pixels = apply_where(torch.rand(len(pixels), device=pixels.device) < chance, step, pixels)
        return self._normalise(pixels)

    def _boxes(self, images: Tensor) -> tuple[Tensor, tuple[int, int]]:
        count, _, height, width = images.shape
        if self.scale is not None:
            return random_boxes(count, height, width, self.scale, images.device), (self.size, self.size)
        shorter = min(height, width)
        whole = torch.zeros(count, 4, device=images.device)
        whole[:, 2], whole[:, 3] = height, width
        return whole, (self.size * height // shorter, self.size * width // shorter)


class ColorJitter:
    """Brightness, contrast, saturation and hue, in an order of its own for every image.

    Args:
        aug_cfg: ``color_jitter`` of an entry of ``cfg.augmentations``: the four half-widths.
    """

    def __init__(self, aug_cfg: DictConfig) -> None:
        self._widths = [float(aug_cfg[name]) for name in ("brightness", "contrast", "saturation")]
        self._hue = float(aug_cfg.hue)

    def __call__(self, images: Tensor) -> Tensor:
        """Draws factors and orders for ``(N, 3, H, W)``, and applies them."""
        draws, orders = torch.rand(2, len(images), len(batch_ops.TONES) + 1, device=images.device)
        low = [max(0.0, 1 - width) for width in self._widths]
        factors = [low[tone] + (1 + self._widths[tone] - low[tone]) * draws[:, tone] for tone in batch_ops.TONES]
        shift = self._hue * (2 * draws[:, -1] - 1)
        before = (orders[:, -1] * (len(batch_ops.TONES) + 1)).floor()
        return self.apply(images, orders[:, :-1].argsort(dim=1), torch.stack(factors, dim=1), before, shift)

    def apply(self, images: Tensor, tones: Tensor, factors: Tensor, before: Tensor, shift: Tensor) -> Tensor:
        """Applies the four operations to every image in its order.

        The hue is the dearest by far: it is turned once, between those tones that come before it and the others.

        Args:
            images: ``(N, 3, H, W)``, whole levels.
            tones: row i is the order of brightness, contrast and saturation for image i, int64 ``(N, 3)``.
            factors: of brightness, contrast and saturation, ``(N, 3)``.
            before: how many of the tones come before the hue, ``(N,)``.
            shift: of the hue, ``(N,)``.

        Returns:
            The shape of ``images``.
        """
        turns = [(tone, factors.gather(1, tone[:, None])[:, 0]) for tone in tones.unbind(1)]
        for place, turn in enumerate(turns):
            images = apply_where(place < before, batch_ops.adjust_tone, images, *turn)
        if self._hue:  # without a shift the way through HSV would still round, which torchvision does without
            images = batch_ops.shift_hue(images, shift)
        for place, turn in enumerate(turns):
            images = apply_where(place >= before, batch_ops.adjust_tone, images, *turn)
        return images


def apply_where(chosen: Tensor, operation: Callable[..., Tensor], images: Tensor, *arguments: Tensor) -> Tensor:
    """Applies an operation to some images of a batch.

    Args:
        chosen: which, bool ``(N,)``.
        operation: takes images and arguments.
        images: ``(N, 3, H, W)``; not changed.
        arguments: of the operation, ``(N,)`` each.

    Returns:
        All images, the chosen ones changed.
    """
    if images.device.type in _GATHERING_DEVICES:
        result = images.clone()
        rows = chosen.nonzero()[:, 0]
        result[rows] = operation(images[rows], *(argument[rows] for argument in arguments))
        return result
    return torch.where(chosen[:, None, None, None], operation(images, *arguments), images)


def random_boxes(count: int, height: int, width: int, scale: tuple[float, float], device: torch.device) -> Tensor:
    """Draws the boxes of torchvision's ``RandomResizedCrop``.

    Args:
        count: number of boxes.
        height: of the images.
        width: of the images.
        scale: smallest and largest part of the area.
        device: of the result.

    Returns:
        Top, left, height and width, whole numbers, float32 ``(count, 4)``.
    """
    draws = torch.rand(2, count, _ATTEMPTS, device=device)
    area = height * width * (scale[0] + (scale[1] - scale[0]) * draws[0])
    low, high = (math.log(ratio) for ratio in _RATIO)
    ratio = torch.exp(low + (high - low) * draws[1])
    widths, heights = torch.sqrt(area * ratio).round(), torch.sqrt(area / ratio).round()
    fits = (widths > 0) & (widths <= width) & (heights > 0) & (heights <= height)
    # The attempt after the last always fits: the largest part of the image with an allowed ratio, from the centre.
    central_width = min(width, round(height * _RATIO[1]))
    central_height = min(height, round(width / _RATIO[0]))
    pad = torch.nn.functional.pad
    first = pad(fits, (0, 1), value=True).float().argmax(dim=1, keepdim=True)
    box_width = pad(widths, (0, 1), value=float(central_width)).gather(1, first)[:, 0]
    box_height = pad(heights, (0, 1), value=float(central_height)).gather(1, first)[:, 0]
    place = torch.rand(2, count, device=device)
    central = first[:, 0] == _ATTEMPTS
    top, left = (
        torch.where(central, room / 2, part * (room + 1)).floor()
        for room, part in ((height - box_height, place[0]), (width - box_width, place[1]))
    )
    return torch.stack([top, left, box_height, box_width], dim=1)


class _Normalise:
    """Levels from 0 to 255 to mean 0 and deviation 1."""

    def __init__(self, dataset_name: str, aug_cfg: DictConfig) -> None:
        self._mean_and_std = torch.tensor(mean_and_std(dataset_name, aug_cfg))

    def __call__(self, pixels: Tensor) -> Tensor:
        self._mean_and_std = self._mean_and_std.to(pixels.device)  # once: a copy makes the device wait
        mean, std = self._mean_and_std.view(2, 1, 3, 1, 1)
        return (pixels / 255 - mean) / std


def _blur(images: Tensor) -> Tensor:
    low, high = BLUR_SIGMA
    sigma = low + (high - low) * torch.rand(len(images), device=images.device)
    return batch_ops.gaussian_blur(images, sigma)


def _grayscale(images: Tensor) -> Tensor:
    return batch_ops.grey(images).expand_as(images)


def _solarize(images: Tensor) -> Tensor:
    return batch_ops.solarize(images, SOLARIZE_THRESHOLD)


def _flip(images: Tensor) -> Tensor:
    return images.flip(3)


_STEPS: dict[str, Callable[[Tensor], Tensor]] = {  # after the jitter, in this order
    "grayscale": _grayscale,
    "gaussian_blur": _blur,
    "solarization": _solarize,
    "equalization": batch_ops.equalize,
    "horizontal_flip": _flip,
}
