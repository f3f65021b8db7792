"""ImageNet-10 as links into an ImageNet folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from radial_vicreg import cli
from radial_vicreg.data import check_image_folder
from radial_vicreg.data.imagenet10 import COUNTS, SYNSETS, prepare_imagenet10

FEW = {"train": 20, "val": 10}


@pytest.fixture
def imagenet(tmp_path: Path) -> Path:
    """Two training images and one validation image of each of the ten classes, and a class that is not one of them."""
    root = tmp_path / "imagenet"
    for split, count in (("train", 2), ("val", 1)):
        for name in (*SYNSETS, "n01440764"):
            (root / split / name).mkdir(parents=True)
            for index in range(count):
                Image.new("RGB", (4, 4)).save(root / split / name / f"{index}.JPEG", format="JPEG")
    return root


def test_the_ten_classes_are_linked_and_no_other(imagenet: Path, tmp_path: Path) -> None:
    out = prepare_imagenet10(imagenet, tmp_path / "out", FEW)
    for split, count in FEW.items():
        assert check_image_folder(out / split) == (count, 10, SYNSETS)
        assert all((out / split / name).is_symlink() for name in SYNSETS)


def test_a_second_time_changes_nothing(imagenet: Path, tmp_path: Path) -> None:
    out = prepare_imagenet10(imagenet, tmp_path / "out", FEW)
    before = (out / "train").stat().st_ino
    prepare_imagenet10(imagenet, out, FEW)
    assert (out / "train").stat().st_ino == before


def test_another_number_of_images_is_refused_with_both_numbers(imagenet: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"train holds 20 images of the ten classes, but ImageNet has 13,000"):
        prepare_imagenet10(imagenet, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert COUNTS == {"train": 13_000, "val": 500}


def test_a_missing_class_is_named(imagenet: Path, tmp_path: Path) -> None:
    (imagenet / "val" / SYNSETS[3]).rename(imagenet / "elsewhere")
    with pytest.raises(ValueError, match=f"lacks the classes {SYNSETS[3]}$"):
        prepare_imagenet10(imagenet, tmp_path / "out", FEW)


def test_an_unsorted_validation_folder_is_explained(imagenet: Path, tmp_path: Path) -> None:
    (imagenet / "val").rename(imagenet / "sorted")
    (imagenet / "val").mkdir()
    with pytest.raises(ValueError, match="sorted into one folder a class"):
        prepare_imagenet10(imagenet, tmp_path / "out", FEW)


def test_a_folder_of_something_else_is_left_alone(imagenet: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    with pytest.raises(ValueError, match="not prepared by this command"):
        prepare_imagenet10(imagenet, tmp_path / "out", FEW)
    assert (tmp_path / "out" / "mine").exists()


def test_the_command_says_in_one_line_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = cli.main(["data", "imagenet10", "--imagenet", str(tmp_path / "nowhere"), "--out", str(tmp_path / "out")])
    assert status == cli.USAGE_ERROR
    assert "--imagenet=" in capsys.readouterr().err
