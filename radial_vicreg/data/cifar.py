"""CIFAR-10 and CIFAR-100 through torchvision, in its own layout or as image folders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from torchvision.datasets import CIFAR10, CIFAR100

from radial_vicreg.data.image_set import ImageSet
from radial_vicreg.data.listing import Omitted
from radial_vicreg.data.staging import claim_folder, prepare_folder
from radial_vicreg.errors import UnreachableError, UserError
from radial_vicreg.io.files import check_output, claim_output
from radial_vicreg.io.locks import changing
from radial_vicreg.io.terminal import track

_CLASSES = {"cifar10": CIFAR10, "cifar100": CIFAR100}
_SPLITS = {"train": True, "val": False}
_SIZES = (50_000, 10_000)
_DOWNLOAD_PATIENCE = 3600.0  # seconds to wait for a process that downloads 170 MB


def open_cifar(name: str, root: str | Path, train: bool) -> CIFAR10:
    """Open a split of CIFAR, and download it if it is missing.

    Among processes that share the folder, such as those of a node, one downloads and the others wait.

    Args:
        name: ``cifar10`` or ``cifar100``.
        root: folder with torchvision's copy; created when missing.
        train: the 50,000 training images, otherwise the 10,000 test images.

    Returns:
        torchvision's dataset, which gives ``(image, target)``.

    Raises:
        UserError: unknown name, or it is missing and ``root`` cannot be written.
        UnreachableError: it is missing and cannot be downloaded.
        LockedError: another process has been downloading it for an hour.
    """
    if name not in _CLASSES:
        raise UserError(f"unknown dataset {name!r}: expected one of {', '.join(_CLASSES)}")
    dataset_class = _CLASSES[name]
    with suppress(RuntimeError):  # incomplete or missing; a complete copy may be in a read-only folder
        return dataset_class(str(root), train=train, download=False)
    check_output(Path(root), "folder", "data.train_path=DIR")
    try:
        Path(root).mkdir(parents=True, exist_ok=True)
        with changing(Path(root) / dataset_class.base_folder, _DOWNLOAD_PATIENCE):
            return dataset_class(str(root), train=train, download=True)
    except (OSError, RuntimeError) as error:
        raise UnreachableError(
            f"{name} is not under {root} and could not be downloaded ({error}): connect to the network, or"
            f" put torchvision's copy ({dataset_class.base_folder}) there"
        ) from error


class CifarImages(ImageSet):
    """A split of CIFAR; see :func:`open_cifar`.

    Args:
        name: ``cifar10`` or ``cifar100``.
        root: folder with torchvision's copy.
        train: the training images, otherwise the test images.
    """

    def __init__(self, name: str, root: str | Path, train: bool) -> None:
        self.split = open_cifar(name, root, train)
        self.classes, self.targets = self.split.classes, self.split.targets
        self.omitted = Omitted()

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.split)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Return an image and its class."""
        image, target = self.split[index]
        return image, target

    def content(self) -> Iterator[bytes]:
        """Yield all pixels and classes, since the images have no files of their own."""
        yield np.ascontiguousarray(self.split.data).tobytes()
        yield repr(self.split.targets).encode()


def missing_cifar(name: str, root: str | Path) -> tuple[int, int] | None:
    """Count the images that :func:`open_cifar` would download, without downloading them.

    Args:
        name: ``cifar10`` or ``cifar100``.
        root: folder with torchvision's copy.

    Returns:
        Numbers of training and test images; None if the data set is present.
    """
    try:
        _CLASSES[name](str(root), download=False)
    except (OSError, RuntimeError):
        return _SIZES
    return None


def prepare_cifar(name: str, out: str | Path, as_folder: bool = False, replace: bool = False) -> Path:
    """Download CIFAR, and export it as PNG image folders on request. Repeating it does nothing.

    Args:
        name: ``cifar10`` or ``cifar100``.
        out: folder for torchvision's copy (170 MB): the ``data.train_path`` of these datasets.
        as_folder: also write ``out/{train,val}/CLASS/*.png`` for ``data.dataset=custom``.
        replace: move an ``out/train`` or ``out/val`` that holds something else, or lacks images, aside.

    Returns:
        ``out``.

    Raises:
        UserError: unknown name, or ``out/train`` or ``out/val`` holds something else or lacks images.
        UnreachableError: it cannot be downloaded.
    """
    root = Path(out)
    if missing_cifar(name, root) is not None:
        claim_output(root, "folder", setting="--out DIR")
    if as_folder:
        for split in _SPLITS:
            claim_folder(root / split, replace)
    splits = {split: open_cifar(name, root, train) for split, train in _SPLITS.items()}
    if as_folder:
        for split, dataset in splits.items():
            _export(dataset, root / split, {"dataset": name, "split": split, "num_images": len(dataset)}, replace)
    return root


def _export(dataset: CIFAR10, folder: Path, description: Mapping[str, object], replace: bool) -> None:
    names = [f"{dataset.classes[target]}/{index:05d}.png" for index, target in enumerate(dataset.targets)]

    def fill(folder: Path) -> None:
        for class_name in dataset.classes:
            (folder / class_name).mkdir()
        for index in track(range(len(dataset)), f"writing {description['split']}", len(dataset)):
            image, _ = dataset[index]
            image.save(folder / names[index])

    prepare_folder(folder, description, dict.fromkeys(names), fill, replace)
