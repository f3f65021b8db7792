"""Atomic JSON."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from radial_vicreg.files import write_json


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

    monkeypatch.setattr("radial_vicreg.files.os.fsync", disk_full)
    with pytest.raises(OSError, match=r"no space left to write .*a\.json .the previous file is unharmed"):
        write_json(path, {"x": 2})
    assert json.loads(path.read_text()) == {"x": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]


def test_a_written_file_has_the_permissions_of_any_other(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("")
    assert write_json(tmp_path / "a.json", {}).stat().st_mode == (tmp_path / "other").stat().st_mode
