"""Image folders: loading, and checks that fail early and say what is wrong. Shared by both hosts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image
from torch.utils.data import Dataset
from torchvision.datasets import ImageFolder
from torchvision.datasets.folder import IMG_EXTENSIONS

UNLABELLED = -1
"""Target of an image without a label: cross-entropy ignores it."""


class FolderSummary(NamedTuple):
    """What an image folder holds.

    Attributes:
        num_images: number of image files over all classes.
        num_classes: number of class sub-folders.
        class_names: their names, in the order of the targets (sorted).
    """

    num_images: int
    num_classes: int
    class_names: tuple[str, ...]


def open_image(path: str | Path) -> Image.Image:
    """Read one image file completely, as RGB.

    Args:
        path: an image file of any format and mode that Pillow reads.

    Returns:
        The decoded image, mode ``"RGB"``.

    Raises:
        OSError: the file is missing, truncated or not an image; the message names it.
    """
    try:
        with Image.open(path) as image:
            return image.convert("RGB")
    except FileNotFoundError:
        raise
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise OSError(f"cannot read the image {path} ({error}): replace or remove the file") from error


def load_image_folder(
    path: str | Path, transform: Callable[[Image.Image], Any] | None = None, key: str = "path"
) -> ImageFolder:
    """Open an image folder ``path/CLASS/*.jpg`` with the checks that torchvision leaves to the reader.

    Args:
        path: folder with one sub-folder per class.
        transform: applied to each RGB image.
        key: name of the setting that gave ``path``, for error messages.

    Returns:
        torchvision's ``ImageFolder``, whose targets follow the sorted class names.

    Raises:
        ValueError: the path is missing, has no class sub-folder, or a class has no image.
    """
    root = require_directory(path, key)
    if not any(entry.is_dir() for entry in root.iterdir()):
        raise ValueError(
            f"{key}={root} has no class sub-folders: expected {root}/CLASS/*.jpg"
            " (images without labels: data.no_labels=true)"
        )
    try:
        return ImageFolder(str(root), transform=transform, loader=open_image)
    except FileNotFoundError as error:
        raise ValueError(f"{key}={root} has class sub-folders without an image: {error}") from error


def check_image_folder(path: str | Path, batch_size: int | None = None) -> FolderSummary:
    """Check an image folder and count what it holds, without opening an image.

    Args:
        path: folder with one sub-folder per class.
        batch_size: when given, the folder must hold at least one batch.

    Returns:
        The counts and class names.

    Raises:
        ValueError: as :func:`load_image_folder`, or fewer images than ``batch_size``.
    """
    summary = summarize(load_image_folder(path))
    if batch_size is not None:
        check_batch_fits(summary.num_images, batch_size, where=str(path))
    return summary


def summarize(dataset: ImageFolder) -> FolderSummary:
    """Count the images and classes of an opened image folder."""
    return FolderSummary(len(dataset.samples), len(dataset.classes), tuple(dataset.classes))


def check_batch_fits(num_images: int, batch_size: int, num_processes: int = 1, where: str = "") -> None:
    """Require at least one full training batch per process (the loader drops a smaller last batch).

    Args:
        num_images: size of the training set.
        batch_size: images per batch and process.
        num_processes: processes that share the training set.
        where: where the images are, for the message.

    Raises:
        ValueError: a process would get no batch at all.
    """
    if num_images < 1 or -(-num_images // num_processes) < batch_size:
        place = f" in {where}" if where else ""
        raise ValueError(
            f"the training set{place} has {num_images} images, too few for a batch of {batch_size} on each of"
            f" {num_processes} process(es): lower optimizer.batch_size or add images"
        )


def check_same_classes(train_classes: Sequence[str], val_classes: Sequence[str]) -> None:
    """Require equal class names in training and validation, since targets are positions among them.

    Args:
        train_classes: class names of the training folder.
        val_classes: class names of the validation folder.

    Raises:
        ValueError: they differ; the message names the differing ones.
    """
    only_train = sorted(set(train_classes) - set(val_classes))
    only_val = sorted(set(val_classes) - set(train_classes))
    if only_train or only_val:
        raise ValueError(
            f"training and validation classes differ: only in training {_shorten(only_train)},"
            f" only in validation {_shorten(only_val)}; give both folders the same class sub-folders"
        )


def require_directory(path: str | Path | None, key: str) -> Path:
    """Return ``path`` as a ``Path`` when it is a folder.

    Args:
        path: value of a configuration key.
        key: the key's name, for the message.

    Returns:
        The folder.

    Raises:
        ValueError: no value, or no such folder.
    """
    if path is None or str(path) == "":
        raise ValueError(f"{key} is not set: give the folder that holds the images, {key}=DIR")
    root = Path(path)
    if not root.is_dir():
        state = "is not a folder" if root.exists() else "does not exist"
        raise ValueError(f"{key}={root} {state} (looked for {root.resolve()}): correct the path, {key}=DIR")
    return root


class UnlabelledFolder(Dataset[tuple[Any, int]]):
    """The image files directly inside one folder, in sorted order, each with target -1.

    Args:
        root: the folder; files that are not images and sub-folders are skipped.
        transform: applied to each RGB image.
        key: name of the setting that gave ``root``, for error messages.

    Raises:
        ValueError: the folder is missing or holds no image.
    """

    def __init__(
        self,
        root: str | Path,
        transform: Callable[[Image.Image], Any] | None = None,
        key: str = "path",
    ) -> None:
        """List the folder."""
        folder = require_directory(root, key)
        self.transform = transform
        self.paths = sorted(p for p in folder.iterdir() if p.suffix.lower() in IMG_EXTENSIONS and p.is_file())
        if not self.paths:
            raise ValueError(
                f"{key}={folder} holds no image files ({', '.join(IMG_EXTENSIONS)}): without labels, images"
                " lie directly in the folder; with class sub-folders, set data.no_labels=false"
            )

    def __getitem__(self, index: int) -> tuple[Any, int]:
        """Return ``(transform(image), -1)``."""
        image = open_image(self.paths[index])
        return (image if self.transform is None else self.transform(image)), UNLABELLED

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.paths)


class IndexedDataset(Dataset[tuple[int, Any, int]]):
    """Put the position of each sample before it, as solo-learn's training datasets do.

    Args:
        dataset: gives ``(crops, target)``.
    """

    def __init__(self, dataset: Dataset[tuple[Any, int]]) -> None:
        """Wrap ``dataset``."""
        self.dataset = dataset

    def __getitem__(self, index: int) -> tuple[int, Any, int]:
        """Return ``(index, crops, target)``."""
        crops, target = self.dataset[index]
        return index, crops, target

    def __len__(self) -> int:
        """Return the length of the wrapped dataset."""
        return len(self.dataset)  # type: ignore[arg-type]


def _shorten(names: Sequence[str], limit: int = 5) -> str:
    """List the first names and the number of the rest."""
    if not names:
        return "none"
    rest = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + rest
