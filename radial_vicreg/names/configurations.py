"""Configurations and sweeps that have a name: those of the package, and those of the user's folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

CONFIGURATIONS = Path(__file__).parents[1] / "yaml"
SWEEPS = CONFIGURATIONS / "radialvicreg" / "sweeps"

_PREFIX = "radialvicreg/"  # of our groups on Hydra's search path, which other packages share
# Folders below the prefix from which no run starts: parts of configurations, and lists of runs.
_PARTS = ("augmentation", "backbone", "base", "dataset", "method", "optimizer", "setting", "sweeps")
_OLD_GROUP = re.compile(r"shared/(augmentation|backbone|dataset|method|optimizer|setting)|study|study/full|study2")
_DIRECTIVE = re.compile(r"#\s*(@package|yaml-language-server:|-\*-)")
_COMMAND = re.compile(r"#\s{2,}")  # indented: a line to copy
_SENTENCE = re.compile(r"(.+?)\.(?=\s|$)")
_MOST_FILES = 1000


class Configuration(NamedTuple):
    """A configuration that ``--config-name`` takes.

    Attributes:
        name: name with its folder, without ``.yaml`` and ``radialvicreg/`` (see :func:`full_name`).
        about: the first sentence of the file's first comment; empty without one.
    """

    name: str
    about: str


def configurations(own: str | Path | None = None) -> list[Configuration]:
    """List every configuration by name.

    Args:
        own: folder of ``--config-path``, whose files hide the package's of the same name.

    Returns:
        The configurations of the folder, then those of the package.
    """
    found = {} if own is None else dict(_files(Path(own)))
    for name, file in _files(CONFIGURATIONS):
        if name.removeprefix(_PREFIX).partition("/")[0] not in _PARTS:
            found.setdefault(name.removeprefix(_PREFIX), file)
    return [Configuration(name, about(file)) for name, file in found.items()]


def full_name(name: str, own: str | Path | None = None) -> str:
    """Return Hydra's name for a value of ``--config-name``: ``radialvicreg/quickstart`` for ``quickstart``.

    Args:
        name: as given; ``radialvicreg/`` may be omitted.
        own: folder of ``--config-path``, whose files come first.

    Returns:
        The name with ``radialvicreg/`` if only that file exists; otherwise the name as given.
    """
    file = f"{name.removesuffix('.yaml')}.yaml"
    folders = [CONFIGURATIONS] if own is None else [Path(own), CONFIGURATIONS]
    if any((folder / file).is_file() for folder in folders) or not (CONFIGURATIONS / _PREFIX / file).is_file():
        return name
    return _PREFIX + name


def groups() -> list[str]:
    """List the package's groups below ``radialvicreg/``, by the names that Hydra knows."""
    found = {name.rpartition("/")[0] for name, _ in _files(CONFIGURATIONS / _PREFIX)}
    return [_PREFIX + name for name in sorted(found - {""}) if name.partition("/")[0] != SWEEPS.name]


def choices_of(group: str, own: str | Path | None = None) -> list[str]:
    """List the choices of a group, at any depth.

    Args:
        group: name, such as ``radialvicreg/optimizer`` or ``cifar100``.
        own: folder of ``--config-path``, which may have choices as well.
    """
    folders = [CONFIGURATIONS / group] if own is None else [Path(own) / group, CONFIGURATIONS / group]
    return sorted({name for folder in folders for name, _ in _files(folder)})


def new_group(group: str, own: str | Path | None = None) -> str | None:
    """Return the current name of a group that had another one until release 0.2.

    Args:
        group: ``shared/optimizer``, ``study``, ...
        own: folder of ``--config-path``, which may have a group of that name.

    Returns:
        ``radialvicreg/optimizer``, ``radialvicreg/study``, ...; None for any other group.
    """
    if not _OLD_GROUP.fullmatch(group) or (own is not None and (Path(own) / group).is_dir()):
        return None
    return _PREFIX + group.removeprefix("shared/")


def new_name(name: str) -> str | None:
    """Return the current name of a configuration that had another one until release 0.2.

    Args:
        name: in a defaults list: ``shared/base``, ``quickstart``, ``study/vicreg``, ...

    Returns:
        ``radialvicreg/base``, ``radialvicreg/quickstart``, ...; None where there is no such file.
    """
    found = _PREFIX + name.removeprefix("/").removeprefix("shared/").removesuffix(".yaml")
    return found if (CONFIGURATIONS / f"{found}.yaml").is_file() else None


def names_in(folder: str | Path) -> list[str]:
    """List the configurations of a folder alone by name."""
    return [name for name, _ in _files(Path(folder))]


def sweep_names() -> list[str]:
    """List the package's sweeps by name."""
    return names_in(SWEEPS)


def about(file: Path) -> str:
    """Read the first sentence of a YAML file's first comment.

    Directives (``# @package``) and indented lines, which are commands to copy, are skipped.

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
    """List the YAML files below a folder by name; skip hidden folders, and stop after many files (in a home, say)."""
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
