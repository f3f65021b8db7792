"""Hydra's flags and overrides, as its own applications read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from radial_vicreg.commands.parser import Parser


class Request(NamedTuple):
    """Which configuration is asked for.

    Attributes:
        config_name: without ``.yaml``, with its folder.
        overrides: ``key=value``.
        config_path: folder to look in first.
        text_only: print it and stop.
    """

    config_name: str
    overrides: list[str]
    config_path: str | None
    text_only: bool

    @property
    def where(self) -> tuple[str, list[str], str | None]:
        """Arguments of :func:`radial_vicreg.compose.compose`."""
        return self[:3]


def parse_hydra_flags(arguments: Sequence[str], default_name: str, prog: str, description: str) -> Request:
    """Read ``--config-name``, ``--config-path``, ``--cfg`` and overrides.

    Args:
        arguments: command line after the sub-command.
        default_name: configuration without ``--config-name``.
        prog: for the usage text.
        description: for the usage text.

    Returns:
        What is asked for.

    Raises:
        UserError: an unknown option.
    """
    parser = Parser(prog=prog, description=description)
    parser.add_argument("--config-name", "-cn", default=default_name, help=f"default: {default_name}")
    parser.add_argument("--config-path", "-cp", help="folder with configurations of your own")
    parser.add_argument("--cfg", action="store_true", help="print the composed configuration and stop")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="Hydra overrides")
    parsed = parser.parse_intermixed_args(list(arguments))
    return Request(parsed.config_name, parsed.overrides, parsed.config_path, parsed.cfg)
