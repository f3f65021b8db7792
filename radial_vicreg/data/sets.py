"""Data sets: a class for each, which opens and prepares its images. Without PyTorch until one is opened.

Facts that follow from the name of a data set are in :mod:`radial_vicreg.names.data_sets`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

from radial_vicreg.data.prepare.imagenet10_classes import CLASSES, SPLITS
from radial_vicreg.errors import UserError, misspelt
from radial_vicreg.names.data_sets import DATA_SETS, DataSetFacts, facts_of, lacks_labels

if TYPE_CHECKING:
    from radial_vicreg.config.sections import DataConfig
    from radial_vicreg.data.image_set import ImageSet

_FOLDER = Path("datasets")


class DataSet:
    """A folder of images, and the interface of all data sets.

    A subclass overrides the methods that differ, and is registered with :func:`register`.

    Attributes:
        name: of the data set, and of ``radial-vicreg data NAME``.
        dataset: value of ``data.dataset`` under which it is read.
        facts: facts that follow from ``dataset``; None: an entry of :data:`~radial_vicreg.names.data_sets.DATA_SETS`,
            which the schema for editors lists, too.
        image_size: side of every image in pixels; crops of that size are validated on the images as they are.
        about: its help in ``radial-vicreg data``; None if there is nothing to prepare.
        example: arguments of ``radial-vicreg data NAME`` in the help text.
        required: arguments without which it does not work, as an error names them.
    """

    name: ClassVar[str]
    dataset: ClassVar[str] = "custom"
    facts: ClassVar[DataSetFacts | None] = None
    image_size: ClassVar[int | None] = None
    about: ClassVar[str | None] = None
    example: ClassVar[str] = ""
    required: ClassVar[str] = ""

    @property
    def folder(self) -> Path:
        """Folder that :meth:`prepare` makes unless another is given."""
        return _FOLDER / self.name

    def num_classes(self, data: DataConfig) -> int:
        """Count the classes: according to the name, or the sub-folders of ``train_path`` (>= 1).

        Raises:
            UserError: ``train_path`` is missing.
        """
        from radial_vicreg.data.listing import class_folders

        known = facts_of(self.dataset).num_classes
        return known or max(1, len(class_folders(_directory(data.train_path, "data.train_path"))))

    def open_train(self, data: DataConfig) -> ImageSet:
        """Open all training images.

        Raises:
            UserError: a missing or empty folder, or too many classes.
            UnreachableError: they are missing and cannot be downloaded.
        """
        found = self._open(data.train_path, "data.train_path", data)
        most = facts_of(self.dataset).num_classes
        if found.labels == "classes" and most is not None and len(found.classes) > most:
            raise UserError(
                f"data.train_path={data.train_path} has {len(found.classes)} classes, but data.dataset={self.dataset}"
                f" has {most}: correct the path or use data.dataset=custom"
            )
        return found

    def open_val(self, data: DataConfig) -> ImageSet | None:
        """Open the validation images; None without labels, or without ``data.val_path``.

        Raises:
            UserError: a missing or empty folder, or classes other than the training's.
            UnreachableError: they are missing and cannot be downloaded.
        """
        from radial_vicreg.data.listing import class_folders
        from radial_vicreg.data.places import check_same_classes

        if data.val_path is None or lacks_labels(self.dataset, data.no_labels):
            return None
        found = self._open(data.val_path, "data.val_path", data)
        if found.labels == "classes":
            train = class_folders(_directory(data.train_path, "data.train_path"))
            check_same_classes(train, found.classes)
        return found

    def check_places(self, data: DataConfig) -> None:
        """Check the folders that the settings name, before PyTorch is imported; no image is opened or downloaded.

        Opening checks them as well. A class that opens something else than class folders overrides this method, or
        its places are checked when they are opened.

        Raises:
            UserError: a missing folder, one without classes, or classes that differ.
        """
        from radial_vicreg.data.places import check_same_classes, require_classes

        kind = type(self)
        if kind.open_train is not DataSet.open_train or kind._open is not DataSet._open:
            return
        unlabelled = lacks_labels(self.dataset, data.no_labels)
        train = _directory(data.train_path, "data.train_path")
        classes = [] if unlabelled else require_classes(train, "data.train_path")
        if data.val_path is not None and not unlabelled:
            val = _directory(data.val_path, "data.val_path")
            check_same_classes(classes, require_classes(val, "data.val_path"))

    def to_download(self, data: DataConfig) -> tuple[int, int] | None:
        """Count the training and test images that opening the data set would download; None if it would not."""
        return None

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the options of ``radial-vicreg data NAME``."""
        parser.add_argument("--out", type=Path, default=self.folder)

    def prepare(self, options: argparse.Namespace) -> Path:
        """Prepare the data set; repeating it does nothing.

        Args:
            options: those of :meth:`add_options`, and ``replace``.

        Returns:
            Its folder.

        Raises:
            UserError: the folder holds something else, or the source is incomplete.
            UnreachableError: it cannot be downloaded.
        """
        raise NotImplementedError

    def _open(self, path: str | None, key: str, data: DataConfig) -> ImageSet:
        """Open the images of one folder."""
        from radial_vicreg.data.folder import LabelledFolder, UnlabelledFolder

        kind = UnlabelledFolder if lacks_labels(self.dataset, data.no_labels) else LabelledFolder
        return kind(_directory(path, key), key=key, on_bad_image=data.on_bad_image)


