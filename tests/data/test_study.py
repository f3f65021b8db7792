"""The study's images: links into CIFAR-10 with a part held out."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from radial_vicreg.cli import main
from radial_vicreg.data.prepare.study import FULL, QUICK, SECOND, StudySizes, prepare_study
from radial_vicreg.errors import UserError

SIZES = StudySizes(tune_train=20, tune_val=10, train=30, test=10)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """CIFAR-10 as folders with four training and two test images a class."""
    root = tmp_path / "cifar10"
    for split, count in (("train", 4), ("test", 2)):
        for label in range(10):
            folder = root / split / f"class_{label}"
            folder.mkdir(parents=True)
            for index in range(count):
                Image.new("RGB", (4, 4), (label, index, 0)).save(folder / f"{index}.png")
    return root


def _names(folder: Path) -> set[str]:
    return {f"{path.parent.name}/{path.name}" for path in folder.glob("*/*")}


def test_what_chooses_a_rate_is_never_trained_on_and_test_images_are_apart(source: Path, tmp_path: Path) -> None:
    out = prepare_study(tmp_path / "study", source, SIZES)
    sizes = {part: len(_names(out / part)) for part in ("tune/train", "tune/val", "final/train", "final/val")}
    assert sizes == {"tune/train": 20, "tune/val": 10, "final/train": 30, "final/val": 10}
    assert not _names(out / "tune/train") & _names(out / "tune/val")
    assert {path.resolve().parents[1].name for path in (out / "final/val").glob("*/*")} == {"test"}
    assert {path.resolve().parents[1].name for path in (out / "tune/val").glob("*/*")} == {"train"}


def test_a_second_study_has_none_of_the_first_s_test_images(source: Path, tmp_path: Path) -> None:
    first = prepare_study(tmp_path / "study", source, SIZES)
    second = prepare_study(tmp_path / "study2", source, SIZES._replace(test_before=SIZES.test))
    assert len(_names(second / "final/val")) == SIZES.test
    assert not _names(first / "final/val") & _names(second / "final/val")
    assert _names(first / "final/train") == _names(second / "final/train")
    assert SECOND.test_before >= QUICK.test


def test_no_size_lets_the_held_out_images_overlap_the_training() -> None:
    for sizes in (QUICK, FULL, SECOND):
        assert sizes.tune_train + sizes.tune_val <= 50_000
        assert sizes.train <= 50_000
        assert sizes.test_before + sizes.test <= 10_000


def test_it_is_made_once_and_refused_when_a_link_is_dead(source: Path, tmp_path: Path) -> None:
    out = prepare_study(tmp_path / "study", source, SIZES)
    (out / "note.txt").write_text("mine")
    before = out.stat().st_ino
    assert prepare_study(tmp_path / "study", source, SIZES).stat().st_ino == before
    lost = source / "train" / "class_0" / "0.png"
    lost.rename(tmp_path / "0.png")
    (source / "train" / "class_0" / "00.png").touch()
    with pytest.raises(
        UserError, match=r"study lacks \d+ of its 70 files, for example tune/train/class_0/00\.png.*--replace"
    ):
        prepare_study(tmp_path / "study", source, SIZES)
    assert (out / "note.txt").read_text() == "mine"
    (source / "test").rename(source / "val")  # the other name that a test set may have
    assert len(_names(prepare_study(tmp_path / "study", source, SIZES, replace=True) / "tune/val")) == 10
    with pytest.raises(UserError, match=r"study contains other images \(train 30, num_images 70\) than requested "):
        prepare_study(tmp_path / "study", source, SIZES._replace(train=10))


def test_a_source_without_the_classes_or_images_is_refused(source: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"class_0 has 4 images, expected 5 or more"):
        prepare_study(tmp_path / "study", source, SIZES._replace(train=50))
    (source / "test" / "class_3").rename(tmp_path / "class_3")
    with pytest.raises(UserError, match="test has 9 class folders, expected the 10 of CIFAR-10"):
        prepare_study(tmp_path / "study", source, SIZES)
    (tmp_path / "class_3").rename(source / "test" / "class_x")
    with pytest.raises(UserError, match="has other classes than"):
        prepare_study(tmp_path / "study", source, SIZES)
    assert not (tmp_path / "study").exists()


def test_the_command_says_what_a_source_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["data", "study", "--source", str(tmp_path / "gone"), "--out", str(tmp_path / "study")]
    assert main(arguments) == 2
    assert "pass a folder with train/CLASS and test/CLASS as --source" in capsys.readouterr().err
