"""ImageNet-10: ten classes of ImageNet as links, from an ImageNet folder or from Imagenette's archive."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from radial_vicreg.data.prepare.imagenet10_classes import CLASSES, COUNTS, ORIGINS, SPLITS, Counts
from radial_vicreg.data.prepare.imagenet_source import (
    PARTS,
    Images,
    find_images,
    open_source,
    shorter_side_of_resized,
    sort_by_name,
)
from radial_vicreg.data.staging import claim_folder, prepare_folder, read_marker
from radial_vicreg.errors import UserError

_FIRST_VERSION: dict[str, object] = {  # had the clustering choice only, and did not record it in the marker
    "classes": "clustering",
    "split": "imagenet",
    "resized": None,
    "train": 13_000,
    "val": 500,
}


def prepare_imagenet10(
    imagenet: str | Path,
    out: str | Path | None = None,
    split: str = "imagenet",
    classes: str = "imagenette",
    replace: bool = False,
) -> Path:
    """Link ten classes as ``out/{train,val}/SYNSET``. Repeating it does nothing.

    A class whose images are already in the right split is one link to its folder; otherwise each image is a link.

    Args:
        imagenet: folder with ``train/SYNSET/*.JPEG`` and ``val/SYNSET/*.JPEG``: ImageNet, or Imagenette's archive.
        out: the folder to write; it appears only when complete. Default: :func:`default_folder`.
        split: ``"imagenet"`` is ImageNet's own division, read from the images' names where the folders have another;
            ``"imagenette"`` is that of Imagenette's folders.
        classes: a key of ``CLASSES``.
        replace: move a folder that holds something else, or lacks images, aside.

    Returns:
        ``out``.

    Raises:
        UserError: an unknown choice, a missing class, another number of images, or ``out`` holds something else or
            lacks images; nothing is written then.
    """
    if out is not None:
        claim_folder(out, replace, links=True)
    expected = _expected_counts(classes, split)
    source = open_source(imagenet)
    lying = _find_classes(source, classes)
    images = sort_by_name(lying) if split == "imagenet" else lying
    _check_counts(source, images, expected, split, classes)
    resized = shorter_side_of_resized(source, images)
    target = (
        Path(out) if out is not None else claim_folder(default_folder(split, classes, resized), replace, links=True)
    )
    description = {
        "dataset": "imagenet10",
        "classes": classes,
        "split": split,
        "imagenet": str(source),
        "resized": resized,
        **{part: sum(expected[part].values()) for part in PARTS},
        "num_images": sum(sum(expected[part].values()) for part in PARTS),
    }
    links = dict(_links(source, images, lying))
    prepare_folder(target, description, links, replace=replace, earlier=_FIRST_VERSION | {"resized": resized})
    return target


def default_folder(split: str = "imagenet", classes: str = "imagenette", resized: int | None = None) -> Path:
    """Return a folder name that describes the images; only the paper's are plain ``imagenet10``.

    The report groups runs by the last parts of their image folder, so results on other images stay separate.
    """
    name = "imagenette" if split == "imagenette" else "imagenet10"
    choice = "" if classes == "imagenette" else f"-{classes}"
    size = f"-{resized}" if resized else ""
    return Path("datasets") / f"{name}{choice}{size}"


def describe_imagenet10(folder: str | Path) -> list[str]:
    """Describe a prepared folder, one fact per line, with a warning if the images are not the paper's.

    Args:
        folder: what :func:`prepare_imagenet10` returned.

    Returns:
        The lines.
    """
    folder = Path(folder)
    found = {**_FIRST_VERSION, **(read_marker(folder) or {})}
    division = "Imagenette's split" if found["split"] == "imagenette" else "ImageNet's split"
    ten = f"the ten classes of {ORIGINS[found['classes']]}"
    lines = [f"{found['train']:,} training and {found['val']:,} validation images of {ten}, {division}"]
    if found["split"] == "imagenette" or found["classes"] != "imagenette":
        lines.append("not the paper's ImageNet-10 (12,894 and 500 images of Imagenette's classes)")
    if found["resized"]:
        lines.append(
            f"resized: the shorter sides have {found['resized']} pixels. They are suitable for training, but "
            "differ from the paper's, which are ImageNet's originals (full-size form: imagenette2.tgz)"
        )
    if folder != default_folder():
        lines.append(f"to train on it, set data.train_path={folder / 'train'} data.val_path={folder / 'val'}")
    return lines


def _expected_counts(classes: str, split: str) -> Counts:
    if classes not in CLASSES or split not in SPLITS:
        raise UserError(
            f"classes must be one of {', '.join(CLASSES)} and the split one of {', '.join(SPLITS)},"
            f" got {classes!r} and {split!r}"
        )
    if (classes, split) not in COUNTS:
        raise UserError(f"Imagenette does not contain --classes {classes}: omit --split {split}")
    return COUNTS[classes, split]


def _find_classes(source: Path, classes: str) -> Images:
    try:
        return find_images(source, CLASSES[classes])
    except ValueError as error:
        whole = [
            choice
            for choice, synsets in CLASSES.items()
            if all((source / part / name).is_dir() for part in PARTS for name in synsets)
        ]
        if whole and not any((source / "train" / name).is_dir() for name in CLASSES[classes]):
            raise UserError(f"{error}; it has the classes of --classes {whole[0]}") from error
        raise


def _check_counts(source: Path, images: Images, expected: Counts, split: str, classes: str) -> None:
    found = {part: {name: len(images[part, name]) for name in expected[part]} for part in PARTS}
    if found == expected:
        return
    parts = []
    for part in PARTS:
        wrong = [
            f"{name} ({CLASSES[classes][name]}) {found[part][name]:,} of {count:,}"
            for name, count in expected[part].items()
            if found[part][name] != count
        ]
        if wrong:
            totals = f"{sum(found[part].values()):,} of {sum(expected[part].values()):,}"
            parts.append(f"{part} {totals} images: {', '.join(wrong)}")
    differences, advice = "; ".join(parts), _advice(found, expected, split)
    raise UserError(f"{source} does not have the expected numbers of images: {differences}. {advice}")


def _advice(found: Counts, expected: Counts, split: str) -> str:
    if split == "imagenette" and found == COUNTS["imagenette", "imagenet"]:
        return (
            "This is ImageNet's split: omit --split imagenette, or use the archive imagenette2 of December "
            "2019 or later"
        )
    if split == "imagenet" and found == COUNTS["imagenette", "imagenette"]:
        return (
            "This is Imagenette's split and the files lack ImageNet's names, so the paper's split cannot be "
            "rebuilt: unpack the original archive, or use its folders with --split imagenette"
        )
    if any(found[part][name] > count for part in PARTS for name, count in expected[part].items()):
        return "Remove added or duplicate files, including hidden ones, or unpack a fresh copy"
    return "The download or its unpacking is incomplete: repeat both"


def _links(source: Path, images: Images, lying: Images) -> Iterator[tuple[str, Path]]:
    for (part, synset), files in images.items():
        if files == lying[part, synset]:
            yield f"{part}/{synset}", source / part / synset
        else:
            yield from ((f"{part}/{synset}/{file.name}", file) for file in files)
