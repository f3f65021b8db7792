from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from radial_vicreg.data.folder import (
    IndexedDataset,
    LabelledFolder,
    UnlabelledFolder,
    check_batch_fits,
)
from radial_vicreg.data.image import open_image
from radial_vicreg.data.places import check_same_classes
from radial_vicreg.errors import UserError

MakeFolder = Callable[..., Path]


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "RGBA", "1", "CMYK"])
def test_every_mode_is_read_as_rgb(tmp_path: Path, mode: str) -> None:
    path = tmp_path / ("image.jpg" if mode == "CMYK" else "image.png")
    Image.new("RGB", (8, 6), (255, 0, 0)).convert(mode).save(path)
    image = open_image(path)
    assert (image.mode, image.size) == ("RGB", (8, 6))


@pytest.mark.parametrize("suffix", ["jpg", "png"])
def test_truncated_image_is_named(tmp_path: Path, suffix: str) -> None:
    whole, part = tmp_path / f"whole.{suffix}", tmp_path / f"part.{suffix}"
    Image.effect_noise((64, 64), 50).save(whole)
    part.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    with pytest.raises(OSError, match=rf"cannot read the image .*part\.{suffix}"):
        open_image(part)


def test_text_in_an_images_clothes_is_named(tmp_path: Path) -> None:
    path = tmp_path / "fake.jpg"
    path.write_text("not an image")
    with pytest.raises(OSError, match=r"cannot read the image .*fake\.jpg"):
        open_image(path)


def test_missing_image_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"gone\.png \(the file does not exist"):
        open_image(tmp_path / "gone.png")


def test_targets_follow_the_sorted_names_of_the_classes(make_folder: MakeFolder) -> None:
    dataset = LabelledFolder(make_folder(b=2, a=3))
    assert (dataset.classes, dataset.targets) == (["a", "b"], [0, 0, 0, 1, 1])


def test_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"gone does not exist"):
        LabelledFolder(tmp_path / "gone")


def test_file_instead_of_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"file is not a folder"):
        LabelledFolder(tmp_path / "file")


def test_folder_without_classes_is_explained(make_folder: MakeFolder) -> None:
    root = make_folder()
    Image.new("RGB", (4, 4)).save(root / "flat.png")
    with pytest.raises(ValueError, match=r"no class sub-folders.*no_labels"):
        LabelledFolder(root)


def test_class_without_images_is_named(make_folder: MakeFolder) -> None:
    with pytest.raises(ValueError, match=r"without an image.*empty"):
        LabelledFolder(make_folder(full=1, empty=0))


@pytest.mark.parametrize(("images", "batch", "processes"), [(8, 4, 2), (7, 4, 2), (1, 1, 1)])
def test_enough_images_pass(images: int, batch: int, processes: int) -> None:
    check_batch_fits(images, batch, processes)


@pytest.mark.parametrize(("images", "batch", "processes"), [(6, 4, 2), (0, 1, 1), (3, 4, 1)])
def test_too_few_images_per_process_fail(images: int, batch: int, processes: int) -> None:
    with pytest.raises(UserError, match=f"{images} images.*{batch}.*{processes} process"):
        check_batch_fits(images, batch, processes)


def test_differing_classes_are_named_and_long_lists_cut() -> None:
    check_same_classes(["a", "b"], ["b", "a"])
    with pytest.raises(UserError, match=r"only in training none, only in validation c0, c1, c2, c3, c4 and 4 more"):
        check_same_classes(["a"], ["a", *(f"c{i}" for i in range(9))])


def test_unreadable_image_in_a_folder_is_named_when_read(make_folder: MakeFolder) -> None:
    root = make_folder(a=1)
    (root / "a" / "0.png").write_bytes(b"broken")
    dataset = LabelledFolder(root)
    with pytest.raises(OSError, match=r"a/0\.png"):
        dataset[0]


def test_unlabelled_images_are_sorted_and_other_files_skipped(tmp_path: Path) -> None:
    for name, grey in (("b.png", 2), ("a.JPG", 1), ("c.jpeg", 3)):
        Image.new("RGB", (4, 4), (grey * 50,) * 3).save(tmp_path / name)
    (tmp_path / "notes.txt").touch()
    (tmp_path / "folder.png").mkdir()
    Image.new("L", (4, 4), 200).save(tmp_path / "d.png")
    dataset = UnlabelledFolder(tmp_path)
    found = [dataset[i] for i in range(len(dataset))]
    assert [(round(np.asarray(image).mean() / 50), image.mode, target) for image, target in found] == [
        (grey, "RGB", -1) for grey in (1, 2, 3, 4)
    ]


def test_unlabelled_folder_without_images_is_explained(make_folder: MakeFolder) -> None:
    root = make_folder(a=1)
    with pytest.raises(UserError, match=r"no image files.*data.no_labels=false"):
        UnlabelledFolder(root)


def test_index_comes_first() -> None:
    samples: Any = [("x", 5), ("y", 6)]
    dataset = IndexedDataset(samples)
    assert len(dataset) == 2
    assert dataset[1] == (1, "y", 6)
