"""``radial-vicreg data NAME [--out DIR] [--replace]``: the data sets of :mod:`radial_vicreg.data.sets`."""

from __future__ import annotations

from collections.abc import Sequence

from radial_vicreg.cli.parser import Parser
from radial_vicreg.data.sets import prepared_sets


def parser() -> Parser:
    """Make the parser of this command."""
    made = Parser(prog="radial-vicreg data", description="Prepare a data set.", example="radial-vicreg data digits")
    sets = made.add_subparsers(dest="name", required=True)
    for name, kind in prepared_sets().items():
        example = f"radial-vicreg data {name} {kind.example}".rstrip()
        kind.add_options(sets.add_parser(name, help=kind.about, description=_sentence(kind.about), example=example))
    for one in sets.choices.values():
        one.add_argument(
            "--replace",
            action="store_true",
            help="move aside a folder that holds something else or lacks images (without this option, it is "
            "refused); nothing is "
            "deleted, and a complete folder stays",
        )
    return made


def _sentence(about: str | None) -> str:
    """Write the help of a list as the description of one data set."""
    return f"{about[:1].upper()}{about[1:]}." if about else ""


def run(arguments: Sequence[str]) -> int:
    """Prepare one data set.

    Args:
        arguments: command line after ``data``.

    Returns:
        0.

    Raises:
        UserError: the target folder holds other files, or images are missing.
        OSError: the disk is full.
        UnreachableError: the download server cannot be reached.
    """
    parsed = parser().parse_args(list(arguments))
    print(prepared_sets()[parsed.name].prepare(parsed))
    return 0
