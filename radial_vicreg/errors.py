"""The errors that a command reports in one line; any other exception is a bug and keeps its traceback."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Iterable

from radial_vicreg.names.hints import meant


class ReportedError(Exception):
    """Base class of errors whose message is all that the user needs.

    Attributes:
        exit_status: exit status of a command that ends with the error.
    """

    exit_status = 1


class UserError(ReportedError, ValueError):
    """The user has to change a setting, a path or a file. Nothing has been lost."""

    exit_status = 2


class MissingPackageError(UserError, ImportError):
    """An optional package is not installed; the message names the command that installs it."""


class UnreachableError(UserError, ConnectionError):
    """A download is not available; the message says where to put the files by hand."""


class RunFailed(ReportedError, RuntimeError):
    """A run with valid input has failed: it diverged, or the machine ran out of a resource."""


class RunStopped(ReportedError, RuntimeError):
    """A signal has stopped a run; the run can be resumed from its last checkpoint."""

    exit_status = 128 + signal.SIGTERM  # the shells' convention


INTERRUPTED = 128 + signal.SIGINT
"""Exit status after Ctrl-C."""

NOT_FINISHED = 3
"""Exit status of a sweep that ends with unfinished runs but no failed ones: stopped, or other processes train them."""

STOP_SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)
"""Schedulers send SIGTERM to end a job, and Slurm also to preempt it; SIGUSR1 is customary with ``--signal=USR1@120``;
closing a terminal sends SIGHUP."""


def did_you_mean(given: object, known: Iterable[str], prefix: str = "", what: str = "known keys") -> str:
    """Suggest the known name that was meant (:func:`radial_vicreg.names.hints.meant`), or list all known names.

    Args:
        given: the unknown name.
        known: names to choose from.
        prefix: text before the suggestion, such as a section with its dot.
        what: text before the list.

    Returns:
        ``did you mean NAME?``, or ``known keys: ...``.
    """
    names = sorted(set(known))
    near = meant(given, names)
    return f"{what}: {', '.join(names)}" if near is None else f"did you mean {prefix}{near}?"


def misspelt(given: object, known: Iterable[str], before: str = "") -> str:
    """Suggest the known name that was meant, for a message that lists all of them.

    Args:
        given: the unknown name.
        known: names to choose from.
        before: text before the suggestion.

    Returns:
        ``did you mean NAME?`` after ``before``; empty if no name resembles it.
    """
    near = meant(given, list(known))
    return "" if near is None else f"{before}did you mean {near}?"


def reason_of(error: BaseException) -> str:
    """Describe in one line why code of another package failed, even if its exception has no text.

    Args:
        error: the exception.

    Returns:
        The text of the exception without a full stop at the end. Without a text: the source of the failed assertion,
        or the name of the exception.
    """
    if text := " ".join(str(error).split()).rstrip("."):
        return text
    frames = traceback.extract_tb(error.__traceback__)
    line = frames[-1].line if frames and isinstance(error, AssertionError) else None
    return line or type(error).__name__
