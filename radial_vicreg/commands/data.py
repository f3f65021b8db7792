"""``radial-vicreg data digits|cifar10|cifar100|imagenet10|celeba|study [--out DIR] [--replace]``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from radial_vicreg.commands.parser import Parser


def parser() -> Parser:
    """Make the parser of this command."""
    made = Parser(prog="radial-vicreg data", description="Prepare a data set.")
    sets = made.add_subparsers(dest="name", required=True)
    digits = sets.add_parser("digits", help="scikit-learn's 1,797 handwritten digits as an image folder; no download")
    digits.add_argument("--out", type=Path, default=Path("datasets/digits"))
    digits.add_argument("--size", type=int, default=32, help="pixels (default: 32)")
    for name in ("cifar10", "cifar100"):
        cifar = sets.add_parser(name, help="downloaded by torchvision; solo-learn reads the same files")
        cifar.add_argument("--out", type=Path, default=Path("datasets"))
        cifar.add_argument("--as-folder", action="store_true", help="also write train/ and val/ image folders")
    imagenet10 = sets.add_parser("imagenet10", help="links to ten classes of an ImageNet or Imagenette folder")
    imagenet10.add_argument(
        "--imagenet",
        "--imagenette",
        type=Path,
        required=True,
        metavar="DIR",
        help="ImageNet, or Imagenette's unpacked archive: a folder with train/SYNSET and val/SYNSET",
    )
    imagenet10.add_argument(
        "--split",
        choices=("imagenet", "imagenette"),
        default="imagenet",
        help="imagenet (default): the paper's 12,894 + 500 images, by their names; imagenette: its folders as they are",
    )
    imagenet10.add_argument(
        "--classes",
        choices=("imagenette", "clustering"),
        default="imagenette",
        help="imagenette (default): the paper's; clustering: the ImageNet-10 of the clustering literature",
    )
    imagenet10.add_argument(
        "--out", type=Path, help="default: datasets/imagenet10; what is not the paper's gets a name that says so"
    )
    celeba = sets.add_parser("celeba", help="images, 40 attributes and the official split")
    celeba.add_argument("--source", type=Path, help="a downloaded copy; default: torchvision downloads one")
    celeba.add_argument("--out", type=Path, default=Path("datasets/celeba"))
    study = sets.add_parser("study", help="CIFAR-10 with a held-out part of its training images, for the studies")
    study.add_argument(
        "--source", type=Path, help="CIFAR-10 as folders, train/CLASS and test/CLASS; default: a download"
    )
    which = study.add_mutually_exclusive_group()
    which.add_argument(
        "--full", action="store_true", help="all 60,000 images, for `study/full`; default: 12,000 of them"
    )
    which.add_argument(
        "--second", action="store_true", help="for docs/study2.md: the test images that the first study has not seen"
    )
    study.add_argument("--out", type=Path, help="default: datasets/study, study_full or study2")
    for one in sets.choices.values():
        one.add_argument(
            "--replace",
            action="store_true",
            help="move a folder aside that holds something else or lacks images (it is refused otherwise); nothing is "
            "deleted, and a complete folder stays",
        )
    return made


def run(arguments: Sequence[str]) -> int:
    """Prepare one data set.

    Args:
        arguments: command line after ``data``.

    Returns:
        0.

    Raises:
        UserError: the target holds something else or lacks images.
        OSError: no room.
        UnreachableError: the download is out of reach.
    """
    print(_prepare(parser().parse_args(list(arguments))))
    return 0


def _prepare(parsed: argparse.Namespace) -> Path:
    if parsed.name == "digits":
        from radial_vicreg.data.digits import prepare_digits

        return prepare_digits(parsed.out, parsed.size, parsed.replace)
    if parsed.name == "imagenet10":
        from radial_vicreg.data.imagenet10 import describe_imagenet10, prepare_imagenet10

        folder = prepare_imagenet10(parsed.imagenet, parsed.out, parsed.split, parsed.classes, parsed.replace)
        print("\n".join(describe_imagenet10(folder)), file=sys.stderr)  # standard output has the path alone, as ever
        return folder
    if parsed.name == "celeba":
        from radial_vicreg.data.celeba import prepare_celeba

        return prepare_celeba(parsed.out, parsed.source, parsed.replace)
    if parsed.name == "study":
        from radial_vicreg.data.study import FULL, QUICK, SECOND, prepare_study

        name, sizes = ("study_full", FULL) if parsed.full else ("study2", SECOND) if parsed.second else ("study", QUICK)
        return prepare_study(parsed.out or Path("datasets") / name, parsed.source, sizes, parsed.replace)
    from radial_vicreg.data.cifar import prepare_cifar

    return prepare_cifar(parsed.name, parsed.out, parsed.as_folder, parsed.replace)
