"""Fingerprints of images: taken of every kind of data, and once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from configs import make_config
from helpers import write_images

from radial_vicreg.data import fingerprint as module
from radial_vicreg.data.fingerprint import fingerprints_of, listed_once
from radial_vicreg.runs.origin import Images, compare_fingerprints, images_of, names_only


def of_folder(folder: Path, dataset: str = "custom", data_format: str = "image_folder", **more: Any) -> tuple[str, ...]:
    """Fingerprints of a folder of training images."""
    data = {"data__dataset": dataset, "data__train_path": str(folder), "data__format": data_format, **more}
    return fingerprints_of(make_config(**data)).train or ()


def test_images_are_told_apart_by_names_and_sizes_and_not_by_path(
    make_folder: Callable[..., Path], tmp_path: Path
) -> None:
    images = make_folder("images", cat=2, dog=1)
    moved = Path(shutil.copytree(images, tmp_path / "job-17" / "copy"))
    assert [mark[:2] for mark in of_folder(images)] == ["1:", "2:"]
    assert of_folder(images) == of_folder(moved) == of_folder(f"{images}/", data_format="dali")  # type: ignore[arg-type]
    (moved / ".DS_Store").touch()
    (moved / "cat" / "notes.txt").touch()
    assert of_folder(images) == of_folder(moved)
    found = [of_folder(images)]
    for change in (
        lambda: (moved / "cat" / "0.png").rename(moved / "dog" / "7.png"),
        lambda: (moved / "dog").rename(moved / "wolf"),
        lambda: (moved / "wolf" / "8.JPEG").touch(),
    ):
        change()
        found.append(of_folder(moved))
    for version in (0, 1):
        assert len({marks[version] for marks in found}) == 4


def test_names_alone_do_not_tell_64_pixels_from_16(tmp_path: Path) -> None:
    small, large = (write_images(tmp_path / str(size), per_class=2, size=size) for size in (16, 64))
    one, other = of_folder(small), of_folder(large)
    assert names_only(one) == names_only(other) is not None
    assert compare_fingerprints(one, other).same is False
    assert compare_fingerprints(one[:1], other) == (True, 1, (one[0], other[0]))
    assert compare_fingerprints(one[1:], other[:1]).same is None


def test_what_is_not_there_is_not_known_and_no_validation_is_known_as_such(tmp_path: Path) -> None:
    assert fingerprints_of(make_config(data__train_path=str(tmp_path / "absent"))).train is None
    for more in ({"data__val_path": None}, {"data__val_path": str(tmp_path), "limit_val_batches": 0}):
        config = make_config(data__train_path=str(tmp_path), **more)
        assert fingerprints_of(config).val == images_of(config).val == ()


def test_a_ring_of_links_and_a_link_that_leads_nowhere_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "1.png").touch()
    before = of_folder(tmp_path)
    (tmp_path / "class" / "loop").symlink_to(tmp_path)
    assert of_folder(tmp_path) == before
    (tmp_path / "class" / "2.png").symlink_to(tmp_path / "gone")
    assert names_only(of_folder(tmp_path)) is not None


def test_images_without_labels_and_a_file_of_all_images_have_fingerprints(tmp_path: Path) -> None:
    flat = write_images(tmp_path / "flat", classes=1) / "class_0"
    assert len(of_folder(flat, data__no_labels=True)) == 2
    assert fingerprints_of(make_config(data__train_path=str(flat), data__no_labels=True)).val == ()
    file = tmp_path / "images.h5"
    file.write_bytes(b"1234")
    small = of_folder(file, "imagenet100", "h5")
    file.write_bytes(b"12345")
    large = of_folder(file, "imagenet100", "h5")
    assert len(small) == len(large) == 2
    assert not set(small) & set(large)


def test_cifar_is_known_by_its_name_also_of_earlier_versions(tmp_path: Path) -> None:
    config = make_config(data__dataset="cifar10", data__train_path=str(tmp_path / "absent"), data__val_path=None)
    found = fingerprints_of(config)
    assert names_only(found.train) is None  # which a name of version 0.2 has none of
    assert found.train != found.val
    assert images_of(config) == Images(found.train, found.val)
    hundred = make_config(data__dataset="cifar100", data__train_path=str(tmp_path), data__val_path=None)
    assert fingerprints_of(hundred).train != found.train


def test_celeba_is_known_by_its_attributes_as_well(celeba: Path) -> None:
    train = celeba / "train"
    before = of_folder(train, "celeba", data__multi_label=True)
    with (train / "attributes.csv").open("a") as stream:
        stream.write("\n")
    after = of_folder(train, "celeba", data__multi_label=True)
    assert before[0] == after[0]
    assert before[1] != after[1]


def test_a_folder_is_listed_once_for_all_processes_inside(
    make_folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    images = make_folder("images", cat=2)
    first = of_folder(images)
    real, listed = module._fingerprints, []
    monkeypatch.setattr(
        module, "_fingerprints", lambda path, data_format: listed.append(path) or real(path, data_format)
    )
    with listed_once():
        for _ in range(3):
            assert of_folder(images) == first
        (images / "cat" / "3.png").touch()  # the cached listing is used
        code = f"from radial_vicreg.data.fingerprint import _listing; print(_listing('image_folder', {str(images)!r}))"
        inside = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        assert first[1] in inside
    assert listed == [images]
    assert not [key for key in os.environ if key.startswith("RADIAL_VICREG_LISTED")]
    assert of_folder(images) != first
