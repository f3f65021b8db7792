"""Image folders: loading, and early checks with clear errors. Shared by both hosts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch.utils.data import Dataset
from torchvision.datasets import ImageFolder

from radial_vicreg.data.image import open_image, unreadable_images
from radial_vicreg.data.image_set import ImageSet
from radial_vicreg.data.listing import Omitted, class_folders, flat_files, labelled_files
from radial_vicreg.errors import UserError
from radial_vicreg.names.data_sets import IMAGE_EXTENSIONS, UNLABELLED

_NAMED = 5  # classes in an error


class LabelledFolder(ImageFolder, ImageSet):
    """torchvision's ``ImageFolder`` in the same order, with stricter checks.

    Hidden folders (``.ipynb_checkpoints``) are not classes, and macOS's ``._*`` are not images. A link that leads back
    to its own folder is an error instead of forty copies of the images, and one that leads to another class is an error
    instead of images with two labels. A folder that may not be read is an error instead of an empty folder.

    Args:
        root: folder with one sub-folder per class.
        key: name of the setting that gave ``root``, for error messages.
        on_bad_image: ``"error"``: reading a bad file raises; ``"skip"``: every file is opened now, and unreadable ones
            are skipped.

    Attributes:
        skipped: the image files that were skipped.
        omitted: the files that are not read as images.

    Raises:
        UserError: the folder is missing, has no class sub-folder, a class has no image (that can be read), or a link
            leads to a folder around it or to another class.
        OSError: a sub-folder may not be listed.
    """

    def __init__(
        self,
        root: str | Path,
        key: str = "path",
        on_bad_image: str = "error",
    ) -> None:
        self.key = key
        self.samples: list[tuple[str, int]] = []
        self.omitted = Omitted()
        super().__init__(str(require_directory(root, key)), loader=open_image)
        self.skipped = unreadable_images((path for path, _ in self.samples), on_bad_image)
        if bad := set(self.skipped):
            self.samples = self.imgs = [sample for sample in self.samples if sample[0] not in bad]
            self.targets = [target for _, target in self.samples]
            self._require_images(self.samples, "an image that can be read")
        self.files = [path for path, _ in self.samples]

    def find_classes(self, directory: str | Path) -> tuple[list[str], dict[str, int]]:
        """Name the classes: the sub-folders that are not hidden, sorted."""
        names = class_folders(directory, self.omitted)
        if not names:
            raise UserError(
                f"{self.key}={directory} has no class sub-folders: expected {directory}/CLASS/*.jpg"
                " (images without labels: data.no_labels=true)"
            )
        return names, {name: index for index, name in enumerate(names)}

    def make_dataset(
        self, directory: str | Path, class_to_idx: dict[str, int], *_: Any, **__: Any
    ) -> list[tuple[str, int]]:
        """List the images of every class, at any depth, in torchvision's order."""
        self.classes, self.class_to_idx = list(class_to_idx), class_to_idx
        samples = labelled_files(str(directory), self.classes, self.omitted)
        self.omitted.tell(directory)
        self._require_images(samples, "an image")
        return samples

    def _require_images(self, samples: Sequence[tuple[str, int]], what: str) -> None:
        filled = {target for _, target in samples}
        empty = [name for name, target in self.class_to_idx.items() if target not in filled]
        if empty:
            raise UserError(
                f"{self.key}={self.root} has class sub-folders without {what}: {_shorten(empty)} (image files end in"
                f" {', '.join(IMAGE_EXTENSIONS)}); fill or remove them"
            )


def check_batch_fits(num_images: int, batch_size: int, num_processes: int = 1, where: str = "") -> None:
    """Require at least one full training batch per process (the loader drops a smaller last batch).

    Args:
        num_images: size of the training set.
        batch_size: images per batch and process.
        num_processes: processes that share the training set.
        where: where the images are, for the message.

    Raises:
        UserError: a process would get no batch at all.
    """
    if num_images < 1 or -(-num_images // num_processes) < batch_size:
        place = f" in {where}" if where else ""
        raise UserError(
            f"the training set{place} has {num_images} images, too few for a batch of {batch_size} on each of"
            f" {num_processes} process(es): lower optimizer.batch_size or add images"
        )


def check_same_classes(train_classes: Sequence[str], val_classes: Sequence[str]) -> None:
    """Require equal class names in training and validation, since targets are positions among them.

    Args:
        train_classes: class names of the training folder.
        val_classes: class names of the validation folder.

    Raises:
        UserError: they differ; the message names the differing ones.
    """
    only_train = sorted(set(train_classes) - set(val_classes))
    only_val = sorted(set(val_classes) - set(train_classes))
    if only_train or only_val:
        raise UserError(
            f"training and validation classes differ: only in training {_shorten(only_train)},"
            f" only in validation {_shorten(only_val)}; both folders need the same class sub-folders"
        )


def require_directory(path: str | Path | None, key: str) -> Path:
    """Return ``path`` as a ``Path`` when it is a folder.

    Args:
        path: value of a configuration key.
        key: the key's name, for the message.

    Returns:
        The folder.

    Raises:
        UserError: no value, or no such folder.
    """
    if path is None or str(path) == "":
        raise UserError(f"{key} is not set: set it to the folder that contains the images, {key}=DIR")
    root = Path(path)
    if not root.is_dir():
        state = "is not a folder" if root.exists() else "does not exist"
        raise UserError(f"{key}={root} {state} (looked for {root.resolve()}): correct the path, {key}=DIR")
    return root


class UnlabelledFolder(ImageSet):
    """The image files directly inside one folder, in sorted order, each with target -1.

    Args:
        root: the folder; sub-folders are skipped.
        key: name of the setting that gave ``root``, for error messages.
        on_bad_image: ``"skip"``: every file is opened now, and unreadable ones are skipped.

    Attributes:
        skipped: the image files that were skipped.
        omitted: the files that are not read as images.

    Raises:
        UserError: the folder is missing or holds no image (that can be read).
    """

    labels = "none"

    def __init__(
        self,
        root: str | Path,
        key: str = "path",
        on_bad_image: str = "error",
    ) -> None:
        """List the folder."""
        folder = require_directory(root, key)
        self.omitted = Omitted()
        self.files = [str(path) for path in flat_files(folder, self.omitted)]
        self.omitted.tell(folder)
        if not self.files:
            raise UserError(
                f"{key}={folder} contains no image files ({', '.join(IMAGE_EXTENSIONS)}): without labels, images"
                " lie directly in the folder; with class sub-folders, set data.no_labels=false"
            )
        self.skipped = unreadable_images(self.files, on_bad_image)
        if bad := set(self.skipped):
            self.files = [path for path in self.files if path not in bad]
            if not self.files:
                raise UserError(f"{key}={folder}: none of its {len(bad)} images can be read")
        self.targets = [UNLABELLED] * len(self.files)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        """Return ``(image, -1)``."""
        return open_image(self.files[index]), UNLABELLED

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.files)


class IndexedDataset(Dataset[tuple[int, Any, int]]):
    """Prepend its position to each sample, as solo-learn's training datasets do.

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


def _shorten(names: Sequence[str]) -> str:
    """List the first names and the number of the rest."""
    if not names:
        return "none"
    rest = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + rest
