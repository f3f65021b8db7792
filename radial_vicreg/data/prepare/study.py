"""Images of the studies (docs/study.md, docs/study2.md): links into CIFAR-10, with a part held out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from radial_vicreg.data.cifar import prepare_cifar
from radial_vicreg.data.listing import Omitted, flat_files
from radial_vicreg.data.staging import claim_folder, prepare_folder
from radial_vicreg.errors import UserError

_CLASSES = 10
_TEST_NAMES = ("test", "val")  # as archives and as `radial-vicreg data cifar10 --as-folder` call CIFAR's test images


class StudySizes(NamedTuple):
    """Numbers of images, equally many of each class.

    Attributes:
        tune_train: training images for the choice of learning rates: the first by name.
        tune_val: validation images for this choice: the last training images by name.
        train: training images for the results.
        test: test images for the results.
        test_before: test images to skip, the first by name, since an earlier study has used them.
    """

    tune_train: int
    tune_val: int
    train: int
    test: int
    test_before: int = 0


QUICK = StudySizes(tune_train=5_000, tune_val=2_000, train=5_000, test=5_000)
FULL = StudySizes(tune_train=45_000, tune_val=5_000, train=50_000, test=10_000)
SECOND = StudySizes(tune_train=5_000, tune_val=10_000, train=5_000, test=5_000, test_before=5_000)


def prepare_study(
    out: str | Path, source: str | Path | None = None, sizes: StudySizes = QUICK, replace: bool = False
) -> Path:
    """Link images as ``out/{tune,final}/{train,val}/CLASS``. Repeating it does nothing.

    No image of ``tune/val`` is in ``tune/train``, and none of ``final/val`` in any other folder: those are test images.

    Args:
        out: the folder to write; it appears only when complete.
        source: CIFAR-10 as folders, ``train/CLASS`` and ``test/CLASS`` (or ``val/CLASS``). Default: torchvision
            downloads it, and it is written as PNG into ``cifar10`` next to ``out``.
        sizes: numbers of images.
        replace: move a folder that holds something else, or lacks images, aside.

    Returns:
        ``out``.

    Raises:
        UserError: the source lacks classes or images, or ``out`` holds something else or lacks images.
        UnreachableError: it cannot be downloaded.
    """
    folder = claim_folder(out, replace, links=True)
    root = Path(source) if source is not None else prepare_cifar("cifar10", folder.parent / "cifar10", as_folder=True)
    links = dict(_links(root.resolve(), sizes))
    description = {"dataset": "study", "source": str(root.resolve()), **sizes._asdict(), "num_images": len(links)}
    prepare_folder(folder, description, links, replace=replace, earlier={"test_before": 0})
    return folder


def _links(root: Path, sizes: StudySizes) -> Iterator[tuple[str, Path]]:
    test = next((root / name for name in _TEST_NAMES if (root / name).is_dir()), root / _TEST_NAMES[0])
    classes = _class_names(root / "train")
    if _class_names(test) != classes:
        raise UserError(f"{test} has other classes than {root / 'train'}: expected CIFAR-10 as folders")
    last = sizes.test_before + sizes.test
    for name in classes:
        train = _images(root / "train" / name, max(sizes.train, sizes.tune_train + sizes.tune_val) // _CLASSES)
        parts = {
            "tune/train": train[: sizes.tune_train // _CLASSES],
            "tune/val": train[-(sizes.tune_val // _CLASSES) :],
            "final/train": train[: sizes.train // _CLASSES],
            "final/val": _images(test / name, last // _CLASSES)[sizes.test_before // _CLASSES : last // _CLASSES],
        }
        for part, files in parts.items():
            yield from ((f"{part}/{name}/{file.name}", file) for file in files)


def _class_names(folder: Path) -> list[str]:
    names = sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    if len(names) != _CLASSES:
        raise UserError(
            f"{folder} has {len(names)} class folders, expected the {_CLASSES} of CIFAR-10: pass a folder with "
            "train/CLASS and test/CLASS as --source"
        )
    return names


def _images(folder: Path, least: int) -> list[Path]:
    omitted = Omitted()
    files = flat_files(folder, omitted)
    omitted.tell(folder)
    if len(files) < least:
        raise UserError(f"{folder} has {len(files):,} images, expected {least:,} or more")
    return files