def _directory(path: str | None, key: str) -> Path:
    """Return an existing folder of images; where it is missing, name the command that makes a folder of that name."""
    from radial_vicreg.data.places import require_directory

    above = Path(path or "").parts[: len(_FOLDER.parts) + 1]
    kind = next((kind for kind in prepared_sets().values() if kind.folder.parts == above), None)
    command = None if kind is None else f"radial-vicreg data {kind.name} {kind.required}".rstrip()
    return require_directory(path, key, command)


_Kind = TypeVar("_Kind", bound=DataSet)
_REGISTERED: dict[str, DataSet] = {}


def register(kind: type[_Kind]) -> type[_Kind]:
    """Register a data set under its name; for use as a decorator.

    Raises:
        ValueError: its ``dataset`` has no declared facts.
    """
    if kind.facts is not None:
        DATA_SETS[kind.dataset] = kind.facts
    if kind.dataset not in DATA_SETS:
        raise ValueError(
            f"{kind.dataset} is not in radial_vicreg.names.data_sets.DATA_SETS: add a line there, which editors "
            "and the identity of runs read, or set facts"
        )
    _REGISTERED[kind.name] = kind()
    return kind


def data_set(dataset: str) -> DataSet:
    """Find a data set.

    Args:
        dataset: value of ``data.dataset``.

    Returns:
        The object that opens its images.

    Raises:
        UserError: there is no such data set; the message names the nearest known one.
    """
    found = _REGISTERED.get(dataset)
    if found is not None and found.dataset == dataset:
        return found
    known = [name for name, kind in _REGISTERED.items() if kind.dataset == name]
    said = f"data.dataset={dataset!r}: expected one of {', '.join(known)}"
    if found is not None:
        hint = f"{dataset} is a folder of images, data.dataset={found.dataset}: radialvicreg/dataset={dataset}"
    elif dataset in DATA_SETS:
        hint = "only solo-learn's main_pretrain.py reads it"
    else:
        hint = misspelt(dataset, known)
    raise UserError(f"{said}; {hint}" if hint else said)


def prepared_sets() -> dict[str, DataSet]:
    """List the data sets that ``radial-vicreg data`` prepares, by name."""
    return {name: kind for name, kind in _REGISTERED.items() if kind.about is not None}


