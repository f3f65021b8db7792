"""Which top-level keys of a configuration its own ``${...}`` read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_NODE = re.compile(r"\$\{\s*(?P<dots>\.*)\[?(?P<name>[^\s.:,\[\]{}$'\"]*)(?P<next>[:$]?)")
_RESOLVER = re.compile(r"\$\{\s*[\w.]+:(?P<arguments>[^{}]*)")
_ARGUMENT = re.compile(r"(?<![\w.])(?P<dots>\.*)(?P<name>[\w-]+)")


def keys_read(content: Mapping[str, Any]) -> set[str]:
    """List the top-level keys that a ``${...}`` elsewhere in a configuration reads.

    ``${key.inner}``, ``${oc.select:key}`` and a relative ``${..key}`` read ``key``. Where a name is made of another
    value (``${rates_${size}}``), every key may be read.

    Args:
        content: plain containers, not resolved.

    Returns:
        Names; a key that only its own values refer to is not among them.
    """
    found: set[str] = set()
    for path, text in _texts(content, ()):
        names = {_top(path, dots, name) for dots, name in _references(text)}
        if None in names:
            return set(content)
        found |= {name for name in names if name is not None and name != path[0]}
    return found


def _references(text: str) -> Iterator[tuple[str, str]]:
    """List the nodes that a text refers to, as leading dots and first name; a name that is not known is empty."""
    for match in _NODE.finditer(text):
        if match["next"] != ":":
            yield match["dots"], "" if match["next"] == "$" else match["name"]
    for resolver in _RESOLVER.finditer(text):
        for match in _ARGUMENT.finditer(resolver["arguments"]):
            yield match["dots"], match["name"]


def _top(path: tuple[str, ...], dots: str, name: str) -> str | None:
    """Find the top-level key of a reference in the value at ``path``; None where the name is not known."""
    section = path[: -len(dots)] if dots else ()
    return section[0] if section else name or None


def _texts(node: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(node, str):
        if "${" in node:
            yield path, node
    elif isinstance(node, (Mapping, list, tuple)):
        for key, value in node.items() if isinstance(node, Mapping) else enumerate(node):
            yield from _texts(value, (*path, str(key)))
