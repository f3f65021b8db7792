"""``radial-vicreg try FOLDER`` takes images of any size and type, and counts every file that it leaves out."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import composed
from PIL import Image

from radial_vicreg.compose import run_config
from radial_vicreg.errors import UserError
from radial_vicreg.trial import images as trial
from radial_vicreg.trial.images import own_images

Photos = Callable[..., Path]


def copies(out: Path) -> Counter[str]:
    """Numbers of copies by folder; each must be a small square."""
    (folder,) = out.glob("images-*")
    found = list(folder.rglob("*.png"))
    for path in found:
        with Image.open(path) as image:
            assert (image.size, image.mode) == ((48, 48), "RGB"), path
    return Counter(str(path.parent.relative_to(folder)) for path in found)


def test_classes_of_any_type_are_copied_and_a_fifth_is_held_out(
    photos: Photos, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = photos(cats=60, dogs=40)
    (root / "cats" / "broken.jpg").write_bytes(b"no image")
    (root / "dogs" / "film.mov").write_bytes(b"")
    (root / "notes.txt").write_text("not an image")
    found = own_images(root, tmp_path / "out")
    assert copies(tmp_path / "out") == {"train/cats": 48, "val/cats": 12, "train/dogs": 32, "val/dogs": 8}
    assert found.lines == [
        "images: 80 for training, 20 held out, 2 classes, as copies of 48 x 48 pixels",
        "left out: 1 that cannot be read (broken.jpg)",
    ]
    assert "omitted 2 files of unsupported types: 1 .mov (film.mov), 1 .txt (notes.txt)" in capsys.readouterr().out
    config = run_config(composed("quickstart", *found.overrides))
    assert (config.data.name, config.optimizer.batch_size, config.crop_size) == ("my photos", 16, 32)
    assert config.max_epochs * (80 // 16) >= 88
    longer = run_config(composed("radialvicreg", *(shlex.split(text)[0] for text in found.long_run)))
    assert (longer.data.train_path, longer.data.no_labels) == (str(root), False)


def test_images_without_folders_have_no_labels_and_are_copied_anew_once_they_have_changed(
    photos: Photos, tmp_path: Path
) -> None:
    root = photos(none=100)
    found = own_images(root, tmp_path / "out")
    assert copies(tmp_path / "out") == {"train": 100}
    config = run_config(composed("quickstart", *found.overrides))
    assert (config.data.no_labels, config.data.val_path, config.probes.frozen_linear) == (True, None, False)
    assert "data.no_labels=true" in found.long_run
    assert own_images(root, tmp_path / "out").overrides == found.overrides
    (root / "0000.jpg").unlink()
    assert own_images(root, tmp_path / "out").overrides != found.overrides
    assert len(list((tmp_path / "out").glob("images-*"))) == 2


def test_a_split_of_the_user_is_kept(photos: Photos, tmp_path: Path) -> None:
    root = photos(**{"train/a": 50, "train/b": 40, "val/a": 9, "val/b": 6})
    found = own_images(root, tmp_path / "out")
    assert copies(tmp_path / "out") == {"train/a": 50, "train/b": 40, "val/a": 9, "val/b": 6}
    keys = [text.strip("'").partition("=")[0] for text in found.long_run[1:3]]
    assert keys == ["data.train_path", "data.val_path"]


def test_small_classes_and_images_beyond_the_limit_are_counted(
    photos: Photos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "_MOST", 90)
    root = photos(a=90, b=85, c=5)
    found = own_images(root, tmp_path / "out")
    assert copies(tmp_path / "out").keys() == {"train/a", "val/a", "train/b", "val/b"}
    assert found.lines[-2:] == [
        "left out: 90 beyond 90 evenly spaced ones, so that this takes minutes",
        "left out: 2 in classes with too few images to hold one out",
    ]


def test_of_many_classes_some_are_used_and_only_chosen_images_are_opened(
    photos: Photos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "_MOST_CLASSES", 4)
    root = photos(**{f"class{index}": 24 for index in range(8)})
    (root / "class1" / "0000.jpg").write_bytes(b"no image")  # of a class that is not chosen
    found = own_images(root, tmp_path / "out")
    assert {name.split("/")[1] for name in copies(tmp_path / "out")} == {f"class{index}" for index in (0, 2, 4, 6)}
    assert found.lines[0].startswith("images: 80 for training, 16 held out, 4 classes")
    assert found.lines[1:] == ["left out: 96 of other classes than 4 evenly spaced ones"]


def test_too_few_images_are_refused_with_their_number(photos: Photos, tmp_path: Path) -> None:
    root = photos(none=12)
    (root / "a.heic").write_bytes(b"")
    found = r"expected 80 or more .* found 12 \(left out: none; files of unsupported types: 1\)"
    with pytest.raises(UserError, match=found):
        own_images(root, tmp_path / "out")
    assert not (tmp_path / "out").exists()
