"""The images of a trial: scikit-learn's digits, or small copies of a person's own images."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from radial_vicreg.compose.overrides import quoted
from radial_vicreg.data.batches import evenly_spaced
from radial_vicreg.data.folder import LabelledFolder, UnlabelledFolder
from radial_vicreg.data.image import cut_long_image, open_image, shown, unreadable_images
from radial_vicreg.data.listing import class_folders
from radial_vicreg.data.places import check_same_classes, require_directory
from radial_vicreg.data.prepare.digits import prepare_digits
from radial_vicreg.data.sets import prepared_sets
from radial_vicreg.data.staging import prepare_folder
from radial_vicreg.errors import UserError
from radial_vicreg.io.terminal import track
from radial_vicreg.names.counts import first_of

_MOST = 1_800
"""Number of images that are used; the digits have about as many, and a trial stays short."""
_LEAST = 80
_SIDE, _CROP = 48, 32  # pixels of the copies, and of the crops
_HELD_OUT = 5  # one in so many images of a class is held out
_LARGEST_BATCH = 64
_STEPS = 88  # those of the quickstart on the digits
_MOST_CLASSES = 90  # of 20 images each
_SPLITS = ("train", "val")


class TrialImages(NamedTuple):
    """Images of a trial.

    Attributes:
        name: of the data set.
        overrides: Hydra overrides that make a run read them.
        lines: what was found, used and left out.
        long_run: overrides of a long run on the original images.
    """

    name: str
    overrides: list[str]
    lines: list[str]
    long_run: list[str]


def digits() -> TrialImages:
    """Return scikit-learn's handwritten digits, which are written to their folder if they are missing."""
    kind = prepared_sets()["digits"]
    prepare_digits(kind.folder)
    return TrialImages(kind.name, [], ["images: scikit-learn's handwritten digits"], [])


def own_images(folder: str | Path, out: Path) -> TrialImages:
    """Copy images of any size and type, 48 x 48 pixels and RGB, and hold a fifth of each class out.

    Folders are read as ``pretrain`` reads them: sub-folders are classes; ``train`` and ``val`` with the same classes
    are a split; without sub-folders, images have no labels.

    Args:
        folder: the images; nothing in it is changed.
        out: folder in which the copies are made, in a sub-folder that is named after the files' paths, sizes and
            times.

    Returns:
        The images. ``lines`` count the images that are left out, with the reason; files of other types are
        counted in a line of their own when they are found.

    Raises:
        UserError: the folder is missing or has fewer than 80 usable images.
        OSError: a sub-folder may not be listed, or the disk is full.
    """
    root = require_directory(folder, "FOLDER").resolve()
    found = _find(root)
    chosen, left_out = _choose(found)
    train = sum(name.startswith("train/") for name in chosen)
    if len(chosen) < _LEAST:
        raise UserError(
            f"{shown(root)}: expected {_LEAST} or more images that can be read, found {len(chosen)} "
            f"(left out: {'; '.join(left_out) or 'none'}; files of unsupported types: {found.others})"
        )
    copies = out / f"images-{_digest(chosen.values())}"
    _copy(chosen, copies)
    labelled = bool(found.classes)
    lines = [
        f"images: {train:,} for training"
        + (f", {len(chosen) - train:,} held out, {_classes_of(chosen)} classes" if labelled else ", without labels")
        + f", as copies of {_SIDE} x {_SIDE} pixels",
        *(f"left out: {text}" for text in left_out),
    ]
    return TrialImages(root.name, _overrides(root.name, copies, train, labelled), lines, _long_run(root, found))


class _Found(NamedTuple):
    """Images in a folder; none is opened.

    Attributes:
        files: path, class (None without labels) and split (None without a split) of each.
        classes: names of the classes; empty without labels.
        others: number of files of other types, which are printed when they are found.
    """

    files: list[tuple[str, str | None, str | None]]
    classes: Sequence[str]
    others: int


def _find(root: Path) -> _Found:
    folders = class_folders(root)
    split = all(name in folders and class_folders(root / name) for name in _SPLITS)
    parts = {name: root / name for name in _SPLITS} if split else {None: root}
    sets = {
        part: (LabelledFolder if class_folders(place) else UnlabelledFolder)(place, "FOLDER")
        for part, place in parts.items()
    }
    names = [images.classes for images in sets.values() if isinstance(images, LabelledFolder)]
    if split:
        check_same_classes(*names)
    classes = names[0] if names and len(names[0]) > 1 else []
    files = [
        (path, classes[target] if classes else None, part)
        for part, images in sets.items()
        for path, target in zip(images.files, images.targets, strict=True)
    ]
    return _Found(files, classes, sum(sum(images.omitted.counts().values()) for images in sets.values()))


