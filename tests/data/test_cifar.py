"""CIFAR in torchvision's layout: downloaded once, and exported as folders on request."""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torchvision
from PIL import Image

from radial_vicreg.data.cifar import open_cifar, prepare_cifar
from radial_vicreg.data.folder import LabelledFolder
from radial_vicreg.errors import UserError

DOWNLOAD = "torchvision.datasets.cifar.download_and_extract_archive"


@pytest.fixture
def cifar100_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """torchvision's layout of CIFAR-100 with 6 training and 3 test images; MD5 checks are switched off."""
    monkeypatch.setattr(torchvision.datasets.CIFAR100, "_check_integrity", lambda self: True)
    monkeypatch.setattr("torchvision.datasets.cifar.check_integrity", lambda *args: True)
    return write_cifar100(tmp_path / "cifar")


def write_cifar100(root: Path) -> Path:
    folder = root / "cifar-100-python"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name, count in (("train", 6), ("test", 3)):
        pixels = rng.integers(0, 256, (count, 3072), dtype=np.uint8)
        labels = [index % 3 for index in range(count)]
        (folder / name).write_bytes(pickle.dumps({"data": pixels, "fine_labels": labels}))
    (folder / "meta").write_bytes(pickle.dumps({"fine_label_names": ["apple", "bear", "crab"]}))
    return root


def test_a_copy_that_is_there_is_opened_without_a_lock_and_exported_only_on_request(cifar100_root: Path) -> None:
    before = sorted(cifar100_root.iterdir())
    open_cifar("cifar100", cifar100_root, train=True)  # its folder may be read-only
    prepare_cifar("cifar100", cifar100_root)
    assert sorted(cifar100_root.iterdir()) == before


def test_export_holds_the_same_pixels_and_classes_and_is_made_once(cifar100_root: Path) -> None:
    assert prepare_cifar("cifar100", cifar100_root, as_folder=True) == cifar100_root
    for split, count in (("train", 6), ("val", 3)):
        folder = LabelledFolder(cifar100_root / split)
        assert (len(folder), folder.classes) == (count, ["apple", "bear", "crab"])
        dataset = open_cifar("cifar100", cifar100_root, train=split == "train")
        for index, (image, target) in enumerate(dataset):
            path = cifar100_root / split / dataset.classes[target] / f"{index:05d}.png"
            with Image.open(path) as exported:
                np.testing.assert_array_equal(np.asarray(exported), np.asarray(image))
    before = {p: p.stat().st_mtime_ns for p in cifar100_root.rglob("*")}
    prepare_cifar("cifar100", cifar100_root, as_folder=True)
    assert {p: p.stat().st_mtime_ns for p in cifar100_root.rglob("*")} == before


def test_an_export_that_lacks_an_image_is_refused_and_replaced_on_request(cifar100_root: Path) -> None:
    prepare_cifar("cifar100", cifar100_root, as_folder=True)
    (cifar100_root / "val" / "apple" / "00000.png").unlink()
    (cifar100_root / "val" / "note.txt").write_text("mine")
    with pytest.raises(UserError, match=r"val lacks 1 of its 3 files, for example apple/00000\.png.*--replace"):
        prepare_cifar("cifar100", cifar100_root, as_folder=True)
    train = (cifar100_root / "train").stat().st_ino
    prepare_cifar("cifar100", cifar100_root, as_folder=True, replace=True)
    assert len(LabelledFolder(cifar100_root / "val")) == 3
    assert (cifar100_root / "train").stat().st_ino == train
    assert [path.read_text() for path in cifar100_root.glob("val.replaced-*/note.txt")] == ["mine"]


def test_processes_that_start_together_download_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a node's processes under torchrun or Slurm; threads have locks of their own here, as processes have."""
    root, downloads = tmp_path / "cifar", []
    without_it: set[int] = set()
    both_found_nothing = threading.Event()

    def is_there(_: object) -> bool:
        found = (root / "cifar-100-python" / "meta").is_file()
        if not found:
            without_it.add(threading.get_ident())
            if len(without_it) == 2:
                both_found_nothing.set()
        return found

    def download(*_: object, **__: object) -> None:
        downloads.append(1)
        assert both_found_nothing.wait(60)
        if len(downloads) == 1:
            write_cifar100(root)

    monkeypatch.setattr(torchvision.datasets.CIFAR100, "_check_integrity", is_there)
    monkeypatch.setattr("torchvision.datasets.cifar.check_integrity", lambda *args: True)
    monkeypatch.setattr(DOWNLOAD, download)
    with ThreadPoolExecutor(2) as pool:
        sets = list(pool.map(lambda train: open_cifar("cifar100", root, train), [True, False]))
    assert [len(images) for images in sets] == [6, 3]
    assert len(downloads) == 1
