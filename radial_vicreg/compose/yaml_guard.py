"""A look at configurations before they are expanded: repeated references can make gigabytes of a few lines."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from radial_vicreg.errors import UserError

yaml: Any = importlib.import_module("yaml")  # a folder of the checkout has this name: mypy takes it for the module

MOST_NODES = 100_000
"""Values that a file may hold once its anchors are expanded; the largest of this package's holds about a hundred."""

_MOST_FILES = 10_000
_REFERENCE = re.compile(r"\$\{([\w.]+)\}")


def check_anchors(folder: str | Path) -> None:
    """Refuse a folder of configurations that holds a file which anchors blow up, without expanding them.

    Args:
        folder: of ``--config-path``.

    Raises:
        UserError: a file would hold more than ``MOST_NODES`` values, or an anchor that contains itself.
    """
    for path in _configurations(folder):
        check_anchors_of(path)


def check_anchors_of(path: Path) -> None:
    """Refuse one file, as :func:`check_anchors`.

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
    if size is None or size > MOST_NODES:
        what = "an anchor that contains itself" if size is None else f"more than {MOST_NODES:,} values"
        raise UserError(
            f"{path} holds {what} once its anchors (&name, *name) are expanded: write the values out, or refer to"
            " them with ${key}"
        )


def read_yaml(path: Path) -> Any:
    """Read a YAML file whose ``${...}`` stay as they are.

    Args:
        path: of the file.

    Returns:
        Plain containers.

    Raises:
        UserError: it cannot be read, or as :func:`check_anchors`.
    """
    check_anchors_of(path)
    try:
        return OmegaConf.to_container(OmegaConf.load(path), resolve=False)
    except Exception as error:  # PyYAML's errors share no base with OmegaConf's
        raise UserError(f"{path} cannot be read as YAML: {error}") from error


def yaml_text(content: Any) -> str:
    """Write plain containers as YAML."""
    return OmegaConf.to_yaml(OmegaConf.create(content))


def check_references(cfg: DictConfig) -> None:
    """Refuse a configuration whose ``${key}`` lead to more than ``MOST_NODES`` others, without resolving them.

    Args:
        cfg: composed, not resolved.

    Raises:
        UserError: such a value; its key is named.
    """
    leaves = dict(_leaves(OmegaConf.to_container(cfg, resolve=False), ""))
    counts: dict[str, int] = {}

    def count(key: str) -> int:
        if key not in counts:
            counts[key] = 1  # while it is counted: OmegaConf refuses a circle itself
            counts[key] = 1 + sum(count(name) for name in _REFERENCE.findall(leaves.get(key, "")))
        return counts[key]

    try:
        worst = max(leaves, key=count, default="")
    except RecursionError:
        return  # OmegaConf's own error comes when everything is resolved
    if counts.get(worst, 0) > MOST_NODES:
        raise UserError(f"{worst} refers to more than {MOST_NODES:,} values by way of ${{key}}: write the values out")


def _leaves(node: Any, prefix: str) -> Iterator[tuple[str, str]]:
    """List the dotted keys of the texts in a configuration."""
    if isinstance(node, str):
        yield prefix, node
    elif isinstance(node, (dict, list)):
        for key, child in node.items() if isinstance(node, dict) else enumerate(node):
            yield from _leaves(child, f"{prefix}.{key}" if prefix else str(key))


def _configurations(folder: str | Path) -> Iterator[Path]:
    seen = 0
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.endswith((".yaml", ".yml")) and (path := Path(place) / name).is_file():
                yield path
        seen += len(names)
        if seen > _MOST_FILES:
            return  # somebody's home or data: files far below are not configurations


def _expanded_size(root: Any) -> int | None:
    """Count values, every alias as what it stands for; None for a value that contains itself."""
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
