"""Find the command line that was meant by one whose first word is not a command."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from radial_vicreg.errors import UserError
from radial_vicreg.names.choices import SYNTHETIC_FIGURES
from radial_vicreg.names.hints import meant
from radial_vicreg.names.probes import PROBES

_ELSEWHERE = {
    "version": "--version",
    "train": "pretrain",
    "check": "pretrain --check",
    "list": "runs",
    "eval": "probe",
    "evaluate": "probe",
    **{name: f"probe --probe {name}" for name in PROBES},
    "download": "data",
    "schema": "config-schema",
}
"""Words of other programs, each with the beginning of the command line here."""

_NUMBERED = ("figure", "table")  # of the paper


def unknown_command(word: str, rest: Sequence[str], commands: Iterable[str]) -> UserError:
    """Make the error for a word that is not a command.

    Args:
        word: the first word of the command line.
        rest: the words after it, which the suggestion repeats.
        commands: names of the commands.

    Returns:
        The error; it names the command line that was meant, or lists the commands.
    """
    names = sorted(commands)
    form = _numbered(word, rest) or _same_rest(_beginning(word, names), rest)
    if form is None:
        return UserError(f"{word!r} is not a command; the commands are {', '.join(names)}")
    return UserError(f"{word!r} is not a command; did you mean `radial-vicreg {form}`?")


def _beginning(word: str, names: Sequence[str]) -> str | None:
    if word in _ELSEWHERE:
        return _ELSEWHERE[word]
    from radial_vicreg.data.sets import prepared_sets
    from radial_vicreg.names.configurations import configurations, sweep_names

    if word in {found.name for found in configurations()}:
        return f"pretrain --config-name {word}"
    if word in sweep_names():
        return f"sweep {word}"
    if word in prepared_sets():
        return f"data {word}"
    return meant(word, names)


def _same_rest(beginning: str | None, rest: Sequence[str]) -> str | None:
    return None if beginning is None else " ".join([beginning, shlex.join(rest)]).rstrip()


def _numbered(word: str, rest: Sequence[str]) -> str | None:
    """Answer ``figure 1`` and ``table 2``: some figures are of synthetic runs, all others are in the report."""
    if word.removesuffix("s") not in _NUMBERED:
        return None
    number, others = (rest[0], rest[1:]) if rest and rest[0].isdecimal() else ("", rest)
    if word == _NUMBERED[0] and (number or SYNTHETIC_FIGURES[0]) in SYNTHETIC_FIGURES:
        return _same_rest(f"synthetic figure {number}".rstrip(), others)
    return _same_rest("report", others or ["RUNS_DIR"])
