"""The images of a run, found once: by solo-learn's rules, but validated at the training resolution."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from PIL import Image
from sklearn.model_selection import train_test_split
from torch.utils.data import Dataset, Subset
from torchvision import transforms
from torchvision.datasets import ImageFolder

from radial_vicreg.config import RunConfig
from radial_vicreg.data.augmentation import MultiCrop, Transform, build_augmentation, to_normalised_tensor
from radial_vicreg.data.celeba import NUM_ATTRIBUTES, CelebAFolder
from radial_vicreg.data.cifar import open_cifar
from radial_vicreg.data.folder import (
    IndexedDataset,
    LabelledFolder,
    UnlabelledFolder,
    check_same_classes,
    require_directory,
)
from radial_vicreg.data.image import cut_long_image
from radial_vicreg.data.listing import class_folders
from radial_vicreg.errors import UserError

NUM_CLASSES = {"cifar10": 10, "cifar100": 100, "imagenet": 1000, "imagenet100": 100, "celeba": NUM_ATTRIBUTES}
"""Number of classes (CelebA: attributes) of the datasets that are known by name; ``custom`` counts its sub-folders."""

_CIFAR = ("cifar10", "cifar100")
_DATASETS = (*NUM_CLASSES, "custom")
_FORMATS = ("image_folder", "device", "dali")  # files are read in the same way for all of them
_RESIZE_RATIO = 256 / 224  # shorter side over crop in ImageNet's usual validation
_SMALLEST_MARGIN_CROP = 64  # for smaller crops a margin of one eighth costs more of the object than it shows
_SPLIT_SEED = 42  # solo-learn's, so that data.fraction means the same images


def open_data(config: RunConfig) -> RunData:
    """Open the images of a run; a folder is listed when it is first asked for, and only once.

    Args:
        config: its ``data`` and ``augmentations`` are read.

    Returns:
        The images.

    Raises:
        UserError: unknown dataset or format.
    """
    name, layout = config.data.dataset, config.data.format
    if name not in _DATASETS:
        raise UserError(f"data.dataset={name!r}: the standalone host reads {', '.join(_DATASETS)}")
    if layout not in _FORMATS:
        raise UserError(f"data.format={layout!r}: the standalone host reads image_folder, device (and dali's folders)")
    return RunData(config)


class RunData:
    """Training and validation images of a run; see :func:`open_data`.

    Args:
        config: its ``data`` and ``augmentations`` are read.
    """

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        # solo-learn looks at no_labels for custom folders only.
        self._labelled = config.data.dataset != "custom" or not config.data.no_labels
        self._folder_type: type[CelebAFolder | LabelledFolder | UnlabelledFolder] = (
            CelebAFolder if config.data.dataset == "celeba" else LabelledFolder if self._labelled else UnlabelledFolder
        )

    @property
    def num_classes(self) -> int:
        """Width of the classifier; for ``custom``, the number of sub-folders of ``train_path`` (>= 1).

        Raises:
            UserError: ``train_path`` is missing.
        """
        if self.config.data.dataset in NUM_CLASSES:
            return NUM_CLASSES[self.config.data.dataset]
        return max(1, len(class_folders(require_directory(self.config.data.train_path, "data.train_path"))))

    @cached_property
    def train_images(self) -> Dataset[Any]:
        """Training images as they are: ``(RGB image, target)``; the target is -1 under ``data.no_labels``.

        Raises:
            UserError: a missing or empty folder, too many classes, or a fraction outside (0, 1).
            UnreachableError: CIFAR is not there and cannot be downloaded.
        """
        data, key = self.config.data, "data.train_path"
        dataset: Dataset[Any]
        if data.dataset in _CIFAR:
            dataset = open_cifar(data.dataset, _cifar_root(data.train_path, key), train=True)
        else:
            folder = require_directory(data.train_path, key)
            dataset = self._folder_type(folder, key=key, on_bad_image=data.on_bad_image)
            if isinstance(dataset, LabelledFolder):
                _check_class_count(dataset, data.dataset)
        return _take_fraction(dataset, data.fraction)

    @cached_property
    def val_images(self) -> Dataset[Any] | None:
        """Validation images as they are: ``(RGB image, target)``.

        None without labels, or for a folder dataset without ``data.val_path``. CIFAR without ``data.val_path`` is read
        from ``data.train_path``, where torchvision puts both splits.

        Raises:
            UserError: a missing or empty folder, or classes other than the training's.
            UnreachableError: CIFAR is not there and cannot be downloaded.
        """
        data, key = self.config.data, "data.val_path"
        if data.dataset in _CIFAR:
            root = _cifar_root(data.train_path if data.val_path is None else data.val_path, key)
            cifar: Dataset[Any] = open_cifar(data.dataset, root, train=False)
            return cifar
        if data.val_path is None or not self._labelled:
            return None
        folder = require_directory(data.val_path, key)
        dataset: Dataset[Any] = self._folder_type(folder, key=key, on_bad_image=data.on_bad_image)
        if isinstance(dataset, LabelledFolder):
            check_same_classes(class_folders(require_directory(data.train_path, "data.train_path")), dataset.classes)
        return dataset

    @property
    def skipped(self) -> dict[str, tuple[str, ...]]:
        """Files that ``data.on_bad_image=skip`` leaves out of ``"train"`` and ``"val"``; nothing under ``error``."""
        if self.config.data.on_bad_image == "error":
            return {}
        # data.fraction wraps the data set.
        return {
            split: getattr(getattr(images, "dataset", images), "skipped", ())
            for split, images in (("train", self.train_images), ("val", self.val_images))
        }

    @property
    def omitted(self) -> dict[str, dict[str, int]]:
        """Numbers of files by extension that are not read as images, for each set that has been opened and has any."""
        opened = {split: vars(self).get(f"{split}_images") for split in ("train", "val")}
        listed = {
            split: getattr(getattr(images, "dataset", images), "omitted", None) for split, images in opened.items()
        }
        return {split: found.counts() for split, found in listed.items() if found is not None and found.others}

    def training_set(self, transform: Transform | None = None) -> IndexedDataset:
        """Build the augmented training set.

        Args:
            transform: of an RGB image; default: the configuration's augmentations.

        Returns:
            Samples ``(index, list of crops, target)``.
        """
        return IndexedDataset(TransformedImages(self.train_images, transform or self.augmentations()))

    def plain_training_set(self) -> TransformedImages:
        """Build the training set as the validation's is: ``(image (3, crop_size, crop_size), target)``."""
        return TransformedImages(self.train_images, self.val_transform())

    def validation_set(self) -> TransformedImages | None:
        """Build the validation set, ``(image (3, crop_size, crop_size), target)``; None where there is none."""
        images = self.val_images
        return None if images is None else TransformedImages(images, self.val_transform())

    def augmentations(self) -> MultiCrop:
        """Build the configuration's pipelines of random crops."""
        config = self.config
        pipelines = [build_augmentation(config.data.dataset, augmentation) for augmentation in config.augmentations]
        return MultiCrop(pipelines, [augmentation.num_crops for augmentation in config.augmentations])

    def val_transform(self) -> transforms.Compose:
        """Build the validation pipeline: RGB image to normalised float32 tensor ``(3, crop_size, crop_size)``."""
        return transforms.Compose([*self.val_geometry(), *self.normalisation()])

    def val_geometry(self) -> list[Any]:
        """Build the first part of the validation pipeline: to the resolution of the training crops.

        CIFAR images are taken as they are at 32 px, others as :func:`centre_crop` cuts them.

        Returns:
            Transforms of an RGB image to another.
        """
        size = self.config.crop_size
        return [] if self.config.data.dataset in _CIFAR and size == 32 else centre_crop(size)

    def normalisation(self) -> list[Any]:
        """Build the last part of the validation pipeline; mean and standard deviation are the training's."""
        return to_normalised_tensor(self.config.data.dataset, self.config.augmentations[0])


