"""Images of a run, listed once: read as in solo-learn, but validated at the training resolution."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from PIL import Image
from torch.utils.data import Dataset
from torchvision import transforms

from radial_vicreg.config import RunConfig
from radial_vicreg.data.augmentation import MultiCrop, Transform, build_augmentation, to_normalised_tensor
from radial_vicreg.data.folder import IndexedDataset
from radial_vicreg.data.image import cut_long_image
from radial_vicreg.data.image_set import ImageSet, Part
from radial_vicreg.data.sets import DataSet, data_set
from radial_vicreg.errors import UserError, misspelt
from radial_vicreg.names.data_sets import FORMATS

_RESIZE_RATIO = 256 / 224  # shorter side over crop in ImageNet's usual validation
_SMALLEST_MARGIN_CROP = 64  # in smaller crops a margin of one eighth removes too much of the object
_SPLIT_SEED = 42  # solo-learn's, so that data.fraction selects the same images


def open_data(config: RunConfig) -> RunData:
    """Open the images of a run; a folder is listed once, on first use.

    Args:
        config: its ``data`` and ``augmentations`` are read.

    Returns:
        The images.

    Raises:
        UserError: unknown dataset or format.
    """
    layout = config.data.format
    if not (layout in FORMATS and FORMATS[layout].is_folder):  # all of them are read in the same way
        known = [name for name, found in FORMATS.items() if found.is_folder]
        raise UserError(f"data.format={layout!r}: expected one of {', '.join(known)}{misspelt(layout, known, '; ')}")
    return RunData(config, data_set(config.data.dataset))


class RunData:
    """Training and validation images of a run; see :func:`open_data`.

    Args:
        config: its ``data`` and ``augmentations`` are read.
        kind: the data set.
    """

    def __init__(self, config: RunConfig, kind: DataSet) -> None:
        self.config, self._kind = config, kind

    @property
    def num_classes(self) -> int:
        """Width of the classifier: number of classes (>= 1), or of attributes.

        Raises:
            UserError: ``train_path`` is missing.
        """
        return self._kind.num_classes(self.config.data)

    @cached_property
    def train_images(self) -> ImageSet:
        """Training images without transforms: ``(RGB image, target)``; the target is -1 under ``data.no_labels``.

        Raises:
            UserError: a missing or empty folder, too many classes, or a fraction outside (0, 1).
            UnreachableError: they are missing and cannot be downloaded.
        """
        return _take_fraction(self._kind.open_train(self.config.data), self.config.data.fraction)

    @cached_property
    def val_images(self) -> ImageSet | None:
        """Validation images without transforms: ``(RGB image, target)``.

        None without labels, or for a folder without ``data.val_path``. CIFAR without ``data.val_path`` is read from
        ``data.train_path``, where torchvision puts both splits.

        Raises:
            UserError: a missing or empty folder, or classes other than the training's.
            UnreachableError: they are missing and cannot be downloaded.
        """
        return self._kind.open_val(self.config.data)

    @property
    def skipped(self) -> dict[str, tuple[str, ...]]:
        """Files that ``data.on_bad_image=skip`` skips in ``"train"`` and ``"val"``; none under ``error``."""
        if self.config.data.on_bad_image == "error":
            return {}
        val = self.val_images
        return {"train": tuple(self.train_images.skipped), "val": () if val is None else tuple(val.skipped)}

    @property
    def omitted(self) -> dict[str, dict[str, int]]:
        """Numbers of files by extension that are not read as images, for each set that has been opened and has any."""
        opened = {split: vars(self).get(f"{split}_images") for split in ("train", "val")}
        listed = {split: images.omitted for split, images in opened.items() if images is not None}
        return {split: found.counts() for split, found in listed.items() if found.others}

    def training_set(self, transform: Transform | None = None) -> IndexedDataset:
        """Build the augmented training set.

        Args:
            transform: of an RGB image; default: the configuration's augmentations.

        Returns:
            Samples ``(index, list of crops, target)``.
        """
        return IndexedDataset(TransformedImages(self.train_images, transform or self.augmentations()))

    def plain_training_set(self) -> TransformedImages:
        """Build the training set with validation transforms: ``(image (3, crop_size, crop_size), target)``."""
        return TransformedImages(self.train_images, self.val_transform())

    def validation_set(self) -> TransformedImages | None:
        """Build the validation set, ``(image (3, crop_size, crop_size), target)``; None without one."""
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

        Images of exactly that size are not changed; :func:`centre_crop` cuts all others.

        Returns:
            Transforms from an RGB image to an RGB image.
        """
        size = self.config.crop_size
        return [] if self._kind.image_size == size else centre_crop(size)

    def normalisation(self) -> list[Any]:
        """Build the last part of the validation pipeline; mean and standard deviation are the training's."""
        return to_normalised_tensor(self.config.data.dataset, self.config.augmentations[0])


def centre_crop(size: int) -> list[Any]:
    """Build transforms that cut the centre of an RGB image of any size at a given resolution.

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

    def __init__(self, dataset: ImageSet, transform: Callable[[Image.Image], Any]) -> None:
        self.dataset, self.transform = dataset, transform

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Return ``(transform(image), target)``."""
        image, target = self.dataset[index]
        return self.transform(image), target

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.dataset)


def _take_fraction(images: ImageSet, fraction: float | None) -> ImageSet:
    """Keep the same fraction as solo-learn: a split stratified by class."""
    if fraction is None or fraction <= 0:
        return images
    if fraction >= 1:
        raise UserError(f"data.fraction={fraction}: expected a number between 0 and 1, or -1 for all images")
    from sklearn.model_selection import train_test_split  # takes a second of a start, and few runs need it

    classes = images.targets if images.labels == "classes" else None
    numbers = list(range(len(images)))
    kept, _ = train_test_split(numbers, train_size=fraction, stratify=classes, random_state=_SPLIT_SEED)
    return Part(images, kept)
