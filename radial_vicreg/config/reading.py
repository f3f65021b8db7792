"""Convert plain containers to a :class:`RunConfig`, with one-line errors that name key, value and expectation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from radial_vicreg.config.rules import check_rules, refuse_unsupported
from radial_vicreg.config.schema import RunConfig
from radial_vicreg.config.sections import ProbesConfig
from radial_vicreg.config.trainer_arguments import TRAINER_ARGUMENTS
from radial_vicreg.config.types import OpenSection, Ours, Stored, declared, plain
from radial_vicreg.config.words import A_SECTION, expected, inner_model
from radial_vicreg.errors import UserError, did_you_mean
from radial_vicreg.io.secrets import refuse_secrets
from radial_vicreg.names.hints import meant, nearest

Reader = Literal["pretrain", "script", "stored"]

FILLED_IN = tuple(name for name, field in RunConfig.model_fields.items() if declared(field, Stored))
"""Keys that every stored configuration has, even if they were omitted."""

NO_PROBES = {name: False for name, field in ProbesConfig.model_fields.items() if field.annotation is bool}
"""Meaning of ``probes: null``; a configuration without the section has the default probes."""

SHIPPED_HELPERS = ("augment",)
"""Keys of the package's YAML that only ``${...}`` use: ``--cfg`` prints them, and no code reads them."""

_OWN_CUTOFF = 0.8  # a helper value for ${...} may have any name that is not close to a known key
_LISTED = "`radial-vicreg config-schema --markdown` lists the settings"
_SHORT = 60


def read_config(
    content: Mapping[str, Any],
    reader: Reader = "pretrain",
    ignored: Collection[str] = (),
    helpers: Collection[str] | None = None,
) -> RunConfig:
    """Check a configuration and give every key its type.

    Args:
        content: resolved, plain containers; not changed.
        reader: ``"pretrain"`` (``radial-vicreg pretrain``) refuses every unknown key of a section; ``"script"``
            (solo-learn's own, whose sections may hold more) refuses those of ``method_kwargs``, ``diagnostics``,
            ``probes`` and ``loggers``, which only this package has, and elsewhere those that are close to one of its
            keys; ``"stored"`` (a finished run, from any version) ignores them.
        ignored: keys of ``method_kwargs`` that other code reads; they are ignored.
        helpers: top-level keys that the configuration's own ``${...}`` read. ``"pretrain"`` refuses every other key
            that is neither a field nor an argument of Lightning's Trainer; with None, the helpers are unknown, and it
            refuses only those that are close to a known key.

    Returns:
        The configuration.

    Raises:
        UserError: a missing or unknown key (the nearest known one is named), a value of the wrong type or out of
            range, a key that holds a password.
    """
    given = {str(key): value for key, value in content.items()}
    if reader != "stored":
        refuse_secrets(given)
        refuse_unsupported(given)
        _refuse_unknown(given, reader, ignored)
        if reader == "pretrain" and helpers is not None:
            _refuse_unread(given, helpers)
    if given.get("probes", NO_PROBES) is None:
        given["probes"] = NO_PROBES
    given = _known(given, RunConfig)
    for key in FILLED_IN:
        if key not in given:
            default = RunConfig.model_fields[key].default
            given[key] = default.model_dump() if isinstance(default, BaseModel) else default
    try:
        config = RunConfig.model_validate(given)
    except ValidationError as error:
        raise UserError(_in_words(error)) from error
    if reader == "pretrain":
        check_rules(config)
    return config


def _refuse_unknown(content: Mapping[str, Any], reader: Reader, ignored: Collection[str]) -> None:
    fields = {*RunConfig.model_fields, *TRAINER_ARGUMENTS}
    own = fields if reader == "pretrain" else _ours(RunConfig)
    for key in content:
        if key not in fields and nearest(key, own, _OWN_CUTOFF) is not None:
            raise _unknown_key(key, own)
    for name, section in content.items():
        field = RunConfig.model_fields.get(name)
        outer = None if field is None else inner_model(field.annotation)
        if field is None or outer is None:
            continue
        for prefix, model, part in _sections(name, field, section):
            if issubclass(model, OpenSection):
                continue
            known = {*model.model_fields, *(ignored if name == "method_kwargs" else ())}
            strict = reader == "pretrain" or name == "method_kwargs" or declared(field, Ours) is not None
            # In a section with keys declared `Ours`, users of the script have keys of their own that resemble the rest.
            compared = known if strict else _ours(outer) or known
            for key in map(str, part):
                if key not in known and (strict or nearest(key, compared, _OWN_CUTOFF) is not None):
                    raise _unknown_key(key, compared, f"{prefix}.")


def _ours(section: type[BaseModel]) -> list[str]:
    """List the keys of a section that solo-learn does not have, see :class:`radial_vicreg.config.types.Ours`."""
    return [name for name, field in section.model_fields.items() if declared(field, Ours)]


