"""CelebA with its 40 attributes and official split: preparation, and a data set that checks its labels."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from radial_vicreg.data.image import open_image, shown, unreadable_images
from radial_vicreg.data.image_set import ImageSet
from radial_vicreg.data.listing import Omitted, Paths, flat_files
from radial_vicreg.data.places import require_directory
from radial_vicreg.data.staging import claim_folder, prepare_folder
from radial_vicreg.errors import UnreachableError, UserError
from radial_vicreg.io.locks import LockedError, changing
from radial_vicreg.names.counts import counted
from radial_vicreg.names.data_sets import ATTRIBUTES_FILE, NUM_ATTRIBUTES

IMAGES = "faces"
"""The only sub-folder of a split: solo-learn's readers need class folders, and number files in sorted order."""

_DOWNLOAD_PATIENCE = 24 * 3600.0  # seconds to wait for a process that downloads 1.4 GB
_SPLITS = ("train", "val", "test")  # 0, 1, 2 in list_eval_partition
_ALIGNED = ("img_align_celeba/img_align_celeba", "img_align_celeba")  # Kaggle's archive nests it


class AttributeTable(NamedTuple):
    """Attributes of one split.

    Attributes:
        files: names of the images, sorted.
        names: of the attributes.
        values: 0 or 1, uint8, shape ``(N, attributes)``, in the order of ``files``.
    """

    files: list[str]
    names: list[str]
    values: Tensor


def prepare_celeba(out: str | Path, source: str | Path | None = None, replace: bool = False) -> Path:
    """Link ``out/{train,val,test}/faces/*.jpg`` and write an ``attributes.csv`` per split. Repeating it does nothing.

    Args:
        out: the folder to write; it appears only when complete.
        source: a downloaded copy: ``img_align_celeba/`` with ``list_attr_celeba`` and ``list_eval_partition``, as
            ``.txt`` or ``.csv``, in it or in its sub-folder ``celeba``. None: torchvision downloads one next to
            ``out``.
        replace: move a folder that holds something else, or lacks images, aside.

    Returns:
        ``out``.

    Raises:
        UserError: the copy is incomplete or contradicts itself, or ``out`` holds something else or lacks images.
        UnreachableError: it cannot be downloaded.
    """
    target = claim_folder(out, replace, links=True)
    root = _download(target.resolve().parent) if source is None else _find_root(require_directory(source, "--source"))
    images = next(root / name for name in _ALIGNED if (root / name).is_dir()).resolve()
    table, split_of = _read_lists(root)
    absent = [name for name in table.files if not (images / name).is_file()]
    if absent:
        raise UserError(f"{images} lacks {len(absent):,} of {len(table.files):,} images, for example {absent[0]}")
    chosen = {
        split: [index for index, name in enumerate(table.files) if split_of[name] == number]
        for number, split in enumerate(_SPLITS)
    }
    files: dict[str, Path | None] = {f"{split}/{ATTRIBUTES_FILE}": None for split in _SPLITS}
    for split, indices in chosen.items():
        files |= {f"{split}/{IMAGES}/{name}": images / name for name in (table.files[index] for index in indices)}

    def write_attributes(folder: Path) -> None:
        for split, indices in chosen.items():
            _write_attributes(folder / split, table, indices)

    description = {"dataset": "celeba", "source": str(images), "num_images": len(table.files)}
    prepare_folder(target, description, files, write_attributes, replace)
    return target


def load_attributes(
    split_folder: str | Path, key: str = "data.train_path", omitted: Omitted | None = None
) -> AttributeTable:
    """Read the attributes of a prepared split and check that they belong to its images.

    Args:
        split_folder: ``out/train``, ``out/val`` or ``out/test`` of :func:`prepare_celeba`.
        key: name of the setting that gave it, for error messages.
        omitted: collects the files that are not read as images.

    Returns:
        The table, in the order in which solo-learn numbers the images.

    Raises:
        UserError: the folder was not made by :func:`prepare_celeba`, a line of the table is too short or holds values
            other than zeros and ones, or images and table name different files.
    """
    folder = require_directory(split_folder, key)
    if not (folder / ATTRIBUTES_FILE).is_file() or not (folder / IMAGES).is_dir():
        raise UserError(f"{key}={folder} has no {IMAGES}/ and {ATTRIBUTES_FILE}: run `radial-vicreg data celeba`")
    names, rows = _read_table(folder / ATTRIBUTES_FILE)
    files = [row[0] for row in rows]
    omitted = Omitted() if omitted is None else omitted
    images = [path.name for path in flat_files(folder / IMAGES, omitted)]
    omitted.tell(folder)
    if files != images:
        raise UserError(f"{folder}: {ATTRIBUTES_FILE} and {IMAGES}/ name different files; prepare the folder anew")
    return AttributeTable(files, names, torch.from_numpy(np.array([row[1:] for row in rows], dtype=np.uint8)))


