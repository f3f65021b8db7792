"""Locks say who holds them, survive file systems without locks, and can be taken over."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from radial_vicreg.io import locks
from radial_vicreg.io.locks import HeldLock, LockedError, changing

#: Holds a lock until its standard input ends.
HOLDER = """
import sys
from radial_vicreg.io.locks import HeldLock
with HeldLock(sys.argv[1], "training in there"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / ".lock"


def start_holder(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_refusal_names_the_holder_and_the_way_on(path: Path) -> None:
    process = start_holder(path)
    try:
        with pytest.raises(LockedError) as refusal:
            HeldLock(path, "training in there").acquire()
        said = str(refusal.value)
        assert said.startswith(f"another process is training in there (process {process.pid} on {socket.gethostname()}")
        assert "lock=take" in said
        with HeldLock(path, "training in there", take=True):  # it outlived its process, says the user
            assert json.loads(path.with_name(".lock.json").read_text())["pid"] == os.getpid()
    finally:
        process.communicate("")


def test_a_process_that_waits_names_the_holder_once_and_has_the_lock_afterwards(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = start_holder(path)
    said: list[str] = []
    # The holder ends during the first pause.
    monkeypatch.setattr("radial_vicreg.io.locks.sleep", lambda seconds: process.communicate(""))
    lock = HeldLock(path, "training in there")
    lock.acquire(on_wait=said.append)
    assert len(said) == 1
    assert said[0].startswith(f"waiting, since another process is training in there (process {process.pid} on ")
    assert HeldLock(path, "x").is_held()
    lock.release()


def test_a_look_at_a_lock_takes_nothing_and_a_killed_holder_leaves_it_free(path: Path) -> None:
    assert not HeldLock(path, "x").is_held()
    assert not path.parent.exists()
    process = start_holder(path)
    assert HeldLock(path, "x").is_held()
    process.kill()
    process.wait()
    assert not HeldLock(path, "x").is_held()
    with HeldLock(path, "x"):
        assert json.loads(path.with_name(".lock.json").read_text())["pid"] == os.getpid()
    assert not path.with_name(".lock.json").exists()


def test_a_process_whose_lock_was_taken_leaves_the_name_of_the_new_holder(path: Path) -> None:
    process = start_holder(path)
    with HeldLock(path, "x", take=True):
        process.communicate("")
        with pytest.raises(LockedError, match=rf"another process is y \(process {os.getpid()} on"):
            HeldLock(path, "y").acquire()


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EIO])
def test_without_locks_the_work_goes_on_with_one_warning_and_other_errors_are_shown(
    path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", refuse)
    lock = HeldLock(path, "x")
    if number == errno.EIO:
        with pytest.raises(OSError, match="Input/output error"):
            lock.acquire()
        return
    with pytest.warns(UserWarning, match="has no locks") as given:
        lock.acquire()
    assert len(given) == 1
    lock.release()
    with pytest.warns(UserWarning, match="has no locks"), changing(path.with_name("results.json")):
        pass


def test_a_change_that_fails_lets_go_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[FileLock] = []  # a lock that nobody keeps is let go of in any case
    make = locks._file_lock
    monkeypatch.setattr(locks, "_file_lock", lambda path: kept.append(make(path)) or kept[-1])

    def fail() -> None:
        with changing(tmp_path / "results.json"):
            assert kept[0].is_locked
            raise RuntimeError("in between")

    with pytest.raises(RuntimeError, match="in between"):
        fail()
    assert [lock.is_locked for lock in kept] == [False]