def centre_crop(size: int) -> list[Any]:
    """Build transforms of an RGB image of any size to its centre, at a resolution.

    Args:
        size: of the crop in pixels.

    Returns:
        torchvision transforms, with their bilinear interpolation.
    """
    return [cut_long_image, transforms.Resize(resized_side(size)), transforms.CenterCrop(size)]


def resized_side(size: int) -> int:
    """Compute the length that an image's shorter side is resized to before :func:`centre_crop` cuts.

    Args:
        size: of the crop in pixels.

    Returns:
        8/7 of the crop for crops of 64 px and more, otherwise the crop itself.
    """
    return round(size * _RESIZE_RATIO) if size >= _SMALLEST_MARGIN_CROP else size


class TransformedImages(Dataset[tuple[Any, Any]]):
    """Images with a transform.

    Args:
        dataset: gives ``(image, target)``.
        transform: applied to each image.
    """

    def __init__(self, dataset: Dataset[Any], transform: Callable[[Image.Image], Any]) -> None:
        self.dataset, self.transform = dataset, transform

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Return ``(transform(image), target)``."""
        image, target = self.dataset[index]
        return self.transform(image), target

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.dataset)  # type: ignore[arg-type]


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


def _take_fraction(dataset: Dataset[Any], fraction: float | None) -> Dataset[Any]:
    """Keep solo-learn's subset: a split stratified by class."""
    if fraction is None or fraction <= 0:
        return dataset
    if fraction >= 1:
        raise UserError(f"data.fraction={fraction}: expected a number between 0 and 1, or -1 for all images")
    targets = getattr(dataset, "targets", None)
    numbers = list(range(len(dataset)))  # type: ignore[arg-type]
    kept, _ = train_test_split(numbers, train_size=fraction, stratify=targets, random_state=_SPLIT_SEED)
    return Subset(dataset, kept)
