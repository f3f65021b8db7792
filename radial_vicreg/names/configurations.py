"""What can be given by name: the configurations and sweeps of the package, and those of a folder of one's own."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

CONFIGURATIONS = Path(__file__).parents[1] / "yaml"
SWEEPS = CONFIGURATIONS / "sweeps"

_PARTS = ("shared", "sweeps")  # groups of configurations, and lists of runs
_DIRECTIVE = re.compile(r"#\s*(@package|yaml-language-server:|-\*-)")
_COMMAND = re.compile(r"#\s{2,}")  # indented: a line to copy
_SENTENCE = re.compile(r"(.+?)\.(?=\s|$)")
_MOST_FILES = 1000


class Configuration(NamedTuple):
    """A configuration that ``--config-name`` takes.

    Attributes:
        name: without ``.yaml``, with its folder.
        about: the first sentence of its first comment; empty without one.
    """

    name: str
    about: str


def configurations(own: str | Path | None = None) -> list[Configuration]:
    """List every configuration by name.

    Args:
        own: folder of ``--config-path``, whose files hide the package's of the same name.

    Returns:
        Those of the folder, then the package's.
    """
    found = {} if own is None else dict(_files(Path(own)))
    for name, file in _files(CONFIGURATIONS):
        if name.partition("/")[0] not in _PARTS:
            found.setdefault(name, file)
    return [Configuration(name, about(file)) for name, file in found.items()]


def names_in(folder: str | Path) -> list[str]:
    """List the configurations of a folder alone by name."""
    return [name for name, _ in _files(Path(folder))]


def sweep_names() -> list[str]:
    """List the package's sweeps by name."""
    return names_in(SWEEPS)


def about(file: Path) -> str:
    """Read the first sentence of a YAML file's first comment.

    Lines for programs (``# @package``) are passed over, and so are lines to copy, which are indented.

    Args:
        file: to read.

    Returns:
        One line without its full stop; empty without a comment.
    """
    words: list[str] = []
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        if not line.startswith("#"):
            if words or line.strip():
                break
        elif _COMMAND.match(line):
            break
        elif not _DIRECTIVE.match(line):
            words.append(line.lstrip("#").strip())
    text = " ".join(words)
    sentence = _SENTENCE.match(text)
    return sentence[1] if sentence else text


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """List the YAML files below a folder by name; hidden folders, and what lies deep in somebody's home, are left."""
    seen = 0
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.endswith(".yaml"):
                path = Path(place) / name
                yield path.relative_to(folder).with_suffix("").as_posix(), path
        seen += len(names)
        if seen > _MOST_FILES:
            return
