"""Prepared folders: nothing in them that is not ours is deleted or replaced, and each is prepared once."""

from __future__ import annotations

import errno
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import one_line
from PIL import Image
from sklearn.datasets import load_digits

from radial_vicreg.cli import main
from radial_vicreg.data import staging
from radial_vicreg.data.folder import LabelledFolder
from radial_vicreg.data.prepare import digits
from radial_vicreg.data.prepare.digits import prepare_digits
from radial_vicreg.data.staging import MARKER, prepare_folder
from radial_vicreg.errors import UserError

FILES: dict[str, Path | None] = {"train/a.png": None, "val/b.png": None}
DESCRIPTION = {"dataset": "two", "num_images": 2}


def fill(folder: Path) -> None:
    for name in FILES:
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_bytes(b"image")


def prepare(folder: Path, replace: bool = False) -> bool:
    return prepare_folder(folder, DESCRIPTION, FILES, fill, replace)


def content(folder: Path) -> dict[str, bytes]:
    """Names and bytes of all files below a folder, the locks of the preparation aside."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A prepared folder, in which its user has put a note, a run and one more image."""
    assert prepare(tmp_path / "data")
    for name in ("note.txt", "runs/results.json", "train/mine.png", ".DS_Store"):
        (tmp_path / "data" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "data" / name).write_bytes(b"mine")
    return tmp_path / "data"


def test_a_complete_folder_is_left_as_it_is_whatever_else_is_in_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = content(folder.parent)
    assert not prepare(folder)
    assert not prepare(folder, replace=True)
    assert content(folder.parent) == before
    monkeypatch.setattr(os, "access", lambda *_: False)  # read-only; root may write everywhere
    assert not prepare(folder)


@pytest.mark.parametrize(
    ("name", "written", "reason"),
    [
        ("train/a.png", None, "lacks 1 of its 2 files, for example train/a.png"),
        (MARKER, '{"dataset": "one", "num_images": 2}', "contains other images (dataset one) than requested (dataset"),
        (MARKER, None, "was not prepared by this command"),
        (MARKER, '"precious"', "was not prepared by this command"),
    ],
)
def test_anything_else_is_refused_by_name_and_moved_aside_on_request(
    folder: Path, name: str, written: str | None, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / name).unlink()
    if written is not None:
        (folder / name).write_text(written)
    before = content(folder)
    with pytest.raises(UserError, match=r"--replace") as caught:
        prepare(folder)
    assert str(folder) in str(caught.value)
    assert reason in str(caught.value)
    assert content(folder) == before
    assert prepare(folder, replace=True)
    assert set(content(folder)) == {*FILES, MARKER}
    (aside,) = (path for path in folder.parent.iterdir() if path.name.startswith("data.replaced-"))
    assert content(aside) == before
    assert str(aside) in capsys.readouterr().err


def test_the_working_directory_is_never_moved_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    with pytest.raises(UserError, match="working directory"):
        prepare(tmp_path, replace=True)


def test_an_empty_mount_point_is_refused_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "ismount", lambda path: Path(path) == tmp_path)
    with pytest.raises(UserError, match=f"choose a folder in it, such as {tmp_path}/two"):
        prepare(tmp_path)


def test_permissions_are_those_of_the_umask_or_of_the_empty_folder(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        prepare(tmp_path / "shared")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "shared").stat().st_mode) == 0o750
    (tmp_path / "private").mkdir(mode=0o700)
    prepare(tmp_path / "private")
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o700


def test_jobs_that_start_together_prepare_once(tmp_path: Path) -> None:
    """Threads have locks of their own here, as processes have."""
    filled: list[Path] = []
    together = threading.Barrier(5)

    def slowly(folder: Path) -> None:
        filled.append(folder)
        fill(folder)

    def job(_: int) -> bool:
        together.wait(60)
        return prepare_folder(tmp_path / "data", DESCRIPTION, FILES, slowly)

    with ThreadPoolExecutor(5) as pool:
        assert sorted(pool.map(job, range(5))) == [False] * 4 + [True]
    assert len(filled) == 1
    assert set(content(tmp_path)) == {f"data/{name}" for name in (*FILES, MARKER)}


