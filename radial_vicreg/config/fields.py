"""Keys of a configuration with the declarations of their fields."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from radial_vicreg.config.schema import RunConfig
from radial_vicreg.config.types import Choices, WhoReads, declared
from radial_vicreg.config.words import field_of, inner_model


class Key(NamedTuple):
    """A key of a configuration that is not a section.

    Attributes:
        name: dotted name; ``augmentations.crop_size`` stands for that key of every pipeline.
        field: its declaration.
        read_by: its readers, according to its own declaration or that of the nearest section; None without one.
    """

    name: str
    field: FieldInfo
    read_by: WhoReads | None


def leaves(model: type[BaseModel] = RunConfig, prefix: str = "", read_by: WhoReads | None = None) -> Iterator[Key]:
    """List the keys of a section and of those within it.

    Args:
        model: the section.
        prefix: prefix of their names, with a trailing dot.
        read_by: declaration of the section.
    """
    for name, field in model.model_fields.items():
        readers = declared(field, WhoReads) or read_by
        inner = inner_model(field.annotation)
        if inner is not None and inner.model_fields:
            yield from leaves(inner, f"{prefix}{name}.", readers)
        else:
            yield Key(f"{prefix}{name}", field, readers)


def choices(key: str) -> tuple[str, ...]:
    """List the values that a key may have, except null.

    Args:
        key: such as ``data.on_bad_image``; its type is a ``Literal``, or its field declares ``Choices``.

    Raises:
        KeyError: there is no such key, or it has no choices.
    """
    field = field_of(key, RunConfig)
    if (known := declared(field, Choices)) is not None:
        return tuple(known.names)
    kinds = get_args(field.annotation) if get_origin(field.annotation) in _UNIONS else (field.annotation,)
    found = tuple(str(name) for kind in kinds if get_origin(kind) is Literal for name in get_args(kind))
    if not found:
        raise KeyError(key)
    return found


def undeclared(model: type[BaseModel] = RunConfig) -> list[str]:
    """List missing declarations of keys, one line each; a test requires an empty list."""
    found: list[str] = []
    for key in leaves(model):
        if not key.field.description:
            found.append(f"{key.name} has no description: add description=... to its field")
        if key.read_by is None:
            found.append(f"{key.name} has no reader: add ALL, PRETRAIN or WhoReads('script', instead=...) to its field")
        elif key.read_by.who == "script" and not key.read_by.instead:
            found.append(f"{key.name} is read by the script only: add instead=..., what to do without it")
        elif key.read_by.who != "all" and key.field.is_required():
            found.append(
                f"{key.name} is not read by all hosts and has no default: add a default, at which the others ignore it"
            )
    return found


_UNIONS = (Union, types.UnionType)
