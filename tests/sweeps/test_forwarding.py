"""A worker hands the signals that end a training to the training's process group, and ends after it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from radial_vicreg.errors import RunStopped
from radial_vicreg.sweeps.forwarding import SignalForwarder

PYTHON = [sys.executable, "-ES", "-c"]

#: Has its parent get a signal; ends, with its own child, when both have it.
WAITS = """
import os, signal, subprocess, sys
number = int(sys.argv[1])
signal.pthread_sigmask(signal.SIG_BLOCK, [number])
child = None
if len(sys.argv) == 2:
    child = subprocess.Popen([*sys.orig_argv, "inner"])
    os.kill(os.getppid(), number)
signal.sigwait([number])
if child is not None:
    child.wait()
print("outer" if child else "inner", "has it", flush=True)
sys.exit(143)
"""


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    """A shell's background job starts with SIGINT ignored, one of ``nohup`` with SIGHUP; pytest keeps its own."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_the_child_s_group_before_the_worker(number: signal.Signals, tmp_path: Path) -> None:
    before, log = signal.getsignal(number), tmp_path / "log"
    error: type[BaseException] = KeyboardInterrupt if number == signal.SIGINT else RunStopped
    with pytest.raises(error), SignalForwarder() as forwarder:
        forwarder.run([*PYTHON, WAITS, str(int(number))], log)
    assert log.read_text() == "inner has it\nouter has it\n"
    assert signal.getsignal(number) is before


def test_a_signal_that_comes_while_the_child_starts_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = subprocess.Popen

    def popen(*arguments: Any, **keywords: Any) -> subprocess.Popen[bytes]:
        os.kill(os.getpid(), signal.SIGTERM)
        return real(*arguments, **keywords)

    monkeypatch.setattr("radial_vicreg.sweeps.forwarding.subprocess.Popen", popen)
    forever = "import signal; signal.sigwait([signal.SIGUSR2])"
    with pytest.raises(RunStopped, match="stopped by SIGTERM"), SignalForwarder() as forwarder:
        forwarder.run([*PYTHON, forever], tmp_path / "log")


def test_without_a_child_a_signal_ends_the_worker_at_once() -> None:
    with pytest.raises(RunStopped, match="stopped by SIGUSR1"), SignalForwarder():
        os.kill(os.getpid(), signal.SIGUSR1)


def test_under_nohup_a_hang_up_ends_neither(tmp_path: Path) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    hang_up = "import os, signal; os.kill(os.getppid(), signal.SIGHUP); os.kill(os.getpid(), signal.SIGHUP)"
    with SignalForwarder() as forwarder:
        assert forwarder.run([*PYTHON, hang_up], tmp_path / "log") == 0


def test_a_killed_child_leaves_no_process_of_its_group(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    inner = (
        "import signal, sys; pipe = open(sys.argv[1], 'w'); print('open', flush=True); signal.sigwait([signal.SIGUSR2])"
    )
    outer = (
        "import os, signal, subprocess, sys\n"
        f"inner = subprocess.Popen([sys.executable, '-ES', '-c', {inner!r}, sys.argv[1]], stdout=subprocess.PIPE)\n"
        "inner.stdout.readline()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reader, True)
    with SignalForwarder() as forwarder:
        assert forwarder.run([*PYTHON, outer, str(pipe)], tmp_path / "log") == -signal.SIGKILL
    assert os.read(reader, 1) == b""  # it ends when nobody has the pipe open for writing
    os.close(reader)


def test_what_children_print_is_appended(tmp_path: Path) -> None:
    with SignalForwarder() as forwarder:
        for text in ("one", "two"):
            assert forwarder.run([*PYTHON, f"print({text!r})"], tmp_path / "log") == 0
    assert (tmp_path / "log").read_text() == "one\ntwo\n"
