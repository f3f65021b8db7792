"""Forwarding of signals to the child process that this process waits for."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from radial_vicreg.errors import STOP_SIGNALS, RunStopped

_FORWARDED = (signal.SIGINT, *STOP_SIGNALS)


class SignalForwarder:
    """Run child processes one after another, and forward to them the signals that a training handles.

    Each child leads its own process group, to which SIGINT, SIGTERM, SIGUSR1 and SIGHUP are forwarded, so that
    processes started by the child (those of DDP) get them too. The child saves its state and ends; only then does this
    process raise the exception for the signal. While no child runs, it raises it at once. A signal that is ignored
    from the start (SIGHUP under ``nohup``, SIGINT of a shell's background job) stays ignored.

    Python allows signal handlers in the main thread only; in any other thread, nothing is forwarded.
    """

    def __init__(self) -> None:
        self._asked: signal.Signals | None = None
        self._to_forward: list[int] = []
        self._starting = False
        self._child: subprocess.Popen[bytes] | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> SignalForwarder:
        if threading.current_thread() is threading.main_thread():
            for number in _FORWARDED:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def run(self, command: Sequence[str], log: Path) -> int:
        """Run a child to its end.

        Args:
            command: program and arguments.
            log: file to which the child's output is appended; another worker's child may write to it as well.

        Returns:
            Its exit status, or minus the number of the signal that killed it.

        Raises:
            RunStopped: SIGTERM, SIGUSR1 or SIGHUP was received; the child has ended.
            KeyboardInterrupt: SIGINT was received; the child has ended.
        """
        self._starting = True
        try:
            with log.open("ab") as stream:
                self._child = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    env={**os.environ, "PYTHONUNBUFFERED": "1"},
                )
            self._forward()  # signals that were received before the child started
            status = self._child.wait()
            if status < 0:  # killed; its own children may still wait for it and hold memory that the next run needs
                self._signal_group(signal.SIGKILL)
        finally:
            self._child, self._starting = None, False
        self._raise_if_asked()
        return status

    def _handle(self, number: int, frame: FrameType | None) -> None:
        # A handler runs between any two instructions, so it must not use Python's streams or take a lock.
        self._asked = self._asked or signal.Signals(number)
        self._to_forward.append(number)
        if not self._starting:
            self._raise_if_asked()
        self._forward()

    def _forward(self) -> None:
        while self._child is not None and self._to_forward:
            number = self._to_forward.pop(0)
            self._signal_group(number)
            text = f"{signal.Signals(number).name}: waiting for the training (process {self._child.pid}) to stop\n"
            with suppress(OSError):  # the reader may have closed the pipe
                os.write(2, text.encode())

    def _signal_group(self, number: int) -> None:
        assert self._child is not None
        with suppress(ProcessLookupError, PermissionError):  # it has ended; macOS refuses signals to zombies
            os.killpg(self._child.pid, number)

    def _raise_if_asked(self) -> None:
        if self._asked is signal.SIGINT:
            raise KeyboardInterrupt
        if self._asked is not None:
            raise RunStopped(f"stopped by {self._asked.name}; the same command resumes unfinished runs")
