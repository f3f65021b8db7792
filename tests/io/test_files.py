"""Atomic files, places that are claimed before the work, and locks that say who holds them."""

from __future__ import annotations

import errno
import json
import math
import os
import resource
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from radial_vicreg.io import locks
from radial_vicreg.io.files import DiskFullError, append_line, claim_output, write_json
from radial_vicreg.io.locks import HeldLock, LockedError, changing


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The disk is full when a file is written."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("radial_vicreg.io.files.os.fsync", full)
    return monkeypatch


def test_written_json_reads_back_and_has_the_permissions_of_any_file(tmp_path: Path) -> None:
    path = write_json(tmp_path / "a" / "b.json", {"x": [1, 2.5, None, math.inf], "y": {"z": "é"}, "n": math.nan})
    assert json.loads(path.read_text(encoding="utf-8")) == {"x": [1, 2.5, None, None], "y": {"z": "é"}, "n": None}
    (tmp_path / "other").write_text("")
    assert path.stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.parametrize("full", [False, True])
def test_a_failed_write_leaves_the_previous_file_and_no_litter(
    full: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    path = write_json(tmp_path / "a.json", {"x": 1})
    if full:
        request.getfixturevalue("full_disk")
        with pytest.raises(DiskFullError, match=r"no space left to write .*a\.json .the previous file is unchanged"):
            write_json(path, {"x": 2})
    else:
        with pytest.raises(TypeError):
            write_json(path, {"x": object()})
    assert json.loads(path.read_text()) == {"x": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]


class TestAppendedLines:
    def test_lines_follow_one_another_whatever_the_system_takes_at_once(
        self, tmp_path: Path, short_writes: list[int]
    ) -> None:
        (tmp_path / "lines").write_text("cu")  # a line that was cut damages no other
        for line in ("one", "zwölf"):
            append_line(tmp_path / "lines", line, sync=True)
        assert (tmp_path / "lines").read_text() == "cu\none\nzwölf\n"
        assert len(short_writes) > 2

    def test_a_limit_in_the_middle_of_a_line_leaves_the_file_as_it_was(self, tmp_path: Path) -> None:
        append_line(tmp_path / "lines", "one")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8, hard))  # the system takes "two " of the next line, then nothing
        try:
            with pytest.raises(OSError, match="File too large"):
                append_line(tmp_path / "lines", "two and more")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert (tmp_path / "lines").read_text() == "one\n"

    def test_a_full_disk_or_a_system_that_writes_something_else_is_an_error(
        self, tmp_path: Path, full_disk: pytest.MonkeyPatch
    ) -> None:
        append_line(tmp_path / "lines", "one")
        with pytest.raises(DiskFullError, match=r"no space left to add a line to .*lines"):
            append_line(tmp_path / "lines", "two", sync=True)
        real = os.write
        full_disk.setattr(os, "write", lambda descriptor, content: real(descriptor, content.replace(b"w", b"v")))
        with pytest.raises(OSError, match="does not contain the line"):
            append_line(tmp_path / "lines", "two")
        assert (tmp_path / "lines").read_text() == "one\n"


def test_a_claim_creates_and_changes_nothing(tmp_path: Path) -> None:
    for kind in ("file", "folder"):
        assert claim_output(tmp_path / "a" / "b" / "c", kind) == tmp_path / "a" / "b" / "c"
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("old")
    claim_output(tmp_path / "file", "file")
    claim_output(tmp_path, "folder")
    assert (tmp_path / "file").read_text() == "old"


def test_what_is_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name, message in (
        ("file", "exists and is a file, expected a folder: move it away or choose another place"),
        ("file/below", "cannot be written: .*/file is not a folder"),
        ("dangling", "exists and is a file, expected a folder"),
        ("dangling/deep.json", "cannot be written: .*/dangling is not a folder"),
    ):
        with pytest.raises(ValueError, match=message):
            claim_output(tmp_path / name, "folder")
    with pytest.raises(ValueError, match="exists and is a folder, expected a file"):
        claim_output(tmp_path, "file")


@pytest.mark.parametrize("lacking", [os.W_OK, os.X_OK])
def test_a_folder_that_may_not_be_written_or_entered_is_named(
    lacking: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda place, mode: not mode & lacking)  # the superuser may write anywhere
    with pytest.raises(ValueError, match=f"no permission to write to {tmp_path}"):
        claim_output(tmp_path / "new" / "file.json", "file")


# ---- locks ----


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
