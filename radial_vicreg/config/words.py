"""Descriptions of the allowed values of keys, for errors and for the tables of the documentation."""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Annotated, Any, Literal, TypeGuard, Union, get_args, get_origin

import annotated_types
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from radial_vicreg.config.types import LARGEST_COUNT, Choices, Expects

A_SECTION = "a section with keys"


def expected(field: FieldInfo) -> str:
    """Describe the values that a field allows.

    Args:
        field: of a section.

    Returns:
        Words that follow "must be": ``a whole number, 1 or more, or null``.
    """
    return _words(field.annotation, list(field.metadata))


def field_of(key: str, model: type[BaseModel]) -> FieldInfo:
    """Find the field of a dotted key.

    Args:
        key: such as ``optimizer.lr``.
        model: section to search.

    Raises:
        KeyError: there is none.
    """
    name, _, rest = key.partition(".")
    field = model.model_fields[name]
    if not rest:
        return field
    if (inner := inner_model(field.annotation)) is None:
        raise KeyError(key)
    return field_of(rest, inner)


def inner_model(annotation: Any) -> type[BaseModel] | None:
    """Return the section that a field holds: directly, as an alternative to null, or in a list."""
    for kind in _alternatives(annotation):
        bare, _ = _bare(kind)
        if _is_section(bare):
            return bare
        if get_origin(bare) is tuple and (found := inner_model(get_args(bare)[0])) is not None:
            return found
    return None


def _words(annotation: Any, constraints: list[Any]) -> str:
    annotation, inner = _bare(annotation)
    constraints = [*constraints, *inner]
    kinds = _alternatives(annotation)
    null = ", or null" if type(None) in kinds else ""
    # If other names are possible, describe the type instead.
    known = next(
        (
            constraint.names
            for constraint in constraints
            if isinstance(constraint, Choices) and constraint.pattern is None
        ),
        (),
    )
    told = (
        _one_of(known)
        if known
        else next((constraint.words for constraint in constraints if isinstance(constraint, Expects)), None)
    )
    if told is None:
        # The alternative that is not null determines the range.
        for kind in sorted(kinds, key=lambda kind: kind is int):  # "int | float" is described as a number
            bare, more = _bare(kind)
            told = next((constraint.words for constraint in more if isinstance(constraint, Expects)), None)
            if told is not None or bare is not type(None):
                told = told or _kind(bare, [*constraints, *more])
                break
    return f"{told}{null}"


def _kind(kind: Any, constraints: list[Any]) -> str:
    if get_origin(kind) is Literal:
        return _one_of(get_args(kind))
    if get_origin(kind) is tuple:
        item = get_args(kind)[0]
        name = (
            "a list of one or more"
            if any(isinstance(constraint, annotated_types.MinLen) for constraint in constraints)
            else "a list"
        )
        return f"{name} of sections" if inner_model(item) is not None else f"{name}, each {_words(item, [])}"
    if _is_section(kind):
        return A_SECTION
    return {bool: "true or false", str: "a text"}.get(kind) or _number(kind is int, constraints)


def _one_of(names: Iterable[object]) -> str:
    return f"one of {', '.join(map(str, names))}"


def _number(whole: bool, constraints: list[Any]) -> str:
    low = high = above = below = None
    for constraint in constraints:
        low = constraint.ge if isinstance(constraint, annotated_types.Ge) else low
        above = constraint.gt if isinstance(constraint, annotated_types.Gt) else above
        high = constraint.le if isinstance(constraint, annotated_types.Le) else high
        below = constraint.lt if isinstance(constraint, annotated_types.Lt) else below
    high = None if high == LARGEST_COUNT else high
    name = "a whole number" if whole else "a finite number"
    if whole and below is not None:
        high = below - 1  # type: ignore[operator]
    start = f"above {above:g}" if above is not None else "" if low is None else f"{low:g}"
    if high is not None:
        return f"{name}, {start} to {high:,}" if whole else f"{name}, {start} to {high:g}"
    return f"{name}, {start}{' or more' if above is None else ''}" if start else name


def _is_section(kind: Any) -> TypeGuard[type[BaseModel]]:
    # In Python 3.10 isinstance accepts tuple[int, ...] as a class, but issubclass does not.
    return get_origin(kind) is None and isinstance(kind, type) and issubclass(kind, BaseModel)


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    bare, _ = _bare(annotation)
    return get_args(bare) if get_origin(bare) in (Union, types.UnionType) else (bare,)


def _bare(annotation: Any) -> tuple[Any, list[Any]]:
    """Split an annotated type into the type and its declarations."""
    if get_origin(annotation) is Annotated:
        bare, *constraints = get_args(annotation)
        more: list[Any] = []
        for constraint in constraints:
            more += constraint.metadata if isinstance(constraint, FieldInfo) else [constraint]
        return bare, more
    return annotation, []
