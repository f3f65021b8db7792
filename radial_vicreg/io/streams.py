"""Standard output and error that survive the loss of their reader: a display failure never ends the work."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO


class LastingStream:
    """A text stream whose ``write`` and ``flush`` do not fail.

    After a closed pipe (``... | head``), a lost terminal or a full disk under a log, output is discarded. Characters
    that the encoding lacks are replaced. Everything else is passed to the stream.

    Args:
        stream: the stream to write to.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text, or discard it if it cannot be written."""
        try:
            self._stream.write(text)
        except UnicodeEncodeError:
            encoding = self._stream.encoding or "ascii"
            self._guard(lambda: self._stream.write(text.encode(encoding, "replace").decode(encoding)))
        except (OSError, ValueError):
            self._lead_nowhere()
        return len(text)

    def flush(self) -> None:
        """Flush the stream if possible."""
        self._guard(self._stream.flush)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _guard(self, call: Callable[[], object]) -> None:
        try:
            call()
        except (OSError, ValueError):  # ValueError: the stream is closed
            self._lead_nowhere()

    def _lead_nowhere(self) -> None:
        """Point the descriptor at the null device, for children and for the flush at the end of the process as well."""
        try:
            descriptor = self._stream.fileno()
        except (OSError, ValueError):
            return
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)


@contextmanager
def lasting_streams() -> Iterator[None]:
    """Make ``sys.stdout`` and ``sys.stderr`` lasting; a stream that is closed from the start discards its output."""
    before = sys.stdout, sys.stderr
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        streams: list[Any] = [LastingStream(stream or nowhere) for stream in before]
        sys.stdout, sys.stderr = streams
        try:
            yield
        finally:
            for stream in streams:
                stream.flush()
            sys.stdout, sys.stderr = before
