"""Overrides as shells and people write them: paths and texts that Hydra's grammar does not take."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

_KEY = re.compile(r"(\+{0,2}[\w.@/-]+)=(.+)", re.DOTALL)
_LONGEST = 400


def quoted(override: str) -> str | None:
    """Write an override with its value as a text, for a shell's command line.

    Args:
        override: ``key=value`` with a value that Hydra's grammar takes for something else, or not at all.

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


def how_to_quote(overrides: Sequence[str]) -> str:
    """Say how the overrides that are meant as texts are written; nothing where no quoting helps.

    Args:
        overrides: those that could not be read.
    """
    forms = [form for override in overrides if (form := quoted(override)) is not None]
    return f"; a path or another text with special characters is written {' '.join(forms)}" if forms else ""


def sweeping(overrides: Sequence[str]) -> list[str]:
    """Choose the overrides that Hydra takes for a choice of several values, such as a path with a comma."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        parsed = OverridesParser.create().parse_overrides(list(overrides))
    except HydraException:
        return []  # the error for an unreadable one comes later, with its reason
    return [override for override, found in zip(overrides, parsed, strict=True) if found.is_sweep_override()]
