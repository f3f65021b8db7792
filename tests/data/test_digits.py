from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from radial_vicreg.data.folder import LabelledFolder
from radial_vicreg.data.prepare.digits import prepare_digits
from radial_vicreg.errors import UserError


@pytest.fixture(scope="module")
def digits_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare_digits(tmp_path_factory.mktemp("data") / "deep" / "digits", size=16)


def listing(root: Path) -> list[tuple[str, bytes]]:
    return sorted((str(p.relative_to(root)), p.read_bytes()) for p in root.rglob("*") if p.is_file())


def test_digits_become_two_image_folders(digits_folder: Path) -> None:
    train, val = (LabelledFolder(digits_folder / split) for split in ("train", "val"))
    assert (len(train), len(val)) == (1437, 360)
    assert train.classes == val.classes == list("0123456789")


def test_split_is_stratified(digits_folder: Path) -> None:
    for digit in range(10):
        counts = [len(list((digits_folder / s / str(digit)).iterdir())) for s in ("train", "val")]
        assert counts[1] / sum(counts) == pytest.approx(0.2, abs=0.01)


def test_images_show_the_digit_of_their_folder(digits_folder: Path) -> None:
    digits = load_digits()
    for path in sorted(digits_folder.rglob("*.png"))[::200]:
        index = int(path.stem)
        assert path.parent.name == str(digits.target[index])
        with Image.open(path) as image:
            assert image.size == (16, 16)
            small = np.asarray(image.resize((8, 8), Image.Resampling.BOX), dtype=float) * 16 / 255
        assert np.corrcoef(small.ravel(), digits.images[index].ravel())[0, 1] > 0.9


def test_nothing_but_the_lock_is_left_beside_the_folder(digits_folder: Path) -> None:
    assert sorted(p.name for p in digits_folder.parent.iterdir()) == [".digits.lock", "digits"]


def test_second_run_says_so_and_changes_nothing(digits_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {p: p.stat().st_mtime_ns for p in digits_folder.rglob("*")}
    prepare_digits(digits_folder, size=16)
    assert "already contains the 1797 digits at 16 px" in capsys.readouterr().out
    assert {p: p.stat().st_mtime_ns for p in digits_folder.rglob("*")} == before


def test_preparation_is_deterministic(digits_folder: Path, tmp_path: Path) -> None:
    assert listing(prepare_digits(tmp_path / "digits", size=16)) == listing(digits_folder)


def test_digits_of_another_size_are_kept(digits_folder: Path) -> None:
    with pytest.raises(UserError, match=r"\(size 16\) than requested \(size 32\)"):
        prepare_digits(digits_folder, size=32)


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
