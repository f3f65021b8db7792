"""Warnings of this package: one line each, without the place in the source that Python adds."""

from __future__ import annotations

import sys
import warnings

_WORKERS = "This DataLoader will create"
"""Beginning of PyTorch's warning that the loader has more processes than the machine has cores."""

_DEPRECATIONS = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)


class Notice(UserWarning):
    """A warning for the user in one line, which needs no further context."""


def warn(text: str) -> None:
    """Warn of a problem that does not end the work.

    Args:
        text: one sentence that needs no place in the source.
    """
    _format_notices()
    warnings.warn(text, Notice, stacklevel=2)


def ignore_library_deprecations() -> None:
    """Hide deprecation warnings of other libraries, unless ``-W`` or ``PYTHONWARNINGS`` is set.

    PyTorch's warning of more workers than cores is hidden as well: it comes with every loader, and a training prints
    it once (:func:`radial_vicreg.data.loader.workers_note`).

    Lightning enables its own warnings when it is imported: call this function again afterwards.
    """
    if sys.warnoptions:
        return
    for category in _DEPRECATIONS:
        warnings.filterwarnings("ignore", category=category)
    warnings.filterwarnings("ignore", message=_WORKERS)
    warnings.filterwarnings("default", message="radial_vicreg", category=DeprecationWarning)  # for users of our API


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
