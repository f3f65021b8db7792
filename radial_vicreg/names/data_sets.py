"""Facts about data sets and image files that follow from their names, without PyTorch and without an image.

A data set itself is a class in :mod:`radial_vicreg.data.sets`, which opens and prepares it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

UNLABELLED = -1
"""Target of an image without a label: losses and metrics ignore it."""

IMAGE_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
"""Endings of the files that are read as images: torchvision's, in its order."""

ATTRIBUTES_FILE = "attributes.csv"
"""Table of attributes next to a folder of images; results depend on it as well."""

NUM_ATTRIBUTES = 40
"""Number of CelebA's attributes."""

_Channels = tuple[float, float, float]
_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))  # torchvision's and timm's


@dataclass(frozen=True)
class DataSetFacts:
    """Facts about images that follow from ``data.dataset``.

    The defaults are those of a folder of images whose class sub-folders are counted.

    Attributes:
        num_classes: number of classes, or of attributes; None: the class sub-folders are counted.
        has_attributes: targets are binary attributes; read with ``data.multi_label``.
        may_lack_labels: ``data.no_labels`` is read, for images without classes.
        is_fixed: the content is always the same and checked by its reader; ``data.val_path`` is optional.
        has_small_stem: a ResNet gets the small-image stem under ``small_image_stem: auto``, as in solo-learn.
        mean_and_std: of the channels; None: those of ``augmentations``, or ImageNet's.
        script_formats: values of ``data.format`` with which solo-learn's script reads it; empty if it does not. Those
            with ``dali`` are folders of images, which the script validates at 224 pixels.
    """

    num_classes: int | None = None
    has_attributes: bool = False
    may_lack_labels: bool = False
    is_fixed: bool = False
    has_small_stem: bool = False
    mean_and_std: tuple[_Channels, _Channels] | None = None
    script_formats: tuple[str, ...] = ()


DATA_SETS: dict[str, DataSetFacts] = {
    "cifar10": DataSetFacts(
        10,
        is_fixed=True,
        has_small_stem=True,
        mean_and_std=((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
        script_formats=("image_folder",),
    ),
    "cifar100": DataSetFacts(
        100,
        is_fixed=True,
        has_small_stem=True,
        mean_and_std=((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
        script_formats=("image_folder",),
    ),
    "imagenet": DataSetFacts(1000, mean_and_std=_IMAGENET, script_formats=("image_folder", "dali", "h5")),
    "imagenet100": DataSetFacts(100, mean_and_std=_IMAGENET, script_formats=("image_folder", "dali", "h5")),
    "celeba": DataSetFacts(NUM_ATTRIBUTES, has_attributes=True),
    "custom": DataSetFacts(may_lack_labels=True, script_formats=("image_folder", "dali")),
    "stl10": DataSetFacts(  # read by solo-learn's script only
        10,
        is_fixed=True,
        mean_and_std=((0.4914, 0.4823, 0.4466), (0.247, 0.243, 0.261)),
        script_formats=("image_folder",),
    ),
}
"""Values of ``data.dataset``."""


class Format(NamedTuple):
    """A value of ``data.format``.

    Attributes:
        of_pretrain: ``radial-vicreg pretrain`` reads it.
        of_script: solo-learn's script reads it.
        is_folder: the images are files in folders.
    """

    of_pretrain: bool
    of_script: bool
    is_folder: bool = True


FORMATS: dict[str, Format] = {
    "image_folder": Format(True, True),
    "device": Format(True, False),
    "dali": Format(False, True),
    "h5": Format(False, True, is_folder=False),
}
"""Values of ``data.format``."""

PRETRAIN_FORMATS = tuple(name for name, found in FORMATS.items() if found.of_pretrain)
SCRIPT_FORMATS = tuple(name for name, found in FORMATS.items() if found.of_script)


def is_folder(layout: str) -> bool:
    """Return whether images of a ``data.format``, of any version, are files in folders."""
    return layout not in FORMATS or FORMATS[layout].is_folder


def readable_as(layout: str) -> tuple[str, ...]:
    """List the data sets that solo-learn's script reads with a value of ``data.format``."""
    return tuple(sorted(name for name, facts in DATA_SETS.items() if layout in facts.script_formats))


def facts_of(dataset: object) -> DataSetFacts:
    """Return the facts about a data set; for an unknown name, those of a folder of images.

    Args:
        dataset: value of ``data.dataset``, from any version.
    """
    return DATA_SETS.get(str(dataset), DataSetFacts())


def lacks_labels(dataset: object, no_labels: object) -> bool:
    """Return whether images have no labels.

    Args:
        dataset: value of ``data.dataset``, from any version.
        no_labels: value of ``data.no_labels``, which only some data sets read.
    """
    return bool(no_labels) and facts_of(dataset).may_lack_labels


def channel_statistics(
    dataset: str, mean: tuple[float, ...] | None = None, std: tuple[float, ...] | None = None
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Find the statistics that normalise the three channels, for levels from 0 to 1.

    Args:
        dataset: name; its own statistics take precedence.
        mean: of the configuration; None: ImageNet's.
        std: of the configuration; None: ImageNet's.

    Returns:
        Means and standard deviations.
    """
    return facts_of(dataset).mean_and_std or (mean or _IMAGENET[0], std or _IMAGENET[1])