class CelebAFolder(ImageSet):
    """A prepared split: images with their attributes.

    Args:
        root: ``out/train``, ``out/val`` or ``out/test`` of :func:`prepare_celeba`.
        key: name of the setting that gave ``root``, for error messages.
        on_bad_image: ``"skip"``: every file is opened now, and unreadable ones are skipped.

    Attributes:
        skipped: the files that were skipped.
        omitted: the files that are not read as images.

    Raises:
        UserError: as :func:`load_attributes`, or no image can be read.
    """

    labels = "attributes"

    def __init__(
        self,
        root: str | Path,
        key: str = "data.train_path",
        on_bad_image: str = "error",
    ) -> None:
        self.omitted = Omitted()
        table = load_attributes(root, key, self.omitted)
        folder = Path(root) / IMAGES
        self.skipped = unreadable_images((folder / name for name in table.files), on_bad_image)
        if self.skipped:
            table = _without(table, {Path(path).name for path in self.skipped})
            if not table.files:
                raise UserError(f"{key}={root}: its {counted(len(self.skipped), 'image')} cannot be read")
        self.classes, self.targets, self._values = table.names, table.values, table.values
        self.files = Paths(str(folder / name) for name in table.files)

    def __getitem__(self, index: int) -> tuple[Any, Tensor]:
        """Return ``(image, attributes)``; attributes are float32 zeros and ones, shape ``(40,)``."""
        return open_image(self.files[index]), self._values[index].float()

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.files)


def _read_table(path: Path) -> tuple[list[str], list[list[str]]]:
    try:
        with path.open(newline="", encoding="utf-8") as stream:
            header, *rows = csv.reader(stream)
    except (ValueError, csv.Error) as error:  # no line at all, or not a text
        raise UserError(f"{path} is not a table of attributes ({error}); prepare the folder anew") from error
    for number, row in enumerate(rows, start=2):
        if len(row) != NUM_ATTRIBUTES + 1 or not {"0", "1"}.issuperset(row[1:]):
            raise UserError(
                f"{path}, line {number}: expected a file name and {NUM_ATTRIBUTES} values of 0 or 1, got"
                f" {','.join(row)[:60]!r}; prepare the folder anew"
            )
    return header[1:], rows


def _without(table: AttributeTable, files: set[str]) -> AttributeTable:
    kept = [index for index, name in enumerate(table.files) if name not in files]
    return AttributeTable([table.files[index] for index in kept], table.names, table.values[kept])


def _write_attributes(folder: Path, table: AttributeTable, chosen: Sequence[int]) -> None:
    folder.mkdir()
    with (folder / ATTRIBUTES_FILE).open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["file", *table.names])
        writer.writerows([table.files[index], *table.values[index].tolist()] for index in chosen)


def _find_root(source: Path) -> Path:
    for root in (source, source / "celeba"):
        if any((root / name).is_dir() for name in _ALIGNED):
            return root
    raise UserError(f"--source {source} has no img_align_celeba/: unpack the aligned images there")


def _download(parent: Path) -> Path:
    from torchvision.datasets import CelebA

    try:
        parent.mkdir(parents=True, exist_ok=True)
        with changing(parent / "download", _DOWNLOAD_PATIENCE):
            CelebA(str(parent / "download"), split="all", download=True)
    except LockedError:
        raise
    except Exception as error:  # requests, gdown and zipfile each raise their own
        raise UnreachableError(
            f"CelebA could not be downloaded ({error}): fetch img_align_celeba.zip, list_attr_celeba.txt and "
            "list_eval_partition.txt yourself, unpack the images, and pass their folder as --source"
        ) from error
    return parent / "download" / "celeba"


def _read_lists(root: Path) -> tuple[AttributeTable, dict[str, int]]:
    rows = _unique_records(root, "list_attr_celeba")
    names = rows.pop("", [])
    split_rows = _unique_records(root, "list_eval_partition")
    split_rows.pop("", None)
    if len(names) != NUM_ATTRIBUTES:
        raise UserError(f"{root}: list_attr_celeba names {len(names)} attributes, but CelebA has {NUM_ATTRIBUTES}")
    if rows.keys() != split_rows.keys():
        some = min(rows.keys() ^ split_rows.keys())
        raise UserError(
            f"{root}: list_attr_celeba and list_eval_partition name different images, for example {shown(some)}"
        )
    for name, values in rows.items():
        if len(values) != NUM_ATTRIBUTES or not {"-1", "0", "1"}.issuperset(values):
            raise UserError(
                f"{root}: list_attr_celeba must give {NUM_ATTRIBUTES} values of -1 or 1 for each image, got "
                f"others for {shown(name)}"
            )
    wrong = [name for name, values in split_rows.items() if values not in (["0"], ["1"], ["2"])]
    if wrong:
        raise UserError(
            f"{root}: list_eval_partition must give 0, 1 or 2 for each image, got another value for {shown(wrong[0])}"
        )
    files = sorted(rows)
    present = np.array([rows[name] for name in files]) == "1"
    table = AttributeTable(files, names, torch.from_numpy(present.astype(np.uint8)))
    return table, {name: int(split_rows[name][0]) for name in files}


def _unique_records(root: Path, stem: str) -> dict[str, list[str]]:
    """Collect values by file name; repeated lines of a file must agree."""
    found: dict[str, list[str]] = {}
    for name, values in _records(root, stem):
        if name and found.get(name, values) != values:
            raise UserError(
                f"{root}: {stem} has two lines for {shown(name)} that contradict each other: remove the wrong one"
            )
        found[name] = values
    return found


def _records(root: Path, stem: str) -> Iterator[tuple[str, list[str]]]:
    """Yield file name and values of each line; the line of attribute names has the file name ``""``."""
    for suffix, separator in ((".txt", None), (".csv", ",")):
        path = root / f"{stem}{suffix}"
        if not path.is_file():
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise UserError(f"{path} is not a text file ({error})") from error
        for line in text.splitlines():
            parts = line.split(separator)
            if len(parts) > 1 and parts[0].endswith(".jpg"):
                yield parts[0], parts[1:]
            elif len(parts) > 1:  # .csv: its first column is called image_id
                yield "", parts[1:] if separator else parts
        return
    raise UserError(f"{root} has no {stem}.txt or {stem}.csv")