def _refuse_unread(content: Mapping[str, Any], helpers: Collection[str]) -> None:
    """Refuse keys that would have no effect, yet be recorded as settings of the run."""
    for key in content:
        if key in RunConfig.model_fields or key in TRAINER_ARGUMENTS or key in (*helpers, *SHIPPED_HELPERS):
            continue
        near = meant(key, _known_keys(), _OWN_CUTOFF)
        hint = _LISTED if near is None else f"did you mean {near}?"
        raise UserError(f"{key} is not a setting; {hint} (to define your own value, use it in a ${{{key}}})")


def _known_keys() -> list[str]:
    """List the dotted keys of every field, and the arguments of Lightning's Trainer without a field."""

    def walk(model: type[BaseModel], prefix: str) -> Iterator[str]:
        for name, field in model.model_fields.items():
            yield f"{prefix}{name}"
            if (inner := inner_model(field.annotation)) is not None:
                yield from walk(inner, f"{prefix}{name}.0." if name == "augmentations" else f"{prefix}{name}.")

    return [*walk(RunConfig, ""), *TRAINER_ARGUMENTS]


def is_setting(key: str) -> bool:
    """Return whether a dotted key is read, whether or not a configuration's YAML holds it.

    Args:
        key: such as ``optimizer.kwargs.momentum``; also an argument of Lightning's Trainer.
    """
    model: type[BaseModel] | None = RunConfig
    for name in key.split("."):
        if model is None or name not in model.model_fields:
            is_open = model not in (None, RunConfig) and issubclass(model, OpenSection)
            return is_open or key in TRAINER_ARGUMENTS
        model = inner_model(model.model_fields[name].annotation)
    return True


def setting_meant(name: str) -> str | None:
    """Find the setting of a run that a name stands for.

    Args:
        name: a dotted key, or a name from another program, such as ``lr`` or ``epochs``.

    Returns:
        The setting, ``name`` itself if it is one; None if it resembles none.
    """
    return name if is_setting(name) else meant(name, _known_keys(), _OWN_CUTOFF)


def _unknown_key(key: str, known: Iterable[str], section: str = "") -> UserError:
    """Make the error for a key that nothing reads; it names the nearest known one.

    Args:
        key: the unknown key.
        known: the keys that are read.
        section: prefix of the key, with a trailing dot.
    """
    return UserError(f"{section}{key} is not a setting; {did_you_mean(key, known, section)}")


def _sections(prefix: str, field: FieldInfo, value: Any) -> Iterator[tuple[str, type[BaseModel], Mapping[Any, Any]]]:
    """List the sections that a value holds, with their dotted names."""
    model = inner_model(field.annotation)
    if model is None:
        return
    parts = enumerate(value) if isinstance(value, (list, tuple)) else [(None, value)]
    for index, part in parts:
        if isinstance(part, Mapping):
            name = prefix if index is None else f"{prefix}.{index}"
            yield name, model, part
            for key, inner in part.items():
                if str(key) in model.model_fields:
                    yield from _sections(f"{name}.{key}", model.model_fields[str(key)], inner)


def _known(content: Any, model: type[BaseModel]) -> Any:
    """Remove unknown keys from sections, and sections that are null; other keys at the top stay."""
    if not isinstance(content, Mapping):
        return content
    kept: dict[str, object] = {}
    for key, value in content.items():
        field = model.model_fields.get(str(key))
        if field is None:
            if model.model_config.get("extra") == "allow":
                kept[str(key)] = value
            continue
        inner = inner_model(field.annotation)
        if inner is None:
            kept[str(key)] = value
        elif isinstance(value, (list, tuple)):
            kept[str(key)] = [_known(part, inner) for part in value]
        elif value is not None or field.is_required():
            kept[str(key)] = _known(value, inner)
    return kept


def _in_words(error: ValidationError) -> str:
    """Describe the error of the first invalid value."""
    first = error.errors(include_url=False)[0]
    path, field = _field_of(first["loc"])
    is_entry = isinstance(first["loc"][-1], int)  # of a list
    missing = first["type"] == "missing" and not is_entry
    value = None if missing else plain(first["input"])
    if field is not None and field.is_required() and value is None and inner_model(field.annotation) is None:
        return f"{path} is not set: add it to the configuration or give {path}=VALUE"
    words = expected(field) if field is not None else str(first["msg"])
    if is_entry and field is not None and inner_model(field.annotation) is not None:
        words = A_SECTION
    return f"{path} must be {words}, got {short(value)}"


def _field_of(location: tuple[int | str, ...]) -> tuple[str, FieldInfo | None]:
    """Find the dotted key, and its field, to which an error of pydantic belongs."""
    model: type[BaseModel] | None = RunConfig
    field: FieldInfo | None = None
    names: list[str] = []
    for part in location:
        if isinstance(part, int):
            if model is not None:
                names.append(str(part))
            continue
        if model is None or part not in model.model_fields:
            break
        field = model.model_fields[part]
        names.append(part)
        model = inner_model(field.annotation)
    return ".".join(names), field


def short(value: Any) -> str:
    """Show a value, cut where it is long."""
    text = repr(value)
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}..."
