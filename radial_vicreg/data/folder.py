"""Image folders: loading, and early checks with clear errors. Shared by both hosts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch.utils.data import Dataset
from torchvision.datasets import ImageFolder

from radial_vicreg.data.image import open_image, unreadable_images
from radial_vicreg.data.image_set import ImageSet
from radial_vicreg.data.listing import LabelledPaths, Omitted, Paths, flat_files, labelled_files
from radial_vicreg.data.places import require_classes, require_directory
from radial_vicreg.errors import UserError
from radial_vicreg.names.counts import counted, first_of
from radial_vicreg.names.data_sets import IMAGE_EXTENSIONS, UNLABELLED


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

    samples: Sequence[tuple[str, int]]

    def __init__(
        self,
        root: str | Path,
        key: str = "path",
        on_bad_image: str = "error",
    ) -> None:
        self.key = key
        self.omitted = Omitted()
        super().__init__(str(require_directory(root, key)), loader=open_image)
        found = self.samples
        self.skipped = unreadable_images((path for path, _ in found), on_bad_image)
        if bad := set(self.skipped):
            found = [sample for sample in found if sample[0] not in bad]
            self._require_images(found, "an image that can be read")
        self.files = Paths(path for path, _ in found)
        self.targets = [target for _, target in found]
        self.samples = self.imgs = LabelledPaths(self.files, self.targets)

    def find_classes(self, directory: str | Path) -> tuple[list[str], dict[str, int]]:
        """Name the classes: the sub-folders that are not hidden, sorted."""
        names = require_classes(directory, self.key, self.omitted)
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
                f"{self.key}={self.root} has class sub-folders without {what}: {first_of(empty)} (image files end in"
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
            f"the training set{place} has {counted(num_images, 'image')}, too few for a batch of {batch_size} on each"
            f" of {counted(num_processes, 'process', 'processes')}: lower optimizer.batch_size or add images"
        )


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
        files = [str(path) for path in flat_files(folder, self.omitted)]
        self.omitted.tell(folder)
        if not files:
            raise UserError(
                f"{key}={folder} contains no image files ({', '.join(IMAGE_EXTENSIONS)}): without labels, images"
                " lie directly in the folder; with class sub-folders, set data.no_labels=false"
            )
        self.skipped = unreadable_images(files, on_bad_image)
        if bad := set(self.skipped):
            files = [path for path in files if path not in bad]
            if not files:
                raise UserError(f"{key}={folder}: its {counted(len(bad), 'image')} cannot be read")
        self.files = Paths(files)
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