def test_without_locks_the_folder_of_the_first_job_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def overtaken(folder: Path) -> None:
        prepare(tmp_path / "data")  # as another job on a file system without locks
        (tmp_path / "data" / "note.txt").write_text("mine")
        fill(folder)

    monkeypatch.setattr(staging, "changing", lambda *_: nullcontext())
    assert not prepare_folder(tmp_path / "data", DESCRIPTION, FILES, overtaken)
    assert set(content(tmp_path)) == {f"data/{name}" for name in (*FILES, MARKER, "note.txt")}


def test_a_place_without_renaming_or_links_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "symlink", refuse)
    monkeypatch.setattr(Path, "symlink_to", refuse)
    links: dict[str, Path | None] = {"train/a.png": tmp_path / "a.png"}
    with pytest.raises(UserError, match=r"does not allow symbolic links \(Operation not permitted\)"):
        prepare_folder(tmp_path / "data", DESCRIPTION, links)
    monkeypatch.setattr(os, "rename", refuse)
    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(UserError, match=r"does not allow renaming"):
        prepare(tmp_path / "data")
    assert content(tmp_path) == {}


def test_a_folder_that_was_moved_aside_comes_back_where_the_new_one_cannot_take_its_place(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "train/a.png").unlink()
    before = content(folder.parent)
    rename = Path.rename

    def fails(self: Path, target: Path) -> Path:
        if target == folder and ".replaced-" not in self.name:
            raise OSError(errno.EIO, "the disk is gone")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(OSError, match="the disk is gone"):
        prepare(folder, replace=True)
    assert content(folder.parent) == before


def test_the_command_keeps_what_is_complete_and_says_what_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = SimpleNamespace(target=np.arange(60) % 10, images=np.zeros((60, 8, 8)))
    monkeypatch.setattr(digits, "load_digits", lambda: few)
    command = ["data", "digits", "--size", "8", "--out", str(tmp_path / "digits")]
    assert main(command) == 0
    (tmp_path / "digits" / "train" / "0" / "mine.png").write_text("mine")
    before = content(tmp_path)
    assert main(command) == 0
    assert "already contains the 60 digits at 8 px: nothing to do" in capsys.readouterr().out
    assert content(tmp_path) == before
    next((tmp_path / "digits" / "val").rglob("*.png")).unlink()
    assert main(command) == 2
    one_line(capsys.readouterr().err, "lacks 1 of its 60 files", "--replace")
    assert main([*command, "--replace"]) == 0
    assert len(content(tmp_path / "digits")) == 61


# ---- digits ----


def test_digits_become_two_stratified_folders_that_are_the_same_each_time(tmp_path: Path) -> None:
    out = prepare_digits(tmp_path / "data" / "digits", size=16)
    train, val = (LabelledFolder(out / split) for split in ("train", "val"))
    assert (len(train), len(val)) == (1437, 360)
    assert train.classes == val.classes == list("0123456789")
    for digit in range(10):
        counts = [folder.targets.count(digit) for folder in (train, val)]
        assert counts[1] / sum(counts) == pytest.approx(0.2, abs=0.01)
    digits = load_digits()
    for path in sorted(out.rglob("*.png"))[::200]:
        index = int(path.stem)
        assert path.parent.name == str(digits.target[index])
        with Image.open(path) as image:
            assert image.size == (16, 16)
            small = np.asarray(image.resize((8, 8), Image.Resampling.BOX), dtype=float) * 16 / 255
        assert np.corrcoef(small.ravel(), digits.images[index].ravel())[0, 1] > 0.9
    assert sum(int(Path(file).stem) for file in val.files) == 337_944  # the same ones each time
    with pytest.raises(UserError, match=r"\(size 16\) than requested \(size 32\)"):
        prepare_digits(out, size=32)


def test_failure_half_way_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(*args: object, **kwargs: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(Image.Image, "save", full_disk)
    with pytest.raises(OSError, match=r"no space"):
        prepare_digits(tmp_path / "digits")
    assert [p.name for p in tmp_path.iterdir()] == [".digits.lock"]


def test_too_small_a_size_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"size=4"):
        prepare_digits(tmp_path / "digits", size=4)
