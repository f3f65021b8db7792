"""``radial-vicreg export RUN_OR_CKPT --format FORMAT [--out DIR]``."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from radial_vicreg.cli.parser import Parser
from radial_vicreg.names.choices import EXPORT_FILES, HUB_FORMAT


def parser() -> Parser:
    """Make the parser of this command."""
    made = Parser(
        prog="radial-vicreg export",
        description="Export the backbone with a model card, load it back and compare its features.",
        example="radial-vicreg export runs/latest --format timm --out backbone",
    )
    made.add_argument("run", metavar="RUN_OR_CKPT", type=Path, help="a run's folder, one above it, or a checkpoint")
    formats = tuple(EXPORT_FILES)
    made.add_argument(
        "--format",
        choices=formats,
        default=formats[0],
        help=f"default: {formats[0]}; {HUB_FORMAT}: "
        "a repository for the Hugging Face Hub that timm loads, model card included",
    )
    made.add_argument("--out", type=Path, help="folder (default: export/FORMAT in the run's folder)")
    return made


def run(arguments: Sequence[str]) -> int:
    """Export one backbone; print its path, how it was verified and, for a Hub export, how to publish it.

    Args:
        arguments: command line after ``export``.

    Returns:
        0.

    Raises:
        UserError: the run does not exist, the format does not support the architecture, the features differ after
            loading, or a model card exists already.
        MissingPackageError: safetensors is not installed.
    """
    parsed = parser().parse_args(list(arguments))
    from radial_vicreg.runs.checkpoints import require_run

    require_run(parsed.run)  # before PyTorch is imported
    from radial_vicreg.export import export_run

    file, card = export_run(parsed.run, parsed.format, parsed.out)
    difference = card["largest_difference"]
    proof = "identical" if difference == 0 else f"equal to {difference:.1g}"
    print(
        f"{card['architecture']} ({card['library']}), {card['feature_dim']} features, {proof} after loading it back: "
        f"{file.parent / card['weights']}, {file}"
    )
    if not any(card["metrics"].values()):
        print(f"the card has no results: the run has none of epoch {card['training']['epoch']}")
    if parsed.format == HUB_FORMAT:
        from radial_vicreg.export.hub import MODEL_CARD

        folder = shlex.quote(str(file.parent))
        print(
            f"nothing was uploaded: fill in the license in {file.parent / MODEL_CARD}, then "
            f"hf upload OWNER/NAME {folder} (older huggingface_hub: huggingface-cli upload OWNER/NAME {folder})"
        )
    return 0
