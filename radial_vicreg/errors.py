"""The errors that a command reports in one line; every other exception is a fault and keeps its traceback."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Iterable

from radial_vicreg.names.hints import meant


class ReportedError(Exception):
    """An error whose message says all that its reader needs.

    Attributes:
        exit_status: of a command that ends with it.
    """

    exit_status = 1


class UserError(ReportedError, ValueError):
    """Somebody has to change something: a setting, a path, a file. Nothing has been lost."""

    exit_status = 2


class MissingPackageError(UserError, ImportError):
    """An optional package is not installed; the message names the command that installs it."""


class UnreachableError(UserError, ConnectionError):
    """A download is out of reach; the message says where the files may be put by hand."""


class RunFailed(ReportedError, RuntimeError):
    """A run with right input has failed: it diverged, or the machine ran out of something."""


class RunStopped(ReportedError, RuntimeError):
    """A signal has told a run to stop; it resumes from its last checkpoint."""

    exit_status = 128 + signal.SIGTERM  # the shells' convention


INTERRUPTED = 128 + signal.SIGINT
"""Exit status after Ctrl-C."""

NOT_FINISHED = 3
"""Exit status of a sweep that ends while runs are unfinished although none has failed: stopped, or left to others."""

STOP_SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)
"""SIGTERM is Slurm's preemption and every scheduler's end; SIGUSR1 is what ``--signal=USR1@120`` sends by custom;
SIGHUP comes when a terminal is closed."""


def did_you_mean(given: object, known: Iterable[str], prefix: str = "", what: str = "known keys") -> str:
    """Suggest the known name that was meant (:func:`radial_vicreg.names.hints.meant`), or list all of them.

    Args:
        given: what was written.
        known: names to choose from.
        prefix: goes before the suggestion, such as a section with its dot.
        what: goes before the list.

    Returns:
        ``did you mean NAME?``, or ``known keys: ...``.
    """
    names = sorted(set(known))
    near = meant(given, names)
    return f"{what}: {', '.join(names)}" if near is None else f"did you mean {prefix}{near}?"


def reason_of(error: BaseException) -> str:
    """Say in one line why code of another package failed, also where its exception has no text.

    Args:
        error: what was raised.

    Returns:
        Its text without a full stop at the end; without a text, the assertion that failed as its source has it, or the
        name of the exception.
    """
    if text := " ".join(str(error).split()).rstrip("."):
        return text
    frames = traceback.extract_tb(error.__traceback__)
    line = frames[-1].line if frames and isinstance(error, AssertionError) else None
    return line or type(error).__name__
