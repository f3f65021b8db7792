"""``radial-vicreg configs [--config-path DIR] [--json]``: the configurations that ``--config-name`` accepts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from radial_vicreg.cli.parser import Parser
from radial_vicreg.cli.tables import print_json, print_table
from radial_vicreg.errors import UserError
from radial_vicreg.names.configurations import configurations


def parser() -> Parser:
    """Make the parser of this command."""
    made = Parser(
        prog="radial-vicreg configs",
        description="List the configurations that --config-name takes, each with the first sentence of its file.",
        example="radial-vicreg configs --config-path my_configs",
    )
    made.add_argument("--config-path", "-cp", type=Path, metavar="DIR", help="also list those of this folder")
    made.add_argument("--json", action="store_true", help="for programs")
    return made


def run(arguments: Sequence[str]) -> int:
    """Print the list.

    Args:
        arguments: command line after ``configs``.

    Returns:
        0.

    Raises:
        UserError: the folder does not exist.
    """
    parsed = parser().parse_args(list(arguments))
    if parsed.config_path is not None and not parsed.config_path.is_dir():
        raise UserError(f"--config-path {parsed.config_path} is not a folder")
    found = configurations(parsed.config_path)
    if parsed.json:
        print_json([one._asdict() for one in found])
    else:
        print_table(("--config-name", "description"), found, folding="description")
    return 0
