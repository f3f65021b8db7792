"""Open images before a training does, to find those at which it would stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from PIL import Image

from radial_vicreg.data.batches import UNEQUAL_CROPS, evenly_spaced
from radial_vicreg.data.image import UnreadableImageError, in_threads, shown
from radial_vicreg.data.image_set import ImageSet
from radial_vicreg.names.counts import counted, first_of

SAMPLE = 256
"""Images of a set that are opened unless all of them are requested."""

Size = tuple[int, int]


class Survey(NamedTuple):
    """The images that were opened.

    Attributes:
        opened: number of images.
        bad: files that cannot be read, in their order, each with the reason.
        sizes: width and height of the others, each once, sorted.
    """

    opened: int
    bad: list[tuple[str, str]]
    sizes: list[Size]

    def sizes_in_words(self) -> str:
        """Write the one size of the images, or the smallest and the largest."""
        found = [f"{width} x {height}" for width, height in self.sizes]
        return f"all of {found[0]} pixels" if len(found) == 1 else f"from {found[0]} to {found[-1]} pixels"


def survey(images: ImageSet, limit: int | None = SAMPLE) -> Survey:
    """Open images and list those that cannot be read.

    Args:
        images: a set without transforms. One that has no files, whose reader checks its content, is not opened.
        limit: number of evenly spaced images; None for all.

    Returns:
        What was found.
    """
    files = images.files
    if not files:
        return Survey(0, [], [])
    indices = evenly_spaced(len(images), len(images) if limit is None else limit)
    found = in_threads(lambda index: _open(images, index), indices, "opening images")
    bad = [(files[index], one) for index, one in zip(indices, found, strict=True) if isinstance(one, str)]
    return Survey(len(indices), bad, sorted({one for one in found if not isinstance(one, str)}))


def unreadable_text(bad: Sequence[tuple[str, str]], opened: int, key: str) -> str:
    """Describe the files that cannot be read, with the first names and what to do.

    Args:
        bad: see :class:`Survey`.
        opened: number of images that were opened.
        key: setting that names their folder.
    """
    names = first_of([f"{shown(file)} ({reason})" for file, reason in bad])
    return (
        f"{len(bad):,} of {counted(opened, 'opened image')} of {key} cannot be read: {names}; replace or remove "
        "these files, or skip such files with data.on_bad_image=skip"
    )


def unequal_crops(sizes: Sequence[Size], augment: Callable[[Image.Image], Any]) -> str | None:
    """Describe two sizes of images whose crops cannot be in one batch; None if all can.

    Args:
        sizes: see :class:`Survey`.
        augment: makes the crops of an image, as in training.
    """
    first: tuple[Size, list[tuple[int, ...]]] | None = None
    for size in sizes:
        shapes = [tuple(crop.shape) for crop in augment(Image.new("RGB", size))]
        first = first or (size, shapes)
        if shapes != first[1]:
            one, other = (f"{width} x {height}" for width, height in (first[0], size))
            return f"images of {one} and {other} pixels cannot be in one batch: {UNEQUAL_CROPS}"
    return None


def _open(images: ImageSet, index: int) -> Size | str:
    """Return the size of an image, or why it cannot be read."""
    try:
        width, height = images[index][0].size
    except UnreadableImageError as error:
        return error.reason
    return width, height
