"""Random crops of an image: solo-learn's augmentations with torchvision's transforms."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from PIL import Image, ImageFilter
from torch import Tensor
from torchvision import transforms

from radial_vicreg.config import AugmentationConfig
from radial_vicreg.errors import UserError
from radial_vicreg.names.data_sets import channel_statistics

Transform = Callable[[Image.Image], Any]
"""Anything that takes one RGB image."""

BLUR_SIGMA = (0.1, 2.0)  # pixels, as in SimCLR and solo-learn
SOLARIZE_THRESHOLD = 128


class MultiCrop:
    """Make ``num_crops[i]`` augmented crops of an image with each pipeline ``i``.

    Args:
        pipelines: image to tensor ``(3, crop_size, crop_size)``, one per entry of ``augmentations``.
        num_crops: number of crops from each.
    """

    def __init__(self, pipelines: Sequence[Transform], num_crops: Sequence[int]) -> None:
        """Keep the pipelines."""
        if len(pipelines) != len(num_crops):
            raise UserError(f"{len(pipelines)} pipelines but {len(num_crops)} numbers of crops: give one for each")
        self.pipelines, self.num_crops = list(pipelines), list(num_crops)

    def __call__(self, image: Image.Image) -> list[Tensor]:
        """Return all crops, pipeline after pipeline."""
        return [
            pipeline(image)
            for pipeline, count in zip(self.pipelines, self.num_crops, strict=True)
            for _ in range(count)
        ]


def build_augmentation(dataset_name: str, augmentation: AugmentationConfig) -> transforms.Compose:
    """Build one pipeline of random crops.

    Operations, order, probabilities, ranges, interpolation and use of random numbers are solo-learn's: with
    the same seeds, the crops are equal bit for bit. An operation whose ``prob`` is 0 is omitted.

    Args:
        dataset_name: chooses mean and standard deviation; ``custom`` takes the augmentation's own, or ImageNet's.
        augmentation: an entry of ``augmentations``.

    Returns:
        RGB image to normalised float32 tensor ``(3, crop_size, crop_size)``.
    """
    size, bicubic = augmentation.crop_size, transforms.InterpolationMode.BICUBIC
    steps: list[Any] = []
    if augmentation.rrc.enabled:
        steps.append(transforms.RandomResizedCrop(size, scale=augmentation.rrc.scale, interpolation=bicubic))
    else:
        steps.append(transforms.Resize(size, interpolation=bicubic))
    if p := augmentation.color_jitter.prob:
        colors = transforms.ColorJitter(*augmentation.color_jitter.strengths)
        steps.append(transforms.RandomApply([colors], p=p))
    if p := augmentation.grayscale.prob:
        steps.append(transforms.RandomGrayscale(p=p))
    if p := augmentation.gaussian_blur.prob:
        steps.append(transforms.RandomApply([transforms.Lambda(_gaussian_blur)], p=p))
    if p := augmentation.solarization.prob:
        steps.append(transforms.RandomSolarize(SOLARIZE_THRESHOLD, p=p))
    if p := augmentation.equalization.prob:
        steps.append(transforms.RandomEqualize(p=p))
    if p := augmentation.horizontal_flip.prob:
        steps.append(transforms.RandomHorizontalFlip(p=p))
    return transforms.Compose([*steps, *to_normalised_tensor(dataset_name, augmentation)])


def to_normalised_tensor(dataset_name: str, augmentation: AugmentationConfig) -> list[Any]:
    """Build the last two steps of every pipeline: to a tensor in [0, 1], then to mean 0 and deviation 1.

    Args:
        dataset_name: as in :func:`build_augmentation`.
        augmentation: as in :func:`build_augmentation`.

    Returns:
        Two torchvision transforms.
    """
    mean, std = mean_and_std(dataset_name, augmentation)
    return [transforms.ToTensor(), transforms.Normalize(mean=mean, std=std)]


def mean_and_std(dataset_name: str, augmentation: AugmentationConfig) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Find the statistics that normalise the three channels, for levels from 0 to 1.

    Args:
        dataset_name: as in :func:`build_augmentation`.
        augmentation: as in :func:`build_augmentation`.

    Returns:
        Means and standard deviations.
    """
    return channel_statistics(dataset_name, augmentation.mean, augmentation.std)


def _gaussian_blur(image: Image.Image) -> Image.Image:
    # Python's generator, not torch's, because solo-learn uses it.
    return image.filter(ImageFilter.GaussianBlur(radius=random.uniform(*BLUR_SIGMA)))
