"""Check configurations before they are expanded: repeated references can turn a few lines into gigabytes."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from radial_vicreg.compose.references import Keys, references, texts
from radial_vicreg.errors import UserError

yaml: Any = importlib.import_module("yaml")  # a folder of the checkout has this name: mypy takes it for the module

_MOST_NODES = 100_000
"""Values that a file may hold once its anchors are expanded; the largest of this package's holds about a hundred."""

_MOST_FILES = 10_000
_TEXT = 1000  # characters that count as one value


def check_anchors(folder: str | Path) -> None:
    """Refuse a folder with a configuration whose anchors expand too far, without expanding them.

    Args:
        folder: of ``--config-path``.

    Raises:
        UserError: a file would hold more than ``_MOST_NODES`` values, or an anchor that contains itself.
    """
    for path in _configurations(folder):
        _check_anchors_of(path)


def _check_anchors_of(path: Path) -> None:
    """Refuse one file in the same way as :func:`check_anchors`.

    Args:
        path: of a YAML file; other errors in it are left to its reader.

    Raises:
        UserError: as :func:`check_anchors`.
    """
    try:
        text = path.read_bytes()
        if b"&" not in text or b"*" not in text:
            return
        size = _expanded_size(yaml.compose(text, Loader=yaml.SafeLoader))
    except (OSError, yaml.YAMLError, ValueError, RecursionError):
        return
    if size is None or size > _MOST_NODES:
        what = "an anchor that contains itself" if size is None else f"more than {_MOST_NODES:,} values"
        raise UserError(
            f"{path} holds {what} once its anchors (&name, *name) are expanded: write the values out, or refer to"
            " them with ${key}"
        )


def read_yaml(path: Path) -> Any:
    """Read a YAML file without resolving its ``${...}``.

    Args:
        path: of the file.

    Returns:
        Plain containers.

    Raises:
        UserError: it cannot be read, or as :func:`check_anchors`.
    """
    _check_anchors_of(path)
    try:
        return OmegaConf.to_container(OmegaConf.load(path), resolve=False)
    except Exception as error:  # PyYAML's errors share no base with OmegaConf's
        raise UserError(f"{path} cannot be read as YAML: {error}") from error


def yaml_text(content: Any) -> str:
    """Write plain containers as YAML."""
    return OmegaConf.to_yaml(OmegaConf.create(content))


def children(node: Any) -> list[tuple[str, Any]]:
    """List the keys and values of a dictionary, or the indices and entries of a list; none of anything else."""
    if isinstance(node, dict):
        return [(str(key), child) for key, child in node.items()]
    return [(str(index), child) for index, child in enumerate(node)] if isinstance(node, list) else []


def check_references(content: Any) -> None:
    """Refuse a configuration whose ``${key}`` expand to more than ``_MOST_NODES`` values, without resolving them.

    Args:
        content: plain containers, not resolved.

    Raises:
        UserError: such a value; its key is named.
    """
    sizes: dict[Keys, int] = {}

    def size(place: Keys, node: Any) -> int:
        if place not in sizes:
            sizes[place] = 1  # until it is counted: OmegaConf itself refuses a cycle
            if isinstance(node, str):
                led_to = [(path, at(path)) for path in (found.absolute(place) for found in references(node))]
                sizes[place] = 1 + len(node) // _TEXT + sum(size(path, other) for path, other in led_to)
            else:
                sizes[place] = 1 + sum(size((*place, key), child) for key, child in children(node))
        return sizes[place]

    def at(path: Keys) -> Any:
        node = content
        for key in path:
            node = dict(children(node)).get(key)
        return node

    try:
        worst = max(((size(place, text), place) for place, text in texts(content)), default=(0, ()))
    except RecursionError:
        return  # OmegaConf raises its own error when everything is resolved
    if worst[0] > _MOST_NODES:
        name = ".".join(worst[1])
        raise UserError(f"{name} refers to more than {_MOST_NODES:,} values by way of ${{key}}: write the values out")


def _configurations(folder: str | Path) -> Iterator[Path]:
    seen = 0
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.endswith((".yaml", ".yml")) and (path := Path(place) / name).is_file():
                yield path
        seen += len(names)
        if seen > _MOST_FILES:
            return  # a home or a data folder: files far below are not configurations


def _expanded_size(root: Any) -> int | None:
    """Count values with every alias expanded; None for a value that contains itself."""
    sizes: dict[int, int | None] = {}  # None: being counted

    def size(node: Any) -> int:
        if id(node) in sizes:
            known = sizes[id(node)]
            if known is None:
                raise _ContainsItselfError
            return known
        sizes[id(node)] = None
        children: list[Any] = []
        if isinstance(node, yaml.MappingNode):
            children = [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            children = node.value
        sizes[id(node)] = total = 1 + sum(map(size, children))
        return total

    try:
        return 0 if root is None else size(root)
    except _ContainsItselfError:
        return None


class _ContainsItselfError(Exception):
    """An anchor's value refers to the anchor."""
