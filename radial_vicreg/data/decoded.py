"""Images decoded once and kept in memory, shared by the loader's workers."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from radial_vicreg.errors import ReportedError, UserError

_BLOCK = 1024  # images per block: few blocks, of which at most one is held twice
_SAMPLED = 16  # images opened to estimate the size of all
_SHARE = 0.9  # share of the free memory that pixels may take
_MEBIBYTE = 2**20
_CGROUPS = (  # limit and usage of the control group: version 2, version 1
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


class DecodedImages:
    """The pixels and targets of a data set.

    Pixels lie in a few large tensors, which workers share however they are started: forked ones see the parent's
    pages, spawned ones get torch's shared memory.

    Args:
        dataset: gives (RGB image, target), without random transforms.
        threads: number of decoding threads; 0 counts as 1.
        option: the setting that requested it, for error messages.
        same_size: refuse images of different sizes.
        copies: number of processes on this machine that each decode all images.

    Attributes:
        blocks: flat uint8 tensors, one for every 1,024 images.
        shapes: height and width of every image, int64 ``(n, 2)``.
        targets: int64 ``(n,)``, or the stacked tensors of the data set.

    Raises:
        UserError: the pixels do not fit into free memory (both are named), or sizes differ where they must not.
    """

    def __init__(
        self, dataset: Dataset[Any], threads: int, option: str, same_size: bool = False, copies: int = 1
    ) -> None:
        count = len(dataset)  # type: ignore[arg-type]
        require_room(dataset, option, same_size, copies)
        self.blocks: list[Tensor] = []
        shapes, starts, targets = [], [], []
        with ThreadPoolExecutor(max(1, threads)) as pool:  # Pillow releases Python's lock to decode
            for first in range(0, count, _BLOCK):
                pairs = list(pool.map(dataset.__getitem__, range(first, min(first + _BLOCK, count))))
                arrays = [np.asarray(image) for image, _ in pairs]
                starts += [0, *np.cumsum([array.size for array in arrays])[:-1].tolist()]
                shapes += [array.shape[:2] for array in arrays]
                targets += [torch.as_tensor(target) for _, target in pairs]
                self.blocks.append(torch.from_numpy(np.concatenate([array.ravel() for array in arrays])))
        self.shapes, self._starts, self.targets = torch.tensor(shapes), torch.tensor(starts), torch.stack(targets)
        if same_size:
            require_one_size({(width, height) for height, width in shapes}, option)

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.shapes)

    def __getitem__(self, index: int) -> Image.Image:
        """Return an image as it was decoded."""
        height, width = self.shapes[index].tolist()
        start = int(self._starts[index])
        pixels = self.blocks[index // _BLOCK][start : start + 3 * height * width]
        return Image.fromarray(pixels.view(height, width, 3).numpy())

    def move_to(self, device: torch.device) -> Tensor:
        """Move all pixels to one tensor, block by block, so that they are never held twice.

        Args:
            device: device of the tensor; a GPU with its index.

        Returns:
            uint8, shape ``(n, 3, H, W)``. This object then holds no images.

        Raises:
            UserError: a GPU has too little free memory for them.
        """
        height, width = self.shapes[0].tolist()
        if device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(device)
            _require_fit(len(self) * 3 * height * width, free, f"the memory of {device}", "data.format=device")
        images = torch.empty(len(self), 3, height, width, dtype=torch.uint8, device=device)
        for first in range(0, len(self), _BLOCK):
            block = self.blocks.pop(0).to(device).view(-1, height, width, 3)
            images[first : first + _BLOCK] = block.permute(0, 3, 1, 2)
        return images


class CachedImages(Dataset[tuple[Any, Any]]):
    """Decoded images with a transform: the samples of the data set that they came from, bit for bit.

    Args:
        images: the decoded images.
        transform: applied to each RGB image.
    """

    def __init__(self, images: DecodedImages, transform: Callable[[Image.Image], Any]) -> None:
        self.images, self.transform = images, transform

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Return ``(transform(image), target)``."""
        target = self.images.targets[index]
        return self.transform(self.images[index]), target if target.ndim else int(target)

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.images)


def free_memory() -> int | None:
    """Return the free memory of this process in bytes: the machine's, or its control group's if that is less.

    Returns:
        None if the system does not report it.
    """
    found = []
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        found += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    except OSError:
        pass
    for limit, used in _CGROUPS:
        try:  # "max" stands for no limit
            found.append(int(Path(limit).read_text()) - int(Path(used).read_text()))
        except (OSError, ValueError):
            continue
    return min(found) if found else None


def can_keep(dataset: Dataset[Any], same_size: bool, copies: int, on_device: int | None = None) -> bool:
    """Return whether :class:`DecodedImages` would keep a data set in memory, judged by a few of its images.

    Args:
        dataset: as for :class:`DecodedImages`.
        same_size: whether images of different sizes are refused.
        copies: number of processes on this machine that each decode all images.
        on_device: free bytes of the GPU to which the pixels are to be moved; None for the CPU.
    """
    try:
        needed = require_room(dataset, "", same_size, copies)
        if on_device is not None:
            _require_fit(needed / copies, on_device, "the GPU", "")
    except ReportedError:
        return False
    return True


def require_room(dataset: Dataset[Any], option: str, same_size: bool, copies: int) -> float:
    """Estimate the memory from a few images before all are decoded, require it, and return it in bytes.

    Args:
        dataset: as for :class:`DecodedImages`.
        option: as for :class:`DecodedImages`.
        same_size: as for :class:`DecodedImages`.
        copies: as for :class:`DecodedImages`.

    Raises:
        UserError: the pixels do not fit into free memory, or sizes differ where they must not.
    """
    count = len(dataset)  # type: ignore[arg-type]
    sample = [dataset[index][0].size for index in range(0, count, math.ceil(count / _SAMPLED))]
    if same_size:
        require_one_size(set(sample), option)
    needed: float = 3 * sum(width * height for width, height in sample) / len(sample) * count * copies
    free = free_memory()
    if free is not None:
        _require_fit(needed, free, "memory", option)
    return needed


def _require_fit(needed: float, free: int, where: str, option: str) -> None:
    if needed > _SHARE * free:
        raise UserError(
            f"{option} needs {needed / _MEBIBYTE:,.1f} MiB for the pixels, but {free / _MEBIBYTE:,.1f} MiB of "
            f"{where} are free (at most {_SHARE:.0%} of it is used): use data.format=image_folder and "
            "data.cache=none, or"
            " fewer or smaller images"
        )


def require_one_size(sizes: Collection[tuple[int, int]], option: str) -> None:
    """Refuse images of several sizes where ``option`` needs one.

    Raises:
        UserError: there are several; the message names the first.
    """
    if len(sizes) > 1:
        some = ", ".join(f"{width}x{height}" for width, height in sorted(sizes)[:3])
        raise UserError(
            f"{option} needs images of one size, got {len(sizes)} or more sizes ({some}): resize the files to"
            " one size first, or use data.format=image_folder with data.cache=ram, which accepts any size"
        )
