"""Atomic files, and places that are claimed before the work."""

from __future__ import annotations

import errno
import json
import math
import os
import resource
from pathlib import Path

import pytest

from radial_vicreg.io.files import DiskFullError, append_line, claim_output, write_json


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
