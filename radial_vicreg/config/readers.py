"""Refuse keys that a command would ignore because only another one reads them, unless at their defaults."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import BaseModel

from radial_vicreg.config.fields import Key, leaves
from radial_vicreg.config.schema import RunConfig
from radial_vicreg.errors import UserError


def refuse_unread(config: RunConfig, command: Literal["pretrain", "script"]) -> None:
    """Refuse settings that a command would ignore.

    Args:
        config: of the command.
        command: ``"pretrain"``, ``radial-vicreg pretrain``; ``"script"``, solo-learn's ``main_pretrain.py``.

    Raises:
        UserError: a key that only the other command reads is not at its default.
    """
    for key in leaves():
        if key.read_by is None or key.read_by.who in ("all", command):
            continue
        ignored = (key.field.get_default(), *key.read_by.alike)
        for name, value in _values(config, key.name):
            if value not in ignored:
                raise UserError(_refusal(key, name, value))


def _refusal(key: Key, name: str, value: Any) -> str:
    assert key.read_by is not None
    default = key.field.get_default()
    if key.read_by.who == "script":
        return (
            f"{name}={_yaml(value)} is read by solo-learn's main_pretrain.py only: {key.read_by.instead}; omit "
            f"it, or set it to {_yaml(default)}"
        )
    return (
        f"{name}={value} is read by `radial-vicreg pretrain` only, and solo-learn's script would ignore it: use "
        f"that command, or set {name}={_yaml(None if None in key.read_by.alike else default)}"
    )


def _values(section: BaseModel, key: str, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """List the values of a key: one, or one per section of a list; none if its section is null."""
    name, _, rest = key.partition(".")
    found = getattr(section, name)
    if not rest:
        yield f"{prefix}{name}", found
    elif isinstance(found, tuple):
        for index, inner in enumerate(found):
            yield from _values(inner, rest, f"{prefix}{name}.{index}.")
    elif found is not None:
        yield from _values(found, rest, f"{prefix}{name}.")


def _yaml(value: object) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
