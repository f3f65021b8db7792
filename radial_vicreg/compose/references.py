"""Find the keys that the ``${...}`` of a configuration refer to, without resolving any."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_NODE = re.compile(r"\$\{\s*(?P<dots>\.*)(?P<name>[^\s:,{}$'\"]*)(?P<next>[:$]?)")
_RESOLVER = re.compile(r"\$\{\s*[\w.]+:(?P<arguments>[^{}]*)")
_ARGUMENT = re.compile(r"(?<![\w.\[\]])(?P<dots>\.*)(?P<name>[\w-][\w.\[\]-]*)")
_PLAIN = re.compile(r"\$\{\.*[\w-]+(\.[\w-]+)*\}")
_SEPARATORS = re.compile(r"[.\[\]]+")

Keys = tuple[str, ...]


class Reference(NamedTuple):
    """A node that a text refers to.

    Attributes:
        dots: number of dots before its name; in a relative reference, the first stands for the section of the text.
        path: its keys.
        is_known: False where another value is a part of the name (``${rates_${size}}``).
    """

    dots: int
    path: Keys
    is_known: bool

    def absolute(self, place: Keys) -> Keys:
        """Return its keys from the top, for a text at ``place``."""
        return (*(place[: -self.dots] if self.dots else ()), *self.path)


def references(text: str) -> Iterator[Reference]:
    """List what a text refers to; every argument of a resolver may be a key."""
    for match in _NODE.finditer(text):
        if match["next"] != ":":
            yield _reference(match, match["next"] != "$")
    for resolver in _RESOLVER.finditer(text):
        yield from (_reference(match) for match in _ARGUMENT.finditer(resolver["arguments"]))


def is_plain(text: str) -> bool:
    """Return whether every ``${...}`` of a text names a key, without resolvers and names made of other values."""
    return "${" not in _PLAIN.sub("", text)


def keys_read(content: Mapping[str, Any]) -> set[str]:
    """List the top-level keys that a ``${...}`` elsewhere in a configuration reads.

    Args:
        content: plain containers, not resolved.

    Returns:
        Names, without keys that only their own values refer to; all keys if a name is made of another value.
    """
    found: set[str] = set()
    for place, text in texts(content):
        for reference in references(text):
            if not reference.is_known:
                return set(content)
            found |= {key for key in reference.absolute(place)[:1] if key != place[0]}
    return found


def texts(node: Any, place: Keys = ()) -> Iterator[tuple[Keys, str]]:
    """List the texts of plain containers that hold a ``${...}``, each with its keys from the top."""
    if isinstance(node, str):
        if "${" in node:
            yield place, node
    elif isinstance(node, (Mapping, list, tuple)):
        for key, value in node.items() if isinstance(node, Mapping) else enumerate(node):
            yield from texts(value, (*place, str(key)))


def _reference(match: re.Match[str], is_known: bool = True) -> Reference:
    path = tuple(part for part in _SEPARATORS.split(match["name"]) if part)
    return Reference(len(match["dots"]), path, is_known)
