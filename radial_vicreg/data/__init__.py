"""Preparation of data sets, and image folders with checks."""

from radial_vicreg.data.cifar import open_cifar, prepare_cifar
from radial_vicreg.data.digits import prepare_digits
from radial_vicreg.data.folder import (
    FolderSummary,
    IndexedDataset,
    LabelledFolder,
    UnlabelledFolder,
    check_image_folder,
)
from radial_vicreg.data.image import UnreadableImageError, open_image, unreadable_images

__all__ = [
    "FolderSummary",
    "IndexedDataset",
    "LabelledFolder",
    "UnlabelledFolder",
    "UnreadableImageError",
    "check_image_folder",
    "open_cifar",
    "open_image",
    "prepare_cifar",
    "prepare_digits",
    "unreadable_images",
]
