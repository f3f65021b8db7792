"""Choose images of a set, and collate samples to a batch as PyTorch does, with clearer errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor
from torch.utils.data import default_collate, get_worker_info

from radial_vicreg.data.errors import LoaderResourceError, UnequalShapesError, sharing_problem

UNEQUAL_CROPS = (
    "with rrc.enabled=false only the shorter side of an image is resized to crop_size. Use square images, or set "
    "augmentations.0.rrc.enabled=true"
)


def collate(samples: list[Any]) -> Any:
    """Stack samples, for ``DataLoader(collate_fn=...)``.

    Args:
        samples: of one structure: tensors, numbers, and tuples or lists of them.

    Returns:
        The result of ``torch.utils.data.default_collate``; in a worker, its tensors are in shared memory.

    Raises:
        UnequalShapesError: images of the batch differ in shape; the message names the shapes.
        LoaderResourceError: a worker gets no shared memory, or no file for it.
    """
    shapes = [_shapes(sample) for sample in samples]
    for index, others in enumerate(shapes):
        if others != shapes[0]:
            mine, other = next(pair for pair in zip(shapes[0], others, strict=True) if pair[0] != pair[1])
            raise UnequalShapesError(
                f"images of different shapes in one batch ({list(mine)} at entry 0 and {list(other)} at entry {index}):"
                f" {UNEQUAL_CROPS}"
            )
    try:
        return default_collate(list(samples))
    except (RuntimeError, OSError) as error:
        if get_worker_info() is None:
            raise
        # With equal shapes only a worker's shared memory can fail; the text of the error depends on PyTorch's version.
        size = sum(tensor.nbytes for sample in samples for tensor in _tensors(sample))
        raise LoaderResourceError(sharing_problem(shapes[0], size)) from error


def evenly_spaced(count: int, limit: int) -> list[int]:
    """Return ``min(count, limit)`` indices below ``count``, as evenly spaced as integers can be."""
    kept = min(count, limit)
    return [index * count // kept for index in range(kept)]


def _shapes(sample: Any) -> list[tuple[int, ...]]:
    return [tuple(tensor.shape) for tensor in _tensors(sample)]


def _tensors(sample: Any) -> Iterator[Tensor]:
    if isinstance(sample, Tensor):
        yield sample
    elif isinstance(sample, (tuple, list)):
        for part in sample:
            yield from _tensors(part)
