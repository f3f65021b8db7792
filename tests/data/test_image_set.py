"""Images as every reader gives them, and their paths in memory that data-loading processes share."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from celeba_copy import attributes_of
from hypothesis import example, given
from hypothesis import strategies as st

from radial_vicreg.data.celeba import CelebAFolder
from radial_vicreg.data.cifar import CifarImages
from radial_vicreg.data.folder import LabelledFolder, UnlabelledFolder
from radial_vicreg.data.image_set import ImageSet, Part
from radial_vicreg.data.listing import LabelledPaths, Paths
from radial_vicreg.gaussianity.images import ImagesBelow
from radial_vicreg.names.data_sets import UNLABELLED

MakeFolder = Callable[..., Path]


@pytest.fixture
def readers(make_folder: MakeFolder, celeba: Path, cifar_root: Path) -> dict[str, ImageSet]:
    """One reader of each kind."""
    root = make_folder(a=2, b=1)
    (root / "a" / "notes.txt").touch()
    return {
        "folder": LabelledFolder(root),
        "flat": UnlabelledFolder(root / "a"),
        "below": ImagesBelow(root),
        "celeba": CelebAFolder(celeba / "train"),
        "cifar": CifarImages("cifar10", cifar_root, train=True),
        "part": Part(LabelledFolder(root), [2, 0]),
        "part of celeba": Part(CelebAFolder(celeba / "train"), [3, 1]),
        "part of cifar": Part(CifarImages("cifar10", cifar_root, train=True), [5]),
    }


def test_every_reader_says_what_its_targets_are(readers: dict[str, ImageSet]) -> None:
    for name, images in readers.items():
        _, target = images[len(images) - 1]
        assert len(images.targets) == len(images), name
        assert torch.equal(torch.as_tensor(target).long(), torch.as_tensor(images.targets[len(images) - 1]).long())
        assert bool(images.classes) == (images.labels != "none"), name
        assert images.skipped == (), name
        assert images.omitted.counts() == ({".txt": 1} if name in ("folder", "flat", "below", "part") else {}), name
        assert len(images.files) == (0 if "cifar" in name else len(images)), name
    assert {images.labels for images in readers.values()} == {"classes", "attributes", "none"}
    assert set(readers["flat"].targets) == {UNLABELLED}
    assert torch.equal(readers["part of celeba"].targets, readers["celeba"].targets[[3, 1]])


def test_a_digest_tells_readers_images_and_labels_apart_and_workers_share_it(
    readers: dict[str, ImageSet], celeba: Path, make_folder: MakeFolder
) -> None:
    digests = {name: images.digest() for name, images in readers.items()}
    assert len(set(digests.values())) == len(readers)
    for name, images in readers.items():
        assert pickle.loads(pickle.dumps(images)).digest() == digests[name]
    root = make_folder("changed", a=2, b=1)
    before = LabelledFolder(root).digest()
    (root / "b" / "0.png").write_bytes(b"another")
    other = LabelledFolder(root).digest()
    (root / "a").rename(root / "c")
    assert len({before, other, LabelledFolder(root).digest()}) == 3
    faces, table = CelebAFolder(celeba / "train"), celeba / "train" / "attributes.csv"
    name = Path(faces.files[0]).name
    first = ",".join([name, *map(str, attributes_of(int(name[:6])))])
    assert first in table.read_text()
    swapped = first[:-1] + str(1 - int(first[-1]))
    table.write_text(table.read_text().replace(first, swapped))
    assert CelebAFolder(celeba / "train").digest() != faces.digest()


def test_digests_are_those_of_release_0_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Features that a probe of an earlier version has kept are found again."""
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(["b/1.png", "b/0.jpg", "a/2.png", "a/sub/3.png"]):
        path = Path("images") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * (number + 1))
        os.utime(path, ns=(10**18 + number, 10**18 + number))
    images = LabelledFolder("images")
    assert images.digest() == "b9fb172b71e6e5b726ff503f0946e71f06f8584f82eeecac4c0d5c8e1ea121e8"
    assert Part(images, [2, 0]).digest() == "8aac0ee8ea0422c40ce7ffa3acda162a4a6bb8d14d3cc640c678d59f6f0ecef9"


def test_digests_of_cifar_are_those_of_release_0_2(cifar_root: Path) -> None:
    images = CifarImages("cifar10", cifar_root, train=True)
    images.split.data = torch.arange(2 * 32 * 32 * 3).to(torch.uint8).reshape(2, 32, 32, 3).numpy()
    images.split.targets = [3, 1]
    assert images.digest() == "f13201765fcd3c67eaccb9f1f2565d437ee5551225e8978b14f19635a436f706"
    assert Part(images, [1]).digest() == "40e9ec859a930f442ca8ea92b52c22b043859cfc6744e501a281442a352957b2"


# ---- paths ----


SMAPS = Path("/proc/self/smaps_rollup")
names = st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))


@given(names, st.slices(20))
@example([os.fsdecode(b"/images/\xff.jpg")], slice(None))  # a name that is no text
def test_paths_are_those_of_a_list(paths: list[str], chosen: slice) -> None:
    kept = Paths(paths)
    assert (len(kept), list(kept), list(reversed(kept))) == (len(paths), paths, paths[::-1])
    assert list(kept[chosen]) == paths[chosen]
    assert kept == Paths(iter(paths)) == pickle.loads(pickle.dumps(kept))
    for index in (-len(paths) - 1, len(paths)):
        with pytest.raises(IndexError):
            kept[index]


def test_pairs_are_those_of_a_list() -> None:
    kept = LabelledPaths(Paths("abc"), [0, 0, 1])
    assert list(kept) == [("a", 0), ("b", 0), ("c", 1)]
    assert kept[-1] == ("c", 1)
    assert list(kept[1:]) == [("b", 0), ("c", 1)]


def private_bytes_after_reading(paths: Sequence[str]) -> int:
    """Fork, read all paths in the child, and return by how much the memory of its own grew."""

    def private() -> int:
        lines = SMAPS.read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Private")) * 1024

    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        before = private()
        for index in range(len(paths)):
            paths[index]
        os.write(writer, str(private() - before).encode())
        os._exit(0)
    os.waitpid(child, 0)
    return int(os.read(reader, 32))


@pytest.mark.skipif(not SMAPS.exists(), reason="the memory of a process is read from /proc, which is Linux's")
def test_reading_paths_copies_no_memory_into_a_process() -> None:
    paths = [f"/images/train/n{index // 1300:08d}/n{index:08d}.JPEG" for index in range(50_000)]
    assert private_bytes_after_reading(paths) > 2.5e6  # a list is copied, page by page
    assert private_bytes_after_reading(Paths(paths)) < 0.5e6
