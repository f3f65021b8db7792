"""Atomic files, and places that are claimed before the work."""

from __future__ import annotations

import errno
import json
import math
import os
import resource
from pathlib import Path
from typing import Literal

import pytest

from radial_vicreg.io.files import DiskFullError, append_line, claim_output, write_json


def test_written_json_reads_back_and_folders_are_made(tmp_path: Path) -> None:
    path = write_json(tmp_path / "a" / "b.json", {"x": [1, 2.5, None, True], "y": {"z": "é"}})
    assert json.loads(path.read_text(encoding="utf-8")) == {"x": [1, 2.5, None, True], "y": {"z": "é"}}


def test_non_finite_numbers_become_null(tmp_path: Path) -> None:
    path = write_json(tmp_path / "a.json", {"x": math.nan, "y": [math.inf]})
    assert json.loads(path.read_text()) == {"x": None, "y": [None]}


def test_a_failed_write_leaves_the_previous_file_and_no_litter(tmp_path: Path) -> None:
    path = write_json(tmp_path / "a.json", {"x": 1})
    with pytest.raises(TypeError):
        write_json(path, {"x": object()})
    assert json.loads(path.read_text()) == {"x": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]


def test_a_failed_replacement_leaves_the_previous_file_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_json(tmp_path / "a.json", {"x": 1})

    def disk_full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("radial_vicreg.io.files.os.fsync", disk_full)
    with pytest.raises(OSError, match=r"no space left to write .*a\.json .the previous file is unchanged"):
        write_json(path, {"x": 2})
    assert json.loads(path.read_text()) == {"x": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]


def test_a_written_file_has_the_permissions_of_any_other(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("")
    assert write_json(tmp_path / "a.json", {}).stat().st_mode == (tmp_path / "other").stat().st_mode


class TestAppendedLines:
    def test_lines_follow_one_another_whatever_the_system_takes_at_once(
        self, tmp_path: Path, short_writes: list[int]
    ) -> None:
        for line in ("one", "zwölf"):
            append_line(tmp_path / "lines", line)
        assert (tmp_path / "lines").read_text() == "one\nzwölf\n"
        assert len(short_writes) > 2

    def test_a_line_that_was_cut_damages_no_other(self, tmp_path: Path) -> None:
        (tmp_path / "lines").write_text("one\ntw")
        append_line(tmp_path / "lines", "three", sync=True)
        assert (tmp_path / "lines").read_text() == "one\ntw\nthree\n"

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

    def test_a_full_disk_is_one_error_that_says_so(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        append_line(tmp_path / "lines", "one")

        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr("radial_vicreg.io.files.os.fsync", full)
        with pytest.raises(DiskFullError, match=r"no space left to add a line to .*lines"):
            append_line(tmp_path / "lines", "two", sync=True)
        assert (tmp_path / "lines").read_text() == "one\n"

    def test_what_the_file_does_not_hold_is_an_error(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        append_line(tmp_path / "lines", "one")
        real = os.write
        monkeypatch.setattr(os, "write", lambda descriptor, content: real(descriptor, content.replace(b"w", b"v")))
        with pytest.raises(OSError, match="does not contain the line"):
            append_line(tmp_path / "lines", "two")
        assert (tmp_path / "lines").read_text() == "one\n"


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_claim_creates_nothing(kind: Literal["file", "folder"], tmp_path: Path) -> None:
    place = tmp_path / "a" / "b" / "c"
    assert claim_output(place, kind) == place
    assert list(tmp_path.iterdir()) == []


def test_files_are_claimed_over_files_and_folders_over_folders(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    claim_output(tmp_path / "file", "file")
    claim_output(tmp_path, "folder")
    assert (tmp_path / "file").read_text() == "old"


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("file", "folder", "exists and is a file, expected a folder: move it away or choose another place"),
        ("folder", "file", "exists and is a folder, expected a file"),
        ("file/below", "folder", "cannot be written: .*/file is not a folder"),
        ("file/below/deep.json", "file", "cannot be written: .*/file is not a folder"),
        ("dangling", "folder", "exists and is a file, expected a folder"),
        ("dangling/deep.json", "file", "cannot be written: .*/dangling is not a folder"),
    ],
)
def test_what_is_in_the_way_is_named(name: str, kind: Literal["file", "folder"], message: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=message):
        claim_output(tmp_path / name, kind)


def test_a_folder_that_may_not_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda place, mode: False)  # the superuser may write anywhere
    with pytest.raises(ValueError, match=f"no permission to write to {tmp_path}"):
        claim_output(tmp_path / "new" / "file.json", "file")


def test_a_folder_that_may_be_written_but_not_entered_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda place, mode: not mode & os.X_OK)
    with pytest.raises(ValueError, match=f"no permission to write to {tmp_path}"):
        claim_output(tmp_path / "new" / "file.json", "file")
