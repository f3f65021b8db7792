"""Image folders as they come: every file is read correctly, or named in one line."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from celeba_copy import write_copy
from helpers import one_line
from PIL import Image
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.datasets import ImageFolder

from radial_vicreg import cli
from radial_vicreg.data.build import TransformedImages
from radial_vicreg.data.celeba import CelebAFolder, prepare_celeba
from radial_vicreg.data.fingerprint import _listing
from radial_vicreg.data.folder import LabelledFolder, UnlabelledFolder
from radial_vicreg.data.image import UnreadableImageError, cut_long_image, open_image, unreadable_images
from radial_vicreg.data.prepare.imagenet_source import find_images
from radial_vicreg.data.staging import MARKER
from radial_vicreg.errors import UserError
from radial_vicreg.gaussianity.images import ImagesBelow
from radial_vicreg.runtime import first_process
from radial_vicreg.train.processes import adopt_rank

Corpus = dict[str, dict[Path, Any]]


def test_every_readable_file_gives_the_pixels_that_it_stands_for(corpus: Corpus) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for path, pixels in corpus["good"].items():
            image = open_image(path)
            assert image.mode == "RGB", path
            tolerance = 3 if path.suffix == ".jpg" else 0
            assert np.abs(np.asarray(image).astype(int) - pixels).max() <= tolerance, path


def test_every_other_file_is_named_in_one_line(corpus: Corpus) -> None:
    for path in corpus["bad"]:
        with pytest.raises(UnreadableImageError) as caught:
            open_image(path)
        message = str(caught.value)
        assert path.name.replace("\n", "\\n") in message
        assert "\n" not in message
        assert "data.on_bad_image=skip" in message


def class_folder(root: Path, corpus: Corpus) -> Path:
    for name in ("a", "b"):
        (root / name).mkdir(parents=True)
    for path in (*corpus["good"], *corpus["bad"]):
        shutil.copy(path, root / "a", follow_symlinks=False)
    shutil.copy(next(iter(corpus["good"])), root / "b")
    return root


def test_skipping_leaves_out_exactly_what_cannot_be_read(tmp_path: Path, corpus: Corpus) -> None:
    root = class_folder(tmp_path, corpus)
    dataset = LabelledFolder(root, on_bad_image="skip")
    assert {Path(path).name for path in dataset.skipped} == {path.name for path in corpus["bad"]}
    assert len(dataset) == len(dataset.targets) == len(corpus["good"]) + 1
    assert [target for _, target in dataset] == dataset.targets
    flat = UnlabelledFolder(root / "a", on_bad_image="skip")
    assert {Path(path).name for path in flat.skipped} == {path.name for path in corpus["bad"]}
    assert len(flat) == len(corpus["good"])
    assert unreadable_images([path for path, _ in dataset.samples], "skip") == ()


def test_a_worker_s_error_is_the_same_line(tmp_path: Path, corpus: Corpus) -> None:
    root = class_folder(tmp_path, corpus)
    for path in corpus["good"]:
        (root / "a" / path.name).unlink()
    loader = DataLoader(TransformedImages(LabelledFolder(root), transforms.ToTensor()), num_workers=1)
    with pytest.raises(UnreadableImageError) as caught:
        next(iter(loader))
    assert str(caught.value).startswith("cannot read the image ")
    assert "\n" not in str(caught.value)


def test_a_class_without_a_readable_image_is_an_error_even_when_skipping(tmp_path: Path) -> None:
    for name, content in (("a", b"?"), ("b", None)):
        (tmp_path / name).mkdir()
        Image.new("RGB", (2, 2)).save(tmp_path / name / "x.png")
        if content is not None:
            (tmp_path / name / "x.png").write_bytes(content)
    with pytest.raises(ValueError, match="without an image that can be read: a"):
        LabelledFolder(tmp_path, on_bad_image="skip")
    with pytest.raises(ValueError, match="its 1 image cannot be read"):
        UnlabelledFolder(tmp_path / "a", on_bad_image="skip")
    with pytest.raises(ValueError, match=r"data\.on_bad_image must be one of error, skip, got 'ignore'"):
        LabelledFolder(tmp_path, on_bad_image="ignore")


def test_hidden_folders_are_no_classes_and_folders_may_be_called_like_images(make_folder: Callable) -> None:
    root = make_folder(b=1, a=1)
    (root / ".ipynb_checkpoints").mkdir()
    (root / "a" / "x.jpg").mkdir()
    shutil.copy(root / "a" / "0.png", root / "a" / "x.jpg" / "deep.png")
    dataset = LabelledFolder(root)
    assert dataset.classes == ["a", "b"]
    assert [Path(path).relative_to(root).as_posix() for path, _ in dataset.samples] == [
        "a/0.png",
        "a/x.jpg/deep.png",
        "b/0.png",
    ]


def test_images_are_listed_in_torchvision_s_order(make_folder: Callable) -> None:
    from torchvision.datasets import ImageFolder

    root = make_folder(**{"b": 3, "a": 2, "Z": 1, "ä ö": 2})
    (root / "a" / "inner").mkdir()
    shutil.copy(root / "a" / "0.png", root / "a" / "inner")
    ours, theirs = LabelledFolder(root), ImageFolder(str(root))
    assert list(ours.samples) == theirs.samples
    assert ours.class_to_idx == theirs.class_to_idx


@pytest.mark.solo
@pytest.mark.parametrize("fraction", [-1, 0.5])
def test_images_and_subsets_are_those_of_solo_learn_s_own_data_set(make_folder: Callable, fraction: float) -> None:
    from solo.data.pretrain_dataloader import prepare_datasets

    from radial_vicreg.compose import compose, run_config
    from radial_vicreg.data.build import open_data

    root, pixels = make_folder(b=6, a=4, c=2), transforms.ToTensor()
    theirs = prepare_datasets("custom", pixels, train_data_path=root, data_fraction=fraction)
    given = ["radialvicreg/dataset=folder", f"data.train_path={root}", f"data.fraction={fraction}"]
    ours = open_data(run_config(compose("radialvicreg", given))).training_set(pixels)
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert (mine[0], mine[2]) == (other[0], other[2])
        assert torch.equal(mine[1], other[1])


def test_a_link_that_leads_back_is_an_error(make_folder: Callable) -> None:
    root = make_folder(a=1)
    for where, target, named in (("a/again", "a", "a/again"), ("loop", "", "loop/loop"), ("a/up", "", "a/up")):
        (root / where).symlink_to(root / target)
        with pytest.raises(ValueError, match=f"^{root / named} is a link to a folder that contains it: remove it"):
            LabelledFolder(root)
        (root / where).unlink()


def test_a_ring_of_links_between_classes_is_an_error(make_folder: Callable) -> None:
    root = make_folder(a=1, b=1)
    (root / "a" / "to b").symlink_to(root / "b")
    (root / "b" / "to a").symlink_to(root / "a")
    with pytest.raises(ValueError, match=r"a/to b/to a is a link to a folder that contains it: remove it"):
        LabelledFolder(root)


#: Links, by where they stand and where they lead, by which an image is in two classes; and the two that are named.
TWO_LABELS = {
    "folder": ({"b/to a": "a"}, "b/to a", "a"),
    "earlier_class": ({"a/to b": "b"}, "a/to b", "b"),
    "class": ({"c": "a"}, "c", "a"),
    "inner": ({"b/inner": "a/deep"}, "b/inner", "a/deep"),
    "class_of_inner": ({"c": "a/deep"}, "c", "a/deep"),
    "folders_of_folder": ({"b/to set": "../set", "a/to set": "../set"}, "b/to set", "a/to set/x"),
    "outside": ({"a/pool": "../pool", "b/pool": "../pool"}, "b/pool", "a/pool"),
    "file": ({"b/same.png": "a/0.png"}, "b/same.png", "a/0.png"),
    "file_of_inner": ({"b/same.png": "a/deep/0.png"}, "b/same.png", "a/deep/0.png"),
    "earlier_file": ({"a/same.png": "b/0.png"}, "a/same.png", "b/0.png"),
    "file_by_way_of_another": ({"b/same.png": "../away.png", "../away.png": "a/0.png"}, "b/same.png", "a/0.png"),
    "file_outside": ({"a/pool.png": "../pool/0.png", "b/pool.png": "../pool/0.png"}, "b/pool.png", "a/pool.png"),
}


@pytest.fixture
def two_classes(make_folder: Callable) -> Path:
    """Classes a, with an inner folder, and b; and folders of one image each that are in neither."""
    root: Path = make_folder(a=2, b=1)
    for folder in (root / "a" / "deep", root.parent / "pool", root.parent / "set" / "x"):
        folder.mkdir(parents=True)
        shutil.copy(root / "a" / "0.png", folder)
    return root


def test_a_link_that_gives_an_image_two_labels_is_an_error(two_classes: Path) -> None:
    for links, link, other in TWO_LABELS.values():
        for place, target in links.items():
            (two_classes / place).symlink_to(two_classes / target)
        with pytest.raises(UserError) as error:
            LabelledFolder(two_classes)
        one_line(f"{error.value}\n", f"{two_classes / link} is a link to images of another class", "two labels")
        assert str(two_classes / other) in str(error.value)
        for place in links:
            (two_classes / place).unlink()


def test_a_link_within_one_class_repeats_its_images(two_classes: Path) -> None:
    root = two_classes
    before = len(LabelledFolder(root))
    (root / "a" / "again").symlink_to(root / "a" / "deep")
    (root / "a" / "again.png").symlink_to(root / "a" / "0.png")
    (root / "b" / "pool").symlink_to(root.parent / "pool")
    (root / "b" / "pool.png").symlink_to(root.parent / "pool" / "0.png")
    (root.parent / "notes").mkdir()
    for folder in "a", "b":  # without an image, there is none with two labels
        (root / folder / "notes").symlink_to(root.parent / "notes")
        (root / folder / "itself").symlink_to(root / folder / "itself")
        (root / folder / "gone").symlink_to(root / "nowhere")
    (root / "itself").symlink_to(root / "itself")
    fingerprints = _listing("image_folder", str(root)).fingerprints
    assert [entry.partition(":")[0] for entry in fingerprints] == ["1", "2"]
    found = LabelledFolder(root)
    assert len(found) == before + 4
    assert found.targets == sorted(found.targets)
    (root / "itself").unlink()  # where torchvision stops
    assert [path for path, _ in found.samples] == [path for path, _ in ImageFolder(root).samples]


def test_a_link_between_the_classes_of_an_imagenet_folder_is_an_error(make_folder: Callable) -> None:
    source = make_folder("imagenet")
    for part in ("train", "val"):
        make_folder(f"imagenet/{part}", n1=2, n2=1)
    (source / "val" / "n2" / "to n1").symlink_to(source / "train" / "n1")  # another part: no label is wrong
    assert len(find_images(source, ["n1", "n2"])["val", "n2"]) == 3
    (source / "train" / "n2" / "to n1").symlink_to(source / "train" / "n1")
    with pytest.raises(UserError, match="train/n2/to n1 is a link to images of another class"):
        find_images(source, ["n1", "n2"])


def test_a_run_on_images_with_two_labels_ends_in_one_line(
    tiny_overrides: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train" / "class_1" / "more").symlink_to(tmp_path / "train" / "class_0")
    assert cli.main(["pretrain", *tiny_overrides, "host=standalone"]) == 2
    one_line(capsys.readouterr().err, f"{tmp_path}/train/class_1/more is a link to images of another class")
    assert not list(tmp_path.glob("runs/*"))


def with_macos_files(root: Path) -> Path:
    for image in [*root.rglob("*.png"), *root.rglob("*.jpg")]:
        image.with_name(f"._{image.name}").write_bytes(b"\x00\x05\x16\x07")
    return root


def test_macos_s_files_are_no_images_and_are_counted_once(
    make_folder: Callable, capsys: pytest.CaptureFixture[str]
) -> None:
    root = with_macos_files(make_folder(a=2, b=1))
    (root / "__MACOSX" / "a").mkdir(parents=True)
    (root / "__MACOSX" / "a" / "._0.png").touch()
    assert [len(LabelledFolder(root)), len(LabelledFolder(root))] == [3, 3]
    assert capsys.readouterr().out == f"{root}: omitted 3 files of macOS (._*), not read as images\n"
    assert len(UnlabelledFolder(root / "a")) == 2
    assert capsys.readouterr().out == f"{root / 'a'}: omitted 2 files of macOS (._*), not read as images\n"


@pytest.mark.parametrize(("rank", "told"), [(0, True), (1, False)])
def test_the_trainer_s_first_process_tells_of_macos_s_files_whatever_the_environment_says(
    rank: int, told: bool, make_folder: Callable, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("LOCAL_RANK", "RANK", "SLURM_PROCID"):
        monkeypatch.setenv(name, str(1 - rank))
    monkeypatch.setattr(first_process, "_trainer_rank", 0)  # to be restored
    adopt_rank(rank)
    LabelledFolder(with_macos_files(make_folder(a=2, b=1)))
    assert ("omitted 3 files of macOS (._*)" in capsys.readouterr().out) == told
    adopt_rank(0)


def test_macos_s_files_are_left_out_by_every_reader_of_prepared_data(
    tmp_path: Path, make_folder: Callable, capsys: pytest.CaptureFixture[str]
) -> None:
    faces = prepare_celeba(tmp_path / "celeba", write_copy(tmp_path / "copy")) / "train"
    count = len(CelebAFolder(faces))
    with_macos_files(tmp_path / "celeba")
    assert len(CelebAFolder(faces)) == count
    assert f"{faces}: omitted {count} files of macOS (._*)" in capsys.readouterr().out
    before = (faces / "faces").stat().st_mtime_ns
    prepare_celeba(tmp_path / "celeba", tmp_path / "copy")  # complete as it is
    assert (faces / "faces").stat().st_mtime_ns == before
    source = make_folder("imagenet")
    for part in ("train", "val"):
        with_macos_files(make_folder(f"imagenet/{part}", n1=2))
    images = find_images(source, ["n1"])
    assert [len(images["train", "n1"]), len(images["val", "n1"])] == [2, 2]
    assert f"{source}: omitted 4 files of macOS (._*)" in capsys.readouterr().out


def with_other_files(folder: Path) -> Path:
    """The folder with files that are not read as images: GIF, HEIC, a text, one without a type, hidden ones."""
    for name in ("b.gif", "a.GIF", "c.gif", "d.gif", "e.gif", "phone.HEIC", "notes", ".DS_Store", ".gitkeep", MARKER):
        (folder / name).write_bytes(b"?")
    return folder


OTHERS = {".gif": 5, ".heic": 1, "no extension": 1}
TOLD = "omitted 7 files of unsupported types: 5 .gif (a.GIF, b.gif, c.gif, d.gif, e.gif), 1 .heic (phone.HEIC), 1 "
TOLD += "without an extension (notes). Supported types: .jpg, .jpeg, .png, "


def test_files_of_other_types_are_counted_and_named_by_every_reader(
    make_folder: Callable, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_folder(a=2, b=1)
    flat = with_other_files(root / "a")
    scanned: list[str] = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: scanned.append(str(path)) or scandir(path))
    labelled = LabelledFolder(root)
    assert sorted(scanned) == [str(root), str(root / "a"), str(root / "b")]  # no second walk
    assert (len(labelled), labelled.omitted.counts()) == (3, OTHERS)
    assert capsys.readouterr().out.startswith(f"{root}: {TOLD}")
    assert LabelledFolder(root).omitted.counts() == OTHERS
    assert capsys.readouterr().out == ""  # once for each folder
    assert UnlabelledFolder(flat).omitted.counts() == OTHERS
    assert capsys.readouterr().out.startswith(f"{flat}: {TOLD}")
    below = ImagesBelow(with_other_files(root))
    assert (len(below), below.omitted.counts()) == (3, {".gif": 10, ".heic": 2, "no extension": 2})
    source = make_folder("imagenet")
    for part in ("train", "val"):
        with_other_files(make_folder(f"imagenet/{part}", n1=2) / "n1")
    assert len(find_images(source, ["n1"])["train", "n1"]) == 2
    assert f"{source}: omitted 14 files" in capsys.readouterr().out


def test_images_next_to_the_class_folders_are_counted(
    make_folder: Callable, capsys: pytest.CaptureFixture[str]
) -> None:
    root = make_folder(a=2)
    (root / "stray.png").touch()
    assert LabelledFolder(root).omitted.counts() == {".png": 1}
    assert "1 .png next to the class folders (stray.png)" in capsys.readouterr().out


def test_hidden_folders_count_neither_for_images_nor_for_other_files(make_folder: Callable) -> None:
    root = make_folder(a=2)
    (root / ".cache").mkdir()
    with_other_files(root / ".cache")
    assert ImagesBelow(root).omitted.counts() == {}


def test_links_to_folders_elsewhere_are_followed(make_folder: Callable) -> None:
    root, other = make_folder(a=1), make_folder("other", x=2)
    (root / "b").symlink_to(other / "x")
    assert len(LabelledFolder(root)) == 3


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_is_an_error(make_folder: Callable) -> None:
    root = make_folder(a=1, b=1)
    (root / "a").chmod(0)
    try:
        with pytest.raises(PermissionError, match="a"):
            LabelledFolder(root)
    finally:
        (root / "a").chmod(0o755)


def test_a_folder_that_cannot_be_listed_is_an_error(make_folder: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    root, real = make_folder(a=1), os.scandir

    def refuse(path: Any) -> Any:
        if str(path) == str(root / "a"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(PermissionError, match="Permission denied"):
        LabelledFolder(root)


@pytest.mark.parametrize("size", [(20_000, 1), (1, 20_000), (320, 9)])
def test_long_images_keep_their_centre(size: tuple[int, int]) -> None:
    width, height = size
    ramp = np.linspace(0, 255, width * height).reshape(height, width).astype(np.uint8)
    image = Image.fromarray(ramp).convert("RGB")
    cut = cut_long_image(image)
    assert max(cut.size) == 32 * min(cut.size)
    shorter = transforms.Compose([transforms.Resize(16), transforms.CenterCrop(16), transforms.ToTensor()])
    if max(size) < 1000:  # the whole image at that size would take gigabytes otherwise
        assert torch.allclose(shorter(cut), shorter(image), atol=2 / 255)
    middle = np.asarray(shorter(cut)).mean() * 255
    assert middle == pytest.approx(127.5, abs=3)


def test_usual_images_are_not_cut() -> None:
    image = Image.new("RGB", (320, 10))
    assert cut_long_image(image) is image