@register
class Digits(DataSet):
    """scikit-learn's handwritten digits."""

    name = "digits"
    about = "scikit-learn's 1,797 handwritten digits as an image folder; no download"
    example = "--size 32"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the place and the size."""
        super().add_options(parser)
        parser.add_argument("--size", type=int, default=32, help="pixels (default: 32)")

    def prepare(self, options: argparse.Namespace) -> Path:
        """Write the images."""
        from radial_vicreg.data.prepare.digits import prepare_digits

        return prepare_digits(options.out, options.size, options.replace)


class Cifar(DataSet):
    """CIFAR through torchvision, which has both splits in one folder."""

    image_size = 32
    about = "downloaded by torchvision; solo-learn uses the same files"
    example = "--out datasets"

    def open_train(self, data: DataConfig) -> ImageSet:
        """Open the 50,000 training images, and download them if they are missing."""
        from radial_vicreg.data.cifar import CifarImages

        return CifarImages(self.name, _cifar_root(data.train_path, "data.train_path"), train=True)

    def open_val(self, data: DataConfig) -> ImageSet:
        """Open the 10,000 test images; without ``data.val_path``, from ``data.train_path``."""
        from radial_vicreg.data.cifar import CifarImages

        root = data.train_path if data.val_path is None else data.val_path
        return CifarImages(self.name, _cifar_root(root, "data.val_path"), train=False)

    def check_places(self, data: DataConfig) -> None:
        """Require a folder; a CIFAR that is not in it is downloaded."""
        _cifar_root(data.train_path, "data.train_path")

    def to_download(self, data: DataConfig) -> tuple[int, int] | None:
        """Count the images of a missing CIFAR."""
        from radial_vicreg.data.cifar import missing_cifar

        return None if data.train_path is None else missing_cifar(self.name, data.train_path)

    @property
    def folder(self) -> Path:
        """The folder around torchvision's copies."""
        return _FOLDER

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the place, and image folders on request."""
        parser.add_argument("--out", type=Path, default=self.folder)
        parser.add_argument("--as-folder", action="store_true", help="also write train/ and val/ image folders")

    def prepare(self, options: argparse.Namespace) -> Path:
        """Download it."""
        from radial_vicreg.data.cifar import prepare_cifar

        return prepare_cifar(self.name, options.out, options.as_folder, options.replace)


@register
class Cifar10(Cifar):
    """CIFAR-10."""

    name = dataset = "cifar10"


@register
class Cifar100(Cifar):
    """CIFAR-100."""

    name = dataset = "cifar100"


@register
class ImageNet(DataSet):
    """ImageNet as class folders."""

    name = dataset = "imagenet"


@register
class ImageNet100(DataSet):
    """A hundred classes of ImageNet as class folders."""

    name = dataset = "imagenet100"


@register
class ImageNet10(DataSet):
    """Ten classes of ImageNet."""

    name = "imagenet10"
    about = "links to ten classes of an ImageNet or Imagenette folder"
    example = "--imagenet /data/imagenet"
    required = "--imagenet DIR"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the source, the choice of classes and images, and the place."""
        parser.add_argument(
            "--imagenet",
            "--imagenette",
            type=Path,
            required=True,
            metavar="DIR",
            help="ImageNet, or Imagenette's unpacked archive: a folder with train/SYNSET and val/SYNSET",
        )
        parser.add_argument(
            "--split",
            choices=SPLITS,
            default=SPLITS[0],
            help="imagenet (default): the paper's 12,894 + 500 images, selected by file name; imagenette: its "
            "folders unchanged",
        )
        parser.add_argument(
            "--classes",
            choices=tuple(CLASSES),
            default=next(iter(CLASSES)),
            help="imagenette (default): the paper's; clustering: the ImageNet-10 of the clustering literature",
        )
        parser.add_argument(
            "--out", type=Path, help="default: datasets/imagenet10, or a distinct name for another set than the paper's"
        )

    def prepare(self, options: argparse.Namespace) -> Path:
        """Link the images, and print on standard error what they are."""
        from radial_vicreg.data.prepare.imagenet10 import describe_imagenet10, prepare_imagenet10

        folder = prepare_imagenet10(options.imagenet, options.out, options.split, options.classes, options.replace)
        print("\n".join(describe_imagenet10(folder)), file=sys.stderr)  # standard output holds only the path
        return folder


@register
class CelebA(DataSet):
    """CelebA: a prepared split of faces, each with 40 attributes."""

    name = dataset = "celeba"
    about = "aligned images, 40 attributes and the official split"
    example = "--source /data/celeba"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the source and the place."""
        parser.add_argument(
            "--source", type=Path, help="folder of a downloaded copy; default: torchvision downloads one"
        )
        super().add_options(parser)

    def prepare(self, options: argparse.Namespace) -> Path:
        """Link the images and write their attributes."""
        from radial_vicreg.data.celeba import prepare_celeba

        return prepare_celeba(options.out, options.source, options.replace)

    def check_places(self, data: DataConfig) -> None:
        """Require the folders."""
        _directory(data.train_path, "data.train_path")
        if data.val_path is not None and not lacks_labels(self.dataset, data.no_labels):
            _directory(data.val_path, "data.val_path")

    def _open(self, path: str | None, key: str, data: DataConfig) -> ImageSet:
        from radial_vicreg.data.celeba import CelebAFolder

        return CelebAFolder(_directory(path, key), key=key, on_bad_image=data.on_bad_image)


@register
class Study(DataSet):
    """The images of the studies."""

    name = "study"
    about = "CIFAR-10 with held-out training images, for the studies"
    example = "--full"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the source, the study and the place."""
        parser.add_argument(
            "--source", type=Path, help="CIFAR-10 as folders, train/CLASS and test/CLASS; default: a download"
        )
        which = parser.add_mutually_exclusive_group()
        which.add_argument(
            "--full", action="store_true", help="all 60,000 images, for `study/full`; default: 12,000 of them"
        )
        which.add_argument(
            "--second",
            action="store_true",
            help="for docs/study2.md: with test images that the first study did not use",
        )
        parser.add_argument("--out", type=Path, help="default: datasets/study, study_full or study2")

    def prepare(self, options: argparse.Namespace) -> Path:
        """Link the images of one study."""
        from radial_vicreg.data.prepare.study import FULL, QUICK, SECOND, prepare_study

        name, sizes = (
            ("study_full", FULL) if options.full else ("study2", SECOND) if options.second else ("study", QUICK)
        )
        return prepare_study(options.out or _FOLDER / name, options.source, sizes, options.replace)


@register
class Custom(DataSet):
    """Any folder of images: one sub-folder per class, or with ``data.no_labels`` the images alone."""

    name = dataset = "custom"


def _cifar_root(path: str | None, key: str) -> Path:
    if path is None:
        raise UserError(f"{key} is not set: set it to the folder for torchvision's copy of CIFAR, {key}=DIR")
    return Path(path)
