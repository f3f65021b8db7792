"""Common interface of image readers: images in a fixed order, with their targets."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from torch import Tensor
from torch.utils.data import Dataset

from radial_vicreg.data.listing import Omitted, Paths

Labels = Literal["classes", "attributes", "none"]
"""Kinds of targets: one class per image, binary attributes, or none."""


class ImageSet(Dataset[tuple[Any, Any]]):
    """Images in an order that never changes, each with its target.

    A subclass sets the attributes and defines :meth:`__len__` and :meth:`__getitem__`, which returns the RGB image
    (transformed, if a transform was given) and its target.

    Attributes:
        labels: kind of the targets.
        classes: names of the classes, or of the attributes; none without labels.
        targets: of all images: numbers of the classes, zeros and ones ``(N, attributes)``, or
            :data:`radial_vicreg.names.data_sets.UNLABELLED`.
        files: paths of all images; none for images that have no files of their own (which override :meth:`content`).
        skipped: image files that are skipped because they cannot be read.
        omitted: files that are not read as images.
        indices: positions in a larger set; None: these are all.
    """

    labels: Labels = "classes"
    classes: Sequence[str] = ()
    targets: Sequence[int] | Tensor = ()
    files: Sequence[str] = ()
    skipped: Sequence[str] = ()
    omitted: Omitted
    indices: Sequence[int] | None = None

    def __len__(self) -> int:
        """Return the number of images."""
        raise NotImplementedError

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Return an image and its target."""
        raise NotImplementedError

    def digest(self) -> str:
        """Hash the images' identity, as a key for cached results: other images have another digest."""
        found = hashlib.sha256(repr((len(self), self.indices)).encode())
        for part in self.content():
            found.update(part)
        return found.hexdigest()

    def content(self) -> Iterator[bytes]:
        """Describe each image: path, size and time of its file, and its target.

        Raises:
            OSError: a file is gone.
        """
        for file, target in zip(self.files, self.targets, strict=True):
            state = Path(file).stat()
            yield f"{file}\0{state.st_size}\0{state.st_mtime_ns}\0{np.asarray(target).tolist()}\n".encode()


class Part(ImageSet):
    """Subset of a set of images.

    Args:
        images: the set.
        indices: positions of those that are kept, in the order in which they come.
    """

    def __init__(self, images: ImageSet, indices: Sequence[int]) -> None:
        self.images, self._kept = images, list(indices)
        self.indices = self._kept
        self.labels, self.classes = images.labels, images.classes
        self.targets = images.targets[self._kept] if isinstance(images.targets, Tensor) else self._of(images.targets)
        self.files = Paths(self._of(images.files)) if images.files else ()
        self.skipped, self.omitted = images.skipped, images.omitted

    def __len__(self) -> int:
        """Return the number of images that are kept."""
        return len(self._kept)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Return an image and its target."""
        return self.images[self._kept[index]]

    def content(self) -> Iterator[bytes]:
        """Describe each image of the whole set."""
        return self.images.content()

    def _of(self, values: Sequence[Any]) -> list[Any]:
        return [values[index] for index in self._kept]
