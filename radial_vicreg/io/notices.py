"""Warnings of this package: one line each, without the place in the source that Python adds."""

from __future__ import annotations

import sys
import warnings

_DEPRECATIONS = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)


class Notice(UserWarning):
    """Something that a user should know; its one line says all of it."""


def warn(text: str) -> None:
    """Warn of something that does not end the work.

    Args:
        text: one sentence that needs no place in the source.
    """
    _format_notices()
    warnings.warn(text, Notice, stacklevel=2)


def ignore_foreign_deprecations() -> None:
    """Leave out what libraries announce to those who call them, unless ``-W`` or ``PYTHONWARNINGS`` say otherwise.

    Lightning switches its own on when it is imported: call this again afterwards.
    """
    if sys.warnoptions:
        return
    for category in _DEPRECATIONS:
        warnings.filterwarnings("ignore", category=category)
    warnings.filterwarnings("default", message="radial_vicreg", category=DeprecationWarning)  # ours is for our users


def _format_notices() -> None:
    """Install the format of a :class:`Notice`; Lightning replaces the formatter when it is imported."""
    before = warnings.formatwarning
    if getattr(before, "knows_notices", False):
        return

    def formatted(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        if issubclass(category, Notice):
            return f"warning: {message}\n"
        return before(message, category, filename, lineno, line)

    formatted.knows_notices = True  # type: ignore[attr-defined]
    warnings.formatwarning = formatted
