"""``radial-vicreg export RUN_OR_CKPT --format torchvision|timm|safetensors [--out DIR]``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from radial_vicreg.commands.parser import Parser


def parser() -> Parser:
    """Make the parser of this command."""
    made = Parser(
        prog="radial-vicreg export",
        description="Write the backbone alone, with a card, and prove it by loading it back.",
    )
    made.add_argument("run", metavar="RUN_OR_CKPT", type=Path, help="a run's folder, one above it, or a checkpoint")
    made.add_argument(
        "--format", choices=("torchvision", "timm", "safetensors"), default="torchvision", help="default: torchvision"
    )
    made.add_argument("--out", type=Path, help="folder (default: export/FORMAT in the run's folder)")
    return made


def run(arguments: Sequence[str]) -> int:
    """Export one backbone and print where it is and how it was proven.

    Args:
        arguments: command line after ``export``.

    Returns:
        0.

    Raises:
        UserError: no such run, an architecture that the format does not have, or features that differ.
        MissingPackageError: safetensors is not installed.
    """
    parsed = parser().parse_args(list(arguments))
    from radial_vicreg.export import export_run

    file, card = export_run(parsed.run, parsed.format, parsed.out)
    difference = card["largest_difference"]
    proof = "identical" if difference == 0 else f"equal to {difference:.1g}"
    print(
        f"{card['architecture']} ({card['library']}), {card['feature_dim']} features, {proof} after loading it back: "
        f"{file.parent / card['weights']}, {file}"
    )
    return 0
