"""``radial-vicreg data digits|cifar10|cifar100 [--out DIR]``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path


def run(arguments: Sequence[str]) -> int:
    """Prepares one data set.

    Args:
        arguments: command line after ``data``.

    Returns:
        0.

    Raises:
        ValueError: the target holds something else.
        OSError: no room, or the download is out of reach.
    """
    parser = argparse.ArgumentParser(prog="radial-vicreg data", description="Prepare a data set.")
    sets = parser.add_subparsers(dest="name", required=True)
    digits = sets.add_parser("digits", help="scikit-learn's 1,797 handwritten digits as an image folder; no download")
    digits.add_argument("--out", type=Path, default=Path("datasets/digits"))
    digits.add_argument("--size", type=int, default=32, help="pixels (default: 32)")
    for name in ("cifar10", "cifar100"):
        cifar = sets.add_parser(name, help="downloaded by torchvision; solo-learn reads the same files")
        cifar.add_argument("--out", type=Path, default=Path("datasets"))
        cifar.add_argument("--as-folder", action="store_true", help="also write train/ and val/ image folders")
    parsed = parser.parse_args(list(arguments))
    if parsed.name == "digits":
        from radial_vicreg.data.digits import prepare_digits

        print(prepare_digits(parsed.out, size=parsed.size))
    else:
        from radial_vicreg.data.cifar import prepare_cifar

        print(prepare_cifar(parsed.name, parsed.out, as_folder=parsed.as_folder))
    return 0
