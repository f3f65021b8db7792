"""``radial-vicreg diagnose SOURCE ... [--images DIR] [--out DIR]``."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from radial_vicreg.cli.parser import Parser
from radial_vicreg.cli.tables import print_table
from radial_vicreg.names.choices import ON_BAD_IMAGE

if TYPE_CHECKING:
    from radial_vicreg.gaussianity.content import Diagnosis

_STEM = "diagnose"


def run(arguments: Sequence[str]) -> int:
    """Diagnose one or more sources, print the tables and write the requested files.

    Args:
        arguments: command line after ``diagnose``.

    Returns:
        0.

    Raises:
        UserError: a source, an image folder or an option cannot be used, or the output would overwrite other files.
        UnreachableError: pretrained weights cannot be downloaded.
    """
    parsed = parser().parse_args(list(arguments))
    from radial_vicreg.data.places import require_directory
    from radial_vicreg.gaussianity.forms import distinct_sources, require_source

    for source in parsed.sources:  # before PyTorch is imported
        require_source(source)
    parsed.sources, skipped = distinct_sources(parsed.sources)
    for line in skipped:
        print(line, file=sys.stderr)
    if parsed.images is not None:
        require_directory(parsed.images, "--images")
    from radial_vicreg.figures import figure_files, figure_style
    from radial_vicreg.gaussianity.figure import diagnose_figure
    from radial_vicreg.io.files import json_bytes
    from radial_vicreg.io.outputs import OutputFolder

    folder = None if parsed.out is None else OutputFolder(parsed.out, "diagnose", _former_files).claim(_names())
    content = measured(parsed)
    _print(content)
    if folder is None:
        print("figure and numbers as files: --out DIR")
        return 0
    with figure_style():
        figures = figure_files(diagnose_figure(content), _STEM)
    written = folder.write({f"{_STEM}.json": json_bytes(content), **figures})
    print("written: " + ", ".join(map(str, written)))
    return 0


def measured(parsed: Namespace) -> Diagnosis:
    """Run the measurements that a command line requests.

    Args:
        parsed: arguments parsed by :func:`parser`.

    Returns:
        See :func:`radial_vicreg.gaussianity.measure.diagnose`.
    """
    from radial_vicreg.gaussianity import measure
    from radial_vicreg.gaussianity.settings import Settings

    settings = Settings(
        images=parsed.images,
        max_images=parsed.max_images,
        batch_size=parsed.batch_size,
        workers=parsed.workers,
        device=parsed.device,
        seed=parsed.seed,
        pretrained=not parsed.no_pretrained,
        on_bad_image=parsed.on_bad_image,
    )
    return measure.diagnose(parsed.sources, settings, parsed.untrained)


def parser() -> Parser:
    """Make the parser of this command."""
    made = Parser(
        prog="radial-vicreg diagnose",
        description="Measure how Gaussian the outputs of encoder and projector are: radii, spectrum, directions, "
        "random slices, single dimensions and pairs, each compared with normal samples of the same size "
        "(docs/diagnose.md).",
        example="radial-vicreg diagnose runs/latest --untrained --out diagnosis\n"
        "radial-vicreg diagnose timm:resnet18.a1_in1k --images my_images",
    )
    made.add_argument(
        "sources",
        metavar="SOURCE",
        nargs="+",
        help="a run's folder or a checkpoint in it, a folder of `radial-vicreg export`, timm:NAME, torchvision:NAME, "
        "or a .npy matrix (N, d) or (V, N, d) of V views",
    )
    made.add_argument(
        "--images", type=Path, help="folder of images, flat or with one folder per class (default: the run's images)"
    )
    made.add_argument("--out", type=Path, help="folder for diagnose.json and the figure as PNG, PDF and SVG")
    made.add_argument(
        "--untrained",
        action="store_true",
        help="also measure the first run's network before its training, as the first row",
    )
    made.add_argument("--no-pretrained", action="store_true", help="timm and torchvision: random weights from --seed")
    made.add_argument(
        "--max-images", type=int, default=10_000, help="evenly spaced images, or rows of a matrix (default: 10000)"
    )
    made.add_argument("--batch-size", type=int, default=256, help="images embedded at once (default: 256)")
    made.add_argument(
        "--workers", type=int, help="processes that load images (default: the run's data.num_workers, otherwise 0)"
    )
    made.add_argument("--device", help="cpu, cuda, cuda:1, ... (default: a GPU where there is one)")
    made.add_argument(
        "--seed", type=int, default=0, help="seed of slices, normal samples and random weights (default: 0)"
    )
    made.add_argument(
        "--on-bad-image",
        choices=ON_BAD_IMAGE,
        help="stop at an image that cannot be read, or skip it (default: the run's data.on_bad_image, otherwise error)",
    )
    return made


def _print(content: Diagnosis) -> None:
    from radial_vicreg.gaussianity.table import notes, source_lines, tables

    for line in source_lines(content):
        print(line)
    for header, rows in tables(content):
        print_table(header, rows, right=header[1:])
    for line in notes(content):
        print(line)


def _names() -> list[str]:
    """List the names of the files written to ``--out``."""
    from radial_vicreg.figures import SUFFIXES

    return [f"{_STEM}{suffix}" for suffix in (".json", *SUFFIXES)]


def _former_files(folder: Path) -> list[str]:
    """List the files of a diagnosis written by version 0.2 or earlier; the JSON file that identifies it comes last."""
    from radial_vicreg.io.outputs import json_with

    names = [name for name in reversed(_names()) if (folder / name).exists()]
    is_diagnosis = json_with("radial_vicreg", "sources", "normal_curves")
    return names if is_diagnosis(folder / f"{_STEM}.json") else []
