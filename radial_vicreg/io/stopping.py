"""Turn signals that end a command into an exception, so that code that writes a file can remove its unfinished part."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any


class SignalReceived(BaseException):
    """A signal asks a command to end.

    Like KeyboardInterrupt, it does not inherit from Exception: code that catches every error, such as that around a
    figure, must not catch this one.

    Attributes:
        name: name of the signal.
    """

    def __init__(self, number: int) -> None:
        self.name = signal.Signals(number).name
        super().__init__(f"stopped by {self.name}")


@contextmanager
def signals_raise(numbers: Iterable[signal.Signals]) -> Iterator[None]:
    """Raise :class:`SignalReceived` when a signal would have killed the process; restore the handlers at the end.

    A signal that is ignored (SIGHUP under ``nohup``) or that has a handler stays as it is. Python allows handlers in
    the main thread only: in another thread nothing changes.

    Args:
        numbers: the signals.

    Raises:
        SignalReceived: a signal arrived, even if a library has turned it into its own error.
    """
    process = os.getpid()
    received: list[int] = []

    def stop(number: int, _: Any) -> None:
        if os.getpid() != process:  # a forked worker ends as without this handler
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        received.append(number)
        raise SignalReceived(number)

    taken = []
    if threading.current_thread() is threading.main_thread():
        taken = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, stop)
    try:
        yield
    except Exception as error:
        if received:
            raise SignalReceived(received[0]) from error
        raise
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)
