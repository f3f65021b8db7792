"""Hydra's flags and overrides; a flag that is not supported raises an error that names its replacement."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, NamedTuple, NoReturn

from radial_vicreg.cli.parser import Parser
from radial_vicreg.errors import UserError
from radial_vicreg.names.configurations import configurations

_PRINTED = ("job", "hydra", "all")  # Hydra's choices for --cfg
_ELSEWHERE = {
    ("-m", "--multirun"): "each command trains one run: put the values into a sweep file (`radial-vicreg sweep FILE "
    "--run`; yaml/radialvicreg/sweeps has examples), or loop in the shell",
    ("-i", "--info"): "`--cfg job` prints the configuration, `radial-vicreg configs` lists all of them, and "
    "`radial-vicreg doctor` checks whether Hydra finds them",
    ("-p", "--package"): "--cfg prints the whole configuration",
    ("-r", "--run"): "it is not needed to start a run",
    ("-sc", "--shell-completion"): 'eval "$(register-python-argcomplete radial-vicreg)" completes this command',
    ("--hydra-help",): "--help lists the supported flags",
    ("--experimental-rerun",): "ckpt=auto resumes a run",
}
"""Hydra's flags that are not supported, with their replacements."""


class Request(NamedTuple):
    """The requested configuration.

    Attributes:
        config_name: name with its folder, without ``.yaml``.
        overrides: overrides ``key=value``.
        config_path: folder that is searched first.
        text_only: print the configuration and stop.
        check: print a description of the run and stop.
        claim: train only if no other process trains the run and it is not finished.
    """

    config_name: str
    overrides: list[str]
    config_path: str | None
    text_only: bool
    check: bool
    claim: bool = False

    @property
    def where(self) -> tuple[str, list[str], str | None]:
        """Arguments of :func:`radial_vicreg.compose.compose`."""
        return self[:3]


def hydra_parser(prog: str, description: str, default_name: str, of_runs: bool = True) -> Parser:
    """Make a parser of ``--config-name``, ``--config-path``, ``--cfg`` and overrides.

    Args:
        prog: program name in the usage text.
        description: description in the help text.
        default_name: configuration that is used without ``--config-name``.
        of_runs: the configurations are those of training runs, whose names the shell completes.

    Returns:
        The parser, for :func:`read_request`.
    """
    parser = Parser(prog=prog, description=description)
    name = parser.add_argument(
        "--config-name", "-cn", default=default_name, metavar="NAME", help=f"default: {default_name}"
    )
    if of_runs:
        name.completer = _config_names  # type: ignore[attr-defined]
    parser.add_argument(
        *("--config-path", "-cp", "--config-dir", "-cd"), metavar="DIR", help="folder with your own configurations"
    )
    parser.add_argument(
        "--cfg", "-c", choices=_PRINTED, metavar="job", help="print the composed configuration, every ${...} resolved"
    )
    parser.add_argument("--resolve", action="store_true", help=argparse.SUPPRESS)  # --cfg always does
    for flags, instead in _ELSEWHERE.items():
        parser.add_argument(*flags, action=_Elsewhere, nargs="?", const=instead, help=argparse.SUPPRESS)
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="Hydra overrides")
    return parser


def read_request(parser: Parser, arguments: Sequence[str]) -> Request:
    """Read a command line.

    Args:
        parser: parser made by :func:`hydra_parser`.
        arguments: arguments after the sub-command; a bare ``--cfg`` means ``--cfg job``.

    Returns:
        The request.

    Raises:
        UserError: an option is unknown, or is one of Hydra's that is not supported.
    """
    words: list[str] = []
    for word, following in zip_longest(arguments, arguments[1:]):
        words += [word, "job"] if word in ("--cfg", "-c") and following not in _PRINTED else [word]
    parsed = parser.parse_intermixed_args(words)
    if parsed.cfg not in (None, "job"):
        raise UserError(f"--cfg {parsed.cfg}: Hydra's own settings have no effect here; use --cfg job")
    return Request(
        parsed.config_name,
        parsed.overrides,
        parsed.config_path,
        text_only=parsed.cfg is not None,
        check=getattr(parsed, "check", False),
        claim=getattr(parsed, "claim", False),
    )


class _Elsewhere(argparse.Action):
    """Action of an unsupported flag of Hydra: raise an error that names the replacement."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> NoReturn:
        """Raise the error.

        Raises:
            UserError: always.
        """
        raise UserError(f"{option_string} is not supported by radial-vicreg: {self.const}")


def _config_names(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Complete ``--config-name``, in the form that argcomplete expects."""
    return [found.name for found in configurations(parsed_args.config_path)]