def _choose(found: _Found) -> tuple[dict[str, str], list[str]]:
    """Choose images and their names below the folder of the copies; return what is left out as well, by reason."""
    classes = {found.classes[index] for index in evenly_spaced(len(found.classes), _MOST_CLASSES)}
    of_classes = [file for file in found.files if file[1] is None or file[1] in classes]
    kept = [of_classes[index] for index in evenly_spaced(len(of_classes), _MOST)]
    bad = unreadable_images([path for path, _, _ in kept], "skip")
    by_class: dict[str | None, list[tuple[str, str | None]]] = {}
    for path, label, part in kept:
        if path not in bad:
            by_class.setdefault(label, []).append((path, part))
    chosen: dict[str, str] = {}
    small = 0
    for label, files in by_class.items():
        names = dict(_named(label, files))
        if label is not None and {name.partition("/")[0] for name in names} != set(_SPLITS):
            small += len(files)
        else:
            chosen.update(names)
    left_out = {
        f"of other classes than {_MOST_CLASSES} evenly spaced ones": len(found.files) - len(of_classes),
        f"beyond {_MOST:,} evenly spaced ones, so that this takes minutes": len(of_classes) - len(kept),
        f"that cannot be read ({first_of([shown(os.path.basename(path)) for path in bad])})": len(bad),
        "in classes with too few images to hold one out": small,
    }
    return chosen, [f"{number:,} {reason}" for reason, number in left_out.items() if number]


def _named(label: str | None, files: Sequence[tuple[str, str | None]]) -> Iterator[tuple[str, str]]:
    for index, (path, part) in enumerate(files):
        split = part or ("val" if label is not None and index % _HELD_OUT == _HELD_OUT - 1 else "train")
        yield "/".join([split, *([] if label is None else [label]), f"{index:05d}.png"]), path


def _classes_of(chosen: Iterable[str]) -> int:
    return len({name.split("/")[1] for name in chosen})


def _digest(paths: Iterable[str]) -> str:
    """Digest the files' paths, sizes and times, so that changed images get another folder."""
    digest = hashlib.sha256()
    for path in paths:
        state = os.stat(path)
        digest.update(f"{path}\0{state.st_size}\0{state.st_mtime_ns}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()[:8]


def _copy(chosen: dict[str, str], copies: Path) -> None:
    def fill(folder: Path) -> None:
        for name, path in track(chosen.items(), "copying images", len(chosen)):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            _small(open_image(path)).save(folder / name)

    description = {"dataset": "trial", "size": _SIDE, "num_images": len(chosen)}
    prepare_folder(copies, description, dict.fromkeys(chosen), fill)


def _small(image: Image.Image) -> Image.Image:
    """Cut out the central square and resize it."""
    image = cut_long_image(image)
    side = min(image.size)
    left, top = ((length - side) // 2 for length in image.size)
    square = image.crop((left, top, left + side, top + side))
    return square.resize((_SIDE, _SIDE), Image.Resampling.BICUBIC)


def _overrides(name: str, copies: Path, train: int, labelled: bool) -> list[str]:
    batch = next(size for size in (_LARGEST_BATCH, 32, 16) if train >= 4 * size or size == 16)
    texts = {"data.name": name, "data.train_path": copies / "train"}
    if labelled:
        texts["data.val_path"] = copies / "val"
    return [
        "radialvicreg/dataset=folder",
        "radialvicreg/augmentation=cifar",
        f"augment.crop_size={_CROP}",
        *(shlex.split(_written(key, text))[0] for key, text in texts.items()),
        f"data.no_labels={str(not labelled).lower()}",
        "data.format=device",
        "data.num_workers=0",
        f"probes.frozen_linear={str(labelled).lower()}",
        f"optimizer.batch_size={batch}",
        f"max_epochs={-(-_STEPS // (train // batch))}",
    ]


def _long_run(root: Path, found: _Found) -> list[str]:
    split = any(part for _, _, part in found.files)
    paths = {"data.train_path": root / "train", "data.val_path": root / "val"} if split else {"data.train_path": root}
    return [
        "radialvicreg/dataset=folder",
        *(_written(key, path) for key, path in paths.items()),
        *([] if class_folders(root) else ["data.no_labels=true"]),
        "data.on_bad_image=skip",
    ]


def _written(key: str, value: object) -> str:
    """Write an override for a shell; quoted only if Hydra or the shell would read the value differently."""
    plain = f"{key}={value}"
    return plain if re.fullmatch(r"[\w./-]+", str(value)) else quoted(plain) or plain
