"""Hydra's flags and overrides, as its own applications read them."""

from __future__ import annotations

from collections.abc import Sequence

from omegaconf import DictConfig

from radial_vicreg.commands.parser import Parser
from radial_vicreg.compose import compose


def parse_hydra_flags(
    arguments: Sequence[str], default_name: str, prog: str, description: str
) -> tuple[DictConfig, bool]:
    """Reads ``--config-name``, ``--config-path``, ``--cfg`` and overrides, as Hydra's own applications do.

    Args:
        arguments: command line after the sub-command.
        default_name: configuration without ``--config-name``.
        prog: for the usage text.
        description: for the usage text.

    Returns:
        The configuration, and whether only its text is wanted (``--cfg``).
    """
    parser = Parser(prog=prog, description=description)
    parser.add_argument("--config-name", "-cn", default=default_name, help=f"default: {default_name}")
    parser.add_argument("--config-path", "-cp", help="folder with configurations of your own")
    parser.add_argument("--cfg", action="store_true", help="print the composed configuration and stop")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="Hydra overrides")
    parsed = parser.parse_intermixed_args(list(arguments))
    return compose(parsed.config_name, parsed.overrides, parsed.config_path), parsed.cfg
