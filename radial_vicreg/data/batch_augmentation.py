"""Random crops of a whole batch on its device, with separate random numbers for every image.

Operations, probabilities, ranges and rounding are those of :mod:`radial_vicreg.data.augmentation`; the random numbers
come from torch's generator of that device, so the crops agree in distribution but not one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from radial_vicreg.config import AugmentationConfig
from radial_vicreg.config.sections import ColorJitter as ColorJitterConfig
from radial_vicreg.data import batch_ops
from radial_vicreg.data.augmentation import BLUR_SIGMA, SOLARIZE_THRESHOLD, mean_and_std

_RATIO = (3 / 4, 4 / 3)  # width to height of a crop, torchvision's default
_GATHERING_DEVICES = ("cpu",)  # counting the chosen images would wait for the GPU, which has spare capacity
_ATTEMPTS = 10  # after which torchvision gives up and takes the centre


class BatchAugmentation:
    """Augmentation of a whole batch, with separate random numbers for every image.

    Args:
        dataset_name: as in :func:`radial_vicreg.data.augmentation.build_augmentation`.
        augmentation: as in :func:`radial_vicreg.data.augmentation.build_augmentation`.
    """

    def __init__(self, dataset_name: str, augmentation: AugmentationConfig) -> None:
        self.size = augmentation.crop_size
        self.scale = augmentation.rrc.scale if augmentation.rrc.enabled else None
        self._steps: list[tuple[float, Callable[[Tensor], Tensor]]] = []
        if chance := augmentation.color_jitter.prob:
            self._steps.append((chance, ColorJitter(augmentation.color_jitter)))
        self._steps += [(chance, step) for name, step in _STEPS.items() if (chance := getattr(augmentation, name).prob)]
        self._normalise = Normalisation(dataset_name, augmentation)

    def __call__(self, images: Tensor) -> Tensor:
        """Crop and augment a batch.

        Args:
            images: uint8 ``(N, 3, H, W)``.

        Returns:
            Normalised float32 ``(N, 3, crop_size, crop_size)``.
        """
        pixels = batch_ops.resized_crop(images, *self._boxes(images))
        for chance, step in self._steps:
            pixels = _apply_where(torch.rand(len(pixels), device=pixels.device) < chance, step, pixels)
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
    """Random brightness, contrast, saturation and hue, in a random order for every image.

    Args:
        jitter: ``color_jitter`` of an augmentation: the four half-widths.
    """

    def __init__(self, jitter: ColorJitterConfig) -> None:
        brightness, contrast, saturation, self._hue = jitter.strengths
        self._widths = [brightness, contrast, saturation]

    def __call__(self, images: Tensor) -> Tensor:
        """Draw factors and orders for ``(N, 3, H, W)``, and apply them."""
        draws, orders = torch.rand(2, len(images), len(batch_ops.TONES) + 1, device=images.device)
        low = [max(0.0, 1 - width) for width in self._widths]
        factors = [low[tone] + (1 + self._widths[tone] - low[tone]) * draws[:, tone] for tone in batch_ops.TONES]
        shift = self._hue * (2 * draws[:, -1] - 1)
        before = (orders[:, -1] * (len(batch_ops.TONES) + 1)).floor()
        return self.apply(images, orders[:, :-1].argsort(dim=1), torch.stack(factors, dim=1), before, shift)

    def apply(self, images: Tensor, tones: Tensor, factors: Tensor, before: Tensor, shift: Tensor) -> Tensor:
        """Apply the four operations to every image in its order.

        The hue shift costs most by far, so it is computed once: between the tones before it and those after it.

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
            images = _apply_where(place < before, batch_ops.adjust_tone, images, *turn)
        if self._hue:  # torchvision skips a shift of 0, which would still round through HSV
            images = batch_ops.shift_hue(images, shift)
        for place, turn in enumerate(turns):
            images = _apply_where(place >= before, batch_ops.adjust_tone, images, *turn)
        return images


def _apply_where(chosen: Tensor, operation: Callable[..., Tensor], images: Tensor, *arguments: Tensor) -> Tensor:
    """Apply an operation to some images of a batch.

    Args:
        chosen: mask of the images to change, bool ``(N,)``.
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
    """Draw the boxes of torchvision's ``RandomResizedCrop``.

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
    # The fallback after the last attempt always fits: the largest part of the image with an allowed ratio, from the
    # centre.
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


class Normalisation:
    """Normalise levels from 0 to 255 to mean 0 and deviation 1."""

    def __init__(self, dataset_name: str, augmentation: AugmentationConfig) -> None:
        self._mean_and_std = torch.tensor(mean_and_std(dataset_name, augmentation))

    def __call__(self, pixels: Tensor) -> Tensor:
        """Normalise float levels ``(N, 3, H, W)``."""
        self._mean_and_std = self._mean_and_std.to(pixels.device)  # copy once: each copy makes the device wait
        mean, std = self._mean_and_std.view(2, 1, 3, 1, 1)
        normalised: Tensor = (pixels / 255 - mean) / std
        return normalised


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
