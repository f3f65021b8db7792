"""The configuration as documents: a JSON schema for editors, and tables for readers."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import PydanticUndefined

from radial_vicreg.config.fields import Key, leaves
from radial_vicreg.config.schema import RunConfig
from radial_vicreg.config.trainer_arguments import TRAINER_ARGUMENTS
from radial_vicreg.config.types import OpenSection, added, outside
from radial_vicreg.config.words import expected, inner_model

_INTERPOLATION = {"type": "string", "pattern": r"\$\{"}


def json_schema() -> JsonSchemaValue:
    """Describe a configuration file for editors: they mark unknown keys and invalid values.

    A file may omit keys that its ``defaults`` set, and use ``${...}`` for any value.

    Returns:
        A JSON schema, draft 2020-12.
    """
    schema = RunConfig.model_json_schema()
    for part in (schema, *schema.get("$defs", {}).values()):
        part.pop("required", None)
        part["properties"] = {key: _or_interpolation(value) for key, value in part.get("properties", {}).items()}
    schema["properties"]["defaults"] = {"description": "Hydra's list of groups", "type": "array"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A run of radial-vicreg",
        **{key: value for key, value in schema.items() if key != "title"},
    }


def key_tables() -> str:
    """Write Markdown tables, one per section, of every key with its range, default and meaning."""
    lines: list[str] = []
    for prefix, model in _sections("", RunConfig):
        fields = {name: field for name, field in model.model_fields.items() if inner_model(field.annotation) is None}
        if not fields and not issubclass(model, OpenSection):
            continue
        about = (model.__doc__ or "").strip().splitlines()[0]
        title = f"`{prefix[:-1]}`" if prefix else "Top level"
        lines += [f"## {title}", "", about, ""]
        if fields:
            lines += ["| key | value | default | meaning |", "| --- | --- | --- | --- |"]
            lines += [_row(f"{prefix}{name}", field) for name, field in fields.items()] + [""]
    return "\n".join([*lines, *_identity_table(), *_reader_table()]).rstrip() + "\n"


def _identity_table() -> list[str]:
    """List the keys that are not part of a run's identity, by reason."""
    reasons: dict[str, list[str]] = {}
    for prefix, model in _sections("", RunConfig):
        for name, field in model.model_fields.items():
            if (mark := outside(field)) is not None:
                key = f"{prefix}{name}" if inner_model(field.annotation) is None else f"{prefix}{name}.*"
                reasons.setdefault(mark.reason, []).append(key)
    for name, argument in TRAINER_ARGUMENTS.items():
        if argument.outside is not None:
            reasons.setdefault(argument.outside, []).append(name)
    sometimes = [(key.name, found.where) for key in leaves() if (found := added(key.field)) and found.where]
    counted = ", ".join(f"`{name}`" for name, argument in TRAINER_ARGUMENTS.items() if argument.outside is None)
    return [
        "## Which keys define an experiment",
        "",
        "Runs that agree in every key but `seed` are one experiment. These keys do not count:",
        "",
        "| keys | reason |",
        "| --- | --- |",
        *(f"| {', '.join(f'`{key}`' for key in keys)} | {reason} |" for reason, keys in reasons.items()),
        "",
        f"Not everywhere part of it: {'; '.join(f'`{name}` ({where})' for name, where in sometimes)}.",
        "",
        f"Of the arguments of Lightning's Trainer, these count where they are not at their defaults: {counted}.",
        "",
    ]


def _reader_table() -> list[str]:
    """List the keys that only one command reads, with the reply of the other."""
    ignored: list[str] = []
    instead: dict[str, list[str]] = {}
    for key in leaves():
        if key.read_by is not None and key.read_by.who == "script":
            instead.setdefault(key.read_by.instead, []).append(f"`{key.name}`")
        elif key.read_by is not None and key.read_by.who == "pretrain":
            ignored.append(f"`{key.name}`{_alike(key)}")
    return [
        "## Keys that one command reads",
        "",
        "`radial-vicreg pretrain` reads these. solo-learn's main_pretrain.py would ignore them, so it rejects any "
        f"value other than the default: {', '.join(ignored)}.",
        "",
        "Only main_pretrain.py reads these; `radial-vicreg pretrain` rejects any value other than the default:",
        "",
        "| keys | `radial-vicreg pretrain` |",
        "| --- | --- |",
        *(f"| {', '.join(keys)} | {words} |" for words, keys in instead.items()),
        "",
    ]


def _alike(key: Key) -> str:
    others = [] if key.read_by is None else ["null" if value is None else f"{value}" for value in key.read_by.alike]
    return f" (it has {', '.join(others)}, too)" if others else ""


def _row(key: str, field: FieldInfo) -> str:
    cells = (f"`{key}`", expected(field), _default(field), field.description or "")
    escaped = [cell.replace("|", "\\|") for cell in cells]
    return f"| {' | '.join(escaped)} |"


def _sections(prefix: str, model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    yield prefix, model
    for name, field in model.model_fields.items():
        inner = inner_model(field.annotation)
        if inner is not None:
            yield from _sections(f"{prefix}{name}{'.0' if name == 'augmentations' else ''}.", inner)


def _default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "needed"
    value = field.default
    text = str(value).lower() if isinstance(value, bool) else "null" if value is None else f"{value}"
    if isinstance(value, float):
        text = f"{value:g}"
    elif isinstance(value, tuple):
        text = f"[{', '.join(map(str, value))}]"
    return f"`{text}`"


def _or_interpolation(value: JsonSchemaValue) -> JsonSchemaValue:
    about = {key: item for key, item in value.items() if key in ("description", "default")}
    kind = {key: item for key, item in value.items() if key not in (*about, "title")}
    return {**about, "anyOf": [kind, _INTERPOLATION]}
