"""scikit-learn's digits as two image folders; what holds for every prepared folder is in test_staging.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from radial_vicreg.data.folder import LabelledFolder
from radial_vicreg.data.prepare.digits import prepare_digits
from radial_vicreg.errors import UserError


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
