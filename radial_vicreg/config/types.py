"""Types of configuration values beyond numbers, flags and texts, and declarations of their fields."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    WithJsonSchema,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

Mark = TypeVar("Mark")

LARGEST_COUNT = 2**31 - 1


class Expects(NamedTuple):
    """Description of the allowed values, where the type does not give it."""

    words: str


class Outside(NamedTuple):
    """Declare that a key is not part of a run's identity, and why: two runs that differ in it are one experiment."""

    reason: str


class Added(NamedTuple):
    """Declare that a key became part of the identity in a release and is omitted at its default.

    Runs of earlier releases keep their identities. Changing such a default would change the meaning of earlier runs;
    add a new key instead.

    Attributes:
        since: the release.
        where: condition under which the key can change the weights, in words; elsewhere it is not part of the identity
            (:class:`radial_vicreg.runs.identity.Identity`). Empty: it is part everywhere.
    """

    since: str
    where: str = ""


class WhoReads(NamedTuple):
    """Declare which commands read a key; the declaration of a section applies to its keys without one.

    Attributes:
        who: ``"all"``, both hosts of ``radial-vicreg pretrain`` and solo-learn's ``main_pretrain.py``; or one of the
            two alone, while the other refuses the key.
        instead: for a key of the script alone, the alternative that ``radial-vicreg pretrain`` names.
        alike: for a key of ``pretrain`` alone, values besides the default at which the script does the same.
    """

    who: Literal["all", "pretrain", "script"]
    instead: str = ""
    alike: tuple[Any, ...] = ()


ALL = WhoReads("all")
PRETRAIN = WhoReads("pretrain")


@dataclass(frozen=True)
class Ours:
    """Declare that solo-learn has no such key, and that its script refuses keys with a similar name.

    Do not use it for names such as ``host``, ``lock`` and ``ckpt``: too many words resemble them, and users of that
    script have keys of their own.
    """


@dataclass(frozen=True)
class Stored:
    """Declare that a stored configuration holds the key even where it was not given."""


class Choices(NamedTuple):
    """Declare the names that a text may be where the type is not a ``Literal``.

    Values outside a ``Literal`` are refused whenever a configuration is read, even that of a finished run. Names
    outside these are refused only on look-up, since another host, another release or solo-learn may have more.

    Attributes:
        names: known names; those of a registry are read when they are needed.
        pattern: pattern of names that are not listed; None if there are none.
    """

    names: Collection[str]
    pattern: str | None = None

    def __get_pydantic_json_schema__(self, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """List the names in the schema."""
        null = {"type": "null"}
        found: list[JsonSchemaValue] = [{"enum": list(self.names)}]
        found += [] if self.pattern is None else [{"type": "string", "pattern": self.pattern}]
        found += [null] if null in handler(core_schema).get("anyOf", ()) else []
        return found[0] if len(found) == 1 else {"anyOf": found}


class Section(BaseModel):
    """A part of the configuration: immutable, without unknown keys; only declared validators convert values."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)


class OpenSection(Section):
    """A section that also holds keys of other code; their values are immutable as well."""

    model_config = ConfigDict(extra="allow")

    @model_validator(mode="before")
    @classmethod
    def _freeze(cls, content: Any) -> Any:
        if not isinstance(content, Mapping):
            return content
        fields = cls.model_fields
        return {key: value if key in fields else _frozen(value) for key, value in content.items()}

    def given(self) -> dict[str, Any]:
        """List the arguments that were given."""
        arguments: dict[str, Any] = plain(self.model_dump(exclude_unset=True))
        return arguments


def plain(value: Any) -> Any:
    """Turn the tuples of plain containers into lists, as YAML and JSON have them."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return OpenSection.model_validate({str(key): item for key, item in value.items()})
    return tuple(_frozen(item) for item in value) if isinstance(value, (list, tuple)) else value


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _text(value: str) -> str:
    if not value.strip() or "\0" in value:
        raise ValueError("empty")
    return value


def _file_name(value: Any) -> str:
    text = str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
    if text in ("", ".", "..") or {"/", "\\"} & set(text) or not text.isprintable():
        raise ValueError("no file name")
    return text


def _label(value: Any) -> str:
    text = str(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else ""
    if not text.strip() or not text.isprintable():
        raise ValueError("no label")
    return text


def _home(value: str) -> str:
    if not value.startswith("~"):
        return value
    try:
        return str(Path(value).expanduser())
    except RuntimeError as error:
        raise ValueError("no home") from error


def _word(value: Any) -> Any:
    return value if isinstance(value, bool) else str(value)


def _devices(value: Any) -> Any:
    """Allow indices as a list or as ``"0,1"``, a number of processes, ``auto`` and -1."""
    value = _tuple(value)
    if isinstance(value, tuple):
        good = bool(value) and all(isinstance(index, int) and not isinstance(index, bool) for index in value)
    elif isinstance(value, (int, str)) and not isinstance(value, bool):
        indices = [index.strip() for index in str(value).split(",") if index.strip()]
        is_count = len(indices) == 1 and "," not in str(value)
        good = value in ("auto", "-1", -1) or (bool(indices) and all(index.isdecimal() for index in indices))
        good = good and not (is_count and indices[0].isdecimal() and int(indices[0]) < 1)
    else:
        good = False
    if not good:
        raise ValueError("no devices")
    return value


def _stem(value: Any) -> Any:
    return {"true": True, "false": False}.get(str(value).lower(), value)


Text = Annotated[str, AfterValidator(_text), Expects("a text")]
PathText = Annotated[str, AfterValidator(_text), AfterValidator(_home), Expects("a path, whose home folder (~) exists")]
FileName = Annotated[str, BeforeValidator(_file_name), Expects("a text that is valid as a file name, without / and \\")]
Label = Annotated[str, BeforeValidator(_label), Expects("a text of one line")]
Devices = Annotated[
    int | str | tuple[int, ...],
    BeforeValidator(_devices),
    Expects("a list such as [0], a positive number, auto or -1"),
    WithJsonSchema({"type": ["array", "integer", "string"]}),
]
Word = BeforeValidator(_word)
"""Validator for choices that may be written as numbers: ``precision=32``."""
Stem = BeforeValidator(_stem)
Items = BeforeValidator(_tuple)
_Level = Annotated[float, Field(ge=-10, le=10)]
Triple = Annotated[tuple[_Level, _Level, _Level], Items, Expects("three numbers")]
_Share = Annotated[float, Field(ge=0, lt=1)]
Betas = Annotated[tuple[_Share, _Share], Items, Expects("two numbers, 0 or more and below 1")]


def declared(field: FieldInfo, kind: type[Mark]) -> Mark | None:
    """Return a field's declaration of a kind, such as :class:`Outside`; None if it has none."""
    return next((mark for mark in field.metadata if isinstance(mark, kind)), None)


def outside(field: FieldInfo) -> Outside | None:
    """Return the reason why a field is not part of a run's identity; None if it is part."""
    return declared(field, Outside)


def added(field: FieldInfo) -> Added | None:
    """Return since when a field is part of the identity and omitted at its default; None for all others."""
    return declared(field, Added)
