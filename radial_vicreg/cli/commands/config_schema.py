"""``radial-vicreg config-schema [--markdown]``: all configuration keys, as a JSON schema or as Markdown."""

from __future__ import annotations

import json
from collections.abc import Sequence

from radial_vicreg.cli.parser import Parser


def parser() -> Parser:
    """Make the parser of this command."""
    made = Parser(
        prog="radial-vicreg config-schema",
        description="Print the JSON schema of a configuration, for editors that check YAML while it is written.",
        example="radial-vicreg config-schema --markdown",
    )
    made.add_argument("--markdown", action="store_true", help="print tables of every key instead")
    return made


def run(arguments: Sequence[str]) -> int:
    """Print the schema.

    Args:
        arguments: command line after ``config-schema``.

    Returns:
        0.
    """
    parsed = parser().parse_args(list(arguments))
    from radial_vicreg.config.documents import json_schema, key_tables

    print((key_tables() if parsed.markdown else json.dumps(json_schema(), indent=2)).rstrip())
    return 0
