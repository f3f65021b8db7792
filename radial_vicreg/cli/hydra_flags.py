"""Hydra's flags and overrides; a flag that is not supported raises an error that names its replacement."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from radial_vicreg.cli.parser import Parser
from radial_vicreg.errors import UserError
from radial_vicreg.io.secrets import is_secret
from radial_vicreg.names.configurations import configurations
from radial_vicreg.names.hints import nearest

Setting = Callable[[str], "str | None"]
"""Returns the setting that a name stands for, or None."""

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
        all_images: with ``check``, open every image, not a sample.
    """

    config_name: str
    overrides: list[str]
    config_path: str | None
    text_only: bool
    check: bool
    claim: bool = False
    all_images: bool = False

    @property
    def where(self) -> tuple[str, list[str], str | None]:
        """Arguments of :func:`radial_vicreg.compose.compose`."""
        return self[:3]


def hydra_parser(prog: str, description: str, default_name: str, example: str, of_runs: bool = True) -> Parser:
    """Make a parser of ``--config-name``, ``--config-path``, ``--cfg`` and overrides.

    Args:
        prog: program name in the usage text.
        description: description in the help text.
        default_name: configuration that is used without ``--config-name``.
        example: example in the help text.
        of_runs: the configurations are those of training runs, whose names the shell completes.

    Returns:
        The parser, for :func:`read_request`.
    """
    parser = Parser(prog=prog, description=description, example=example)
    listed = "; `radial-vicreg configs` lists them" if of_runs else ""
    name = parser.add_argument(
        "--config-name", "-cn", default=default_name, metavar="NAME", help=f"default: {default_name}{listed}"
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


def read_request(parser: Parser, arguments: Sequence[str], setting: Setting | None = None) -> Request:
    """Read a command line.

    Args:
        parser: parser made by :func:`hydra_parser`.
        arguments: arguments after the sub-command; a bare ``--cfg`` means ``--cfg job``.
        setting: see :func:`parse_overrides`; default: the settings of a run.

    Returns:
        The request.

    Raises:
        UserError: an option is unknown, or is one of Hydra's that is not supported; an override has another form than
            ``key=value``.
    """
    words: list[str] = []
    for word, following in zip_longest(arguments, arguments[1:]):
        words += [word, "job"] if word in ("--cfg", "-c") and following not in _PRINTED else [word]
    parsed = parse_overrides(parser, words, setting, names_configurations=setting is None)
    if parsed.cfg not in (None, "job"):
        raise UserError(f"--cfg {parsed.cfg}: Hydra's own settings have no effect here; use --cfg job")
    return Request(
        parsed.config_name,
        parsed.overrides,
        parsed.config_path,
        text_only=parsed.cfg is not None,
        check=getattr(parsed, "check", False),
        claim=getattr(parsed, "claim", False),
        all_images=getattr(parsed, "all_images", False),
    )


def parse_overrides(
    parser: Parser, words: Sequence[str], setting: Setting | None = None, names_configurations: bool = False
) -> argparse.Namespace:
    """Parse options and overrides, and answer an override in another form with the form that works.

    Args:
        parser: a parser with the positional argument ``overrides``.
        words: the command line.
        setting: returns the setting that a name stands for, or None; default: a setting of a run.
        names_configurations: a word may be meant as a value of ``--config-name``.

    Returns:
        The parsed arguments; every override is ``key=value`` or ``~key``.

    Raises:
        UserError: an option is unknown, such as ``--max_epochs 3``, or an override is none, such as ``quickstart``.
    """
    parsed, unknown = parser.parse_known_intermixed_args(list(words))
    setting = setting or _run_setting
    if unknown:
        raise _unknown_option(parser, unknown[0], words, setting)
    for override in parsed.overrides:
        if "=" not in override and not override.startswith("~"):
            own = parsed.config_path if names_configurations else None
            form = _as_override(override, words, setting) or (names_configurations and _as_name(override, own))
            raise UserError(f"{override} is not an override (key=value); {form or f'see {parser.prog} --help'}")
    return parsed


def _unknown_option(parser: Parser, option: str, words: Sequence[str], setting: Setting) -> UserError:
    flag, sign, value = option.partition("=")
    key = setting(flag.lstrip("-").replace("-", "_"))
    if key is not None:
        form = f"{key}={value}" if sign and not is_secret(flag) else _with_next(key, option, words)
        return UserError(f"{flag} is not an option; settings are overrides: write {form}")
    if (near := nearest(flag, parser.flags())) is not None:
        return UserError(f"{flag} is not an option; did you mean {near}?")
    return UserError(f"unrecognized arguments: {flag}; see {parser.prog} --help")


def _as_override(word: str, words: Sequence[str], setting: Setting) -> str | None:
    """Join a name and the value after it; None for a word that is not exactly a setting."""
    return f"write {_with_next(word, word, words)}" if setting(word) == word else None


def _with_next(key: str, word: str, words: Sequence[str]) -> str:
    """Write ``key=value`` with the word after another one, unless that is an option, an override or a secret."""
    following = next(iter(words[words.index(word) + 1 :]), "")
    is_value = following and "=" not in following and not following.startswith("--") and not is_secret(word)
    return f"{key}={following if is_value else 'VALUE'}"


def _as_name(word: str, own: str | None) -> str | None:
    """Write the ``--config-name`` that a word stands for; None if it resembles no configuration."""
    path = Path(word)
    known = [found.name for found in configurations(own)]
    if path.suffix == ".yaml" and word.removesuffix(".yaml") not in known:
        return f"write --config-path {shlex.quote(str(path.parent))} --config-name {shlex.quote(path.stem)}"
    near = nearest(word.removesuffix(".yaml"), known)
    if near is None:
        return None
    return f"write --config-name {near}" if near == word else f"did you mean --config-name {near}?"


def _run_setting(name: str) -> str | None:
    from radial_vicreg.config.reading import setting_meant  # pydantic, which --help does not need

    return setting_meant(name)


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
