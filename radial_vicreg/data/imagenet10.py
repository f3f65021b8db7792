"""ImageNet-10: ten classes of an ImageNet folder, as links."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torchvision.datasets.folder import IMG_EXTENSIONS

from radial_vicreg.data.folder import require_directory
from radial_vicreg.data.staging import claim_folder, staged_folder

SYNSETS = (
    "n02056570",  # king penguin
    "n02085936",  # Maltese dog
    "n02128757",  # snow leopard
    "n02690373",  # airliner
    "n02692877",  # airship
    "n03095699",  # container ship
    "n04254680",  # soccer ball
    "n04285008",  # sports car
    "n04467665",  # trailer truck
    "n07747607",  # orange
)
"""The usual ten; the paper names none."""

COUNTS = {"train": 13_000, "val": 500}


def prepare_imagenet10(imagenet: str | Path, out: str | Path, counts: Mapping[str, int] = COUNTS) -> Path:
    """Link the ten classes of ``imagenet/{train,val}`` as ``out/{train,val}``. Repeating it does nothing.

    Args:
        imagenet: folder with ``train/SYNSET/*.JPEG`` and ``val/SYNSET/*.JPEG``.
        out: the folder to write; it appears only when complete.
        counts: images that each split must have.

    Returns:
        ``out``.

    Raises:
        ValueError: a class is missing, a split has another number of images, or ``out`` holds something else; nothing
            is written then.
    """
    source, target = require_directory(imagenet, "--imagenet").resolve(), claim_folder(Path(out))
    for split, expected in counts.items():
        folder = require_directory(source / split, f"--imagenet: {split}")
        missing = [name for name in SYNSETS if not (folder / name).is_dir()]
        if missing:
            flat = "; its images must be sorted into one folder a class" if len(missing) == len(SYNSETS) else ""
            raise ValueError(f"{folder} lacks the classes {', '.join(missing)}{flat}")
        found = sum(_count_images(folder / name) for name in SYNSETS)
        if found != expected:
            raise ValueError(
                f"{folder} holds {found:,} images of the ten classes, but ImageNet has {expected:,}: complete the copy"
            )
    if _is_linked(source, target, list(counts)):
        return target
    with staged_folder(
        target, {"dataset": "imagenet10", "imagenet": str(source), "num_images": sum(counts.values())}
    ) as new:
        for split in counts:
            (new / split).mkdir()
            for name in SYNSETS:
                (new / split / name).symlink_to(source / split / name, target_is_directory=True)
    return target


def _count_images(folder: Path) -> int:
    return sum(path.suffix.lower() in IMG_EXTENSIONS for path in folder.iterdir())


def _is_linked(source: Path, target: Path, splits: list[str]) -> bool:
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return False
    links = [(target / split / name, source / split / name) for split in splits for name in SYNSETS]
    return all(link.is_symlink() and link.readlink() == image_folder for link, image_folder in links)
