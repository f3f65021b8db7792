"""Overrides as users and shells write them: paths and texts that Hydra's grammar does not accept."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError, create_model

from radial_vicreg.config import RunConfig
from radial_vicreg.config.types import Section
from radial_vicreg.config.words import field_of
from radial_vicreg.io.notices import warn
from radial_vicreg.names.configurations import new_group

_KEY = re.compile(r"(\+{0,2}[\w.@/-]+)=(.+)", re.DOTALL)
_GROUP = re.compile(r"([+~]?)([\w/]+)(?=[@=]|$)")
_LONGEST = 400
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
_INDEX = re.compile(r"\.\d+(?=\.|$)")  # of a list's entry; all entries have the same fields
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")


def with_present_groups(overrides: Sequence[str], config_path: str | None = None) -> list[str]:
    """Replace the names that groups had until release 0.2, and report it once for each group.

    Args:
        overrides: as given, for example ``shared/optimizer=adamw`` or ``+study=radial_kl``.
        config_path: folder that comes first; a group of that name in it takes precedence.

    Returns:
        The overrides with the present names: ``radialvicreg/optimizer=adamw``, ``+radialvicreg/study=radial_kl``.
    """
    return [_with_present_group(override, config_path) for override in overrides]


def _with_present_group(override: str, config_path: str | None) -> str:
    match = _GROUP.match(override)
    if match is None or ("/" not in match[2] and not match[1]):  # `study=` may be a key
        return override
    sign, old = match.groups()
    new = new_group(old, config_path)
    if new is None:
        return override
    warn(f"the group {old} is named {new} since release 0.3: write {sign}{new}=...")
    return f"{sign}{new}{override[match.end() :]}"


def quoted(override: str) -> str | None:
    """Write an override with its value as a quoted text, for a shell's command line.

    Args:
        override: ``key=value`` with a value that Hydra's grammar misreads or rejects.

    Returns:
        The quoted form, which Hydra reads as exactly that value; None where there is no such form.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    match = _KEY.fullmatch(override)
    if match is None or len(override) > _LONGEST:
        return None
    key, value = match.groups()
    # In quotes, a backslash counts only before a quote or at the end, where it must be doubled.
    escaped = re.sub(r'(\\*)("|$)', lambda found: found[1] * 2 + ('\\"' if found[2] else ""), value)
    written = f'{key}="{escaped}"'
    try:
        parsed = OverridesParser.create().parse_override(written)
    except HydraException:
        return None
    return shlex.quote(written) if parsed.value() == value and not parsed.is_sweep_override() else None


def how_to_write(overrides: Sequence[str]) -> str:
    """Suggest how to write the overrides that could not be read; empty if no form helps.

    Args:
        overrides: those that Hydra misreads or rejects.

    Returns:
        ``; write optimizer.lr=0.3``, or how a text is quoted; only forms that the key accepts.
    """
    values = [form for override in overrides if (form := _as_value(override)) is not None]
    texts = [form for override in overrides if _as_value(override) is None and (form := _as_text(override)) is not None]
    hint = f"; write {' '.join(values)}" if values else ""
    return hint + (f"; quote a path or another text with special characters: {' '.join(texts)}" if texts else "")


def _as_text(override: str) -> str | None:
    key, _, value = override.partition("=")
    # Some paths are refused later, with the reason; they are texts nevertheless.
    return quoted(override) if _takes(key, value) is not False or _takes(key, "text") else None


def _as_value(override: str) -> str | None:
    """Write a decimal comma as a point or several numbers as a list, whichever the key accepts."""
    key, _, value = override.partition("=")
    numbers = value.split(",")
    if len(numbers) == 1 or not all(_NUMBER.fullmatch(number.strip()) for number in numbers):
        return None
    point, several = ".".join(numbers), [float(number) if "." in number else int(number) for number in numbers]
    takes_text = _takes(key, value)
    if takes_text:
        return None
    if _DECIMAL_COMMA.fullmatch(value) and (takes_text is None or _takes(key, float(point))):
        return f"{key}={point}"
    return shlex.quote(f"{key}=[{value}]") if _takes(key, several) else None


def _takes(key: str, value: object) -> bool | None:
    """Return whether a setting accepts a value (a group does not); None for a key that is not a setting of a run."""
    if "/" in key:
        return False
    try:
        field = field_of(_INDEX.sub("", key.lstrip("+")), RunConfig)
    except KeyError:
        return None
    kind: Any = field.annotation
    alone = create_model("Alone", __base__=Section, value=(kind, field))
    try:
        alone.model_validate({"value": value})
    except ValidationError:
        return False
    return True


def sweeping(overrides: Sequence[str]) -> list[str]:
    """Return the overrides that Hydra reads as a choice of several values, such as a path with a comma."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        parsed = OverridesParser.create().parse_overrides(list(overrides))
    except HydraException:
        return []  # an unreadable override raises later, with the reason
    return [override for override, found in zip(overrides, parsed, strict=True) if found.is_sweep_override()]
