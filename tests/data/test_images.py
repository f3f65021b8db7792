"""Image folders as they come: every file is read correctly, or named in one line."""

from __future__ import annotations

import io
import os
import shutil
import struct
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from celeba_copy import write_copy
from configs import make_config
from helpers import one_line
from PIL import Image
from torchvision import transforms
from torchvision.datasets import ImageFolder

from radial_vicreg.data.augmentation import build_augmentation
from radial_vicreg.data.celeba import CelebAFolder, prepare_celeba
from radial_vicreg.data.fingerprint import _listing
from radial_vicreg.data.folder import LabelledFolder, UnlabelledFolder
from radial_vicreg.data.image import UnreadableImageError, cut_long_image, open_image
from radial_vicreg.data.places import check_same_classes
from radial_vicreg.data.prepare.imagenet_source import find_images
from radial_vicreg.data.staging import MARKER
from radial_vicreg.errors import UserError
from radial_vicreg.gaussianity.images import ImagesBelow
from radial_vicreg.runtime import first_process
from radial_vicreg.train.processes import adopt_rank

# ---- files ----

GREYS = np.arange(48, dtype=np.uint16).reshape(6, 8) * 1394  # 0 to 65,518
COLOURS = np.random.default_rng(1).integers(0, 256, (6, 8, 3), dtype=np.uint8)
ALPHA = np.tile(np.array([0, 128, 255, 7], dtype=np.uint8), 12).reshape(6, 8)


class Corpus(NamedTuple):
    """Files that somebody's data set may hold: the RGB pixels of those that can be read, and the others."""

    good: dict[Path, np.ndarray]
    bad: list[Path]


def encoded(image: Image.Image, fmt: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, fmt, **options)
    return stream.getvalue()


def grey(values: np.ndarray) -> np.ndarray:
    return np.repeat(values[..., None], 3, axis=2).astype(np.uint8)


def palette_image() -> tuple[Image.Image, np.ndarray]:
    palette = np.array([[255, 0, 0], [0, 255, 0], [10, 20, 30]], dtype=np.uint8)
    indices = (np.arange(48, dtype=np.uint8) % 3).reshape(6, 8)
    image = Image.frombytes("P", (8, 6), indices.tobytes())
    image.putpalette(palette.ravel().tolist())
    return image, palette[indices]


def readable() -> dict[str, tuple[bytes, np.ndarray]]:
    """File name to content and the RGB pixels that it stands for, worked out without Pillow's ``convert``."""
    palette, palette_pixels = palette_image()
    frames = [Image.fromarray(COLOURS), Image.fromarray(255 - COLOURS)]
    animated: dict[str, Any] = {"save_all": True, "append_images": frames[1:], "duration": 50}
    red = Image.new("CMYK", (8, 6), (0, 255, 255, 0))
    wide = np.random.default_rng(2).integers(0, 256, (1, 20_000, 3), dtype=np.uint8)
    scaled = np.round(GREYS / 257)  # 65,535 / 255
    return {
        "rgb.png": (encoded(frames[0], "PNG"), COLOURS),
        "cmyk.jpg": (encoded(red, "JPEG", quality=100), np.full((6, 8, 3), (255, 0, 0), np.uint8)),
        "palette with transparency.png": (encoded(palette, "PNG", transparency=b"\x00\x80\xff"), palette_pixels),
        "rgba.png": (encoded(Image.fromarray(np.dstack([COLOURS, ALPHA])), "PNG"), COLOURS),
        "grey with alpha.png": (encoded(Image.fromarray(ALPHA).convert("LA"), "PNG"), grey(ALPHA)),
        "16-bit.png": (encoded(Image.fromarray(GREYS), "PNG"), grey(scaled)),
        "16-bit.tif": (encoded(Image.fromarray(GREYS), "TIFF"), grey(scaled)),
        "16-bit.pgm": (b"P5 8 6 65535\n" + GREYS.astype(">u2").tobytes(), grey(scaled)),
        "1-bit.png": (encoded(Image.fromarray(ALPHA > 100), "PNG"), grey((ALPHA > 100) * 255)),
        "animated.png": (encoded(frames[0], "PNG", **animated), COLOURS),
        "animated.webp": (encoded(frames[0], "WEBP", lossless=True, **animated), COLOURS),
        "a GIF called.png": (encoded(palette, "GIF", save_all=True, append_images=[palette]), palette_pixels),
        "one pixel.png": (encoded(Image.new("RGB", (1, 1), (1, 2, 3)), "PNG"), np.array([[[1, 2, 3]]], np.uint8)),
        "wide.png": (encoded(Image.fromarray(wide), "PNG"), wide),
        "Größe 図像\n🙂.png": (encoded(frames[0], "PNG"), COLOURS),
    }


def unreadable() -> dict[str, bytes]:
    """File name to a content that is no image."""
    whole = Image.effect_noise((64, 64), 50)
    jpeg, png = encoded(whole, "JPEG"), encoded(whole, "PNG")
    huge = struct.pack(">IIBBBBB", 20_000, 20_000, 8, 2, 0, 0, 0)
    return {
        "truncated.jpg": jpeg[: len(jpeg) // 2],
        "truncated.png": png[: len(png) // 2],
        "empty.jpg": b"",
        "page.png": b"<html><body>404</body></html>",
        "header only.png": png[:30],
        "bomb.png": b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", huge) + chunk(b"IDAT", zlib.compress(b"")),
        "floats.tif": encoded(Image.fromarray(GREYS.astype(np.float32)), "TIFF"),
        "bad\nname.png": b"?",
    }


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    root = tmp_path_factory.mktemp("corpus")
    good = {root / name: pixels for name, (_, pixels) in readable().items()}
    for name, content in {**unreadable(), **{name: content for name, (content, _) in readable().items()}}.items():
        (root / name).write_bytes(content)
    for name, target in ("link.png", "rgb.png"), ("broken.png", "nowhere.png"), ("itself.png", "itself.png"):
        (root / name).symlink_to(root / target)
    good[root / "link.png"] = COLOURS
    return Corpus(good, [root / name for name in (*unreadable(), "broken.png", "itself.png")])


def test_every_readable_file_gives_the_pixels_that_it_stands_for(corpus: Corpus) -> None:
    crop = build_augmentation("custom", make_config().augmentations[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for path, pixels in corpus.good.items():
            image = open_image(path)
            assert image.mode == "RGB", path
            tolerance = 3 if path.suffix == ".jpg" else 0
            assert np.abs(np.asarray(image).astype(int) - pixels).max() <= tolerance, path
            assert crop(image).shape == (3, 32, 32)


def test_every_other_file_is_named_in_one_line(corpus: Corpus) -> None:
    for path in corpus.bad:
        with pytest.raises(UnreadableImageError) as caught:
            open_image(path)
        one_line(f"{caught.value}\n", path.name.replace("\n", "\\n"), "data.on_bad_image=skip")


@pytest.fixture
def with_bad_images(tmp_path: Path, corpus: Corpus) -> Path:
    """Classes a, with all files of the corpus, and b, with one."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        shutil.copy(next(iter(corpus.good)), tmp_path / name)
    for path in (*corpus.good, *corpus.bad):
        shutil.copy(path, tmp_path / "a", follow_symlinks=False)
    return tmp_path


def test_skipping_leaves_out_exactly_what_cannot_be_read(with_bad_images: Path, corpus: Corpus) -> None:
    dataset = LabelledFolder(with_bad_images, on_bad_image="skip")
    assert {Path(path).name for path in dataset.skipped} == {path.name for path in corpus.bad}
    assert len(dataset) == len(dataset.targets) == len(corpus.good) + 1
    assert [target for _, target in dataset] == dataset.targets
    flat = UnlabelledFolder(with_bad_images / "a", on_bad_image="skip")
    assert (len(flat), len(flat.skipped)) == (len(corpus.good), len(corpus.bad))


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
    assert np.asarray(shorter(cut)).mean() * 255 == pytest.approx(127.5, abs=3)
    assert cut_long_image(cut) is cut


# ---- folders ----


def without_images(root: Path) -> Path:
    (root / "a" / "0.png").unlink()
    return root


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda root: LabelledFolder(root / "gone"), "gone does not exist"),
        (lambda root: LabelledFolder(root / "a" / "0.png"), "0.png is not a folder"),
        (lambda root: LabelledFolder(root / "a"), "no class sub-folders.*no_labels"),
        (lambda root: LabelledFolder(without_images(root)), "without an image: a"),
        (lambda root: LabelledFolder(root, on_bad_image="skip"), "without an image that can be read: a"),
        (lambda root: LabelledFolder(root, on_bad_image="ignore"), "must be one of error, skip, got 'ignore'"),
        (lambda root: UnlabelledFolder(root), "no image files.*data.no_labels=false"),
        (lambda root: UnlabelledFolder(root / "a", on_bad_image="skip"), "its 1 image cannot be read"),
        (lambda root: check_same_classes("a", "abcdefg"), "training none, only in validation b, c, d, e, f and 1 more"),
    ],
)
def test_a_folder_that_is_no_data_set_is_named(
    read: Callable[[Path], Any], message: str, make_folder: Callable[..., Path]
) -> None:
    root = make_folder(a=1, b=1)
    (root / "a" / "0.png").write_bytes(b"?")
    with pytest.raises(UserError, match=message):
        read(root)


def test_images_are_listed_in_torchvision_s_order(make_folder: Callable[..., Path]) -> None:
    root = make_folder(**{"b": 3, "a": 2, "Z": 1, "ä ö": 2})
    for inner in ("inner", "like an image.jpg"):
        (root / "a" / inner).mkdir()
        shutil.copy(root / "a" / "0.png", root / "a" / inner)
    theirs = ImageFolder(str(root))
    (root / ".ipynb_checkpoints").mkdir()  # no class
    ours = LabelledFolder(root)
    assert list(ours.samples) == theirs.samples
    assert ours.class_to_idx == theirs.class_to_idx


def test_a_folder_that_cannot_be_listed_is_an_error(
    make_folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, real = make_folder(a=1), os.scandir

    def refuse(path: Any) -> Any:
        if str(path) == str(root / "a"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(PermissionError, match="Permission denied"):
        LabelledFolder(root)


# ---- links ----


def test_a_link_that_leads_back_is_an_error(make_folder: Callable[..., Path]) -> None:
    root = make_folder(a=1, b=1)
    for where, target, named in (
        ("a/again", "a", "a/again"),
        ("loop", "", "loop/loop"),
        ("a/up", "", "a/up"),
    ):
        (root / where).symlink_to(root / target)
        with pytest.raises(UserError, match=f"^{root / named} is a link to a folder that contains it: remove it"):
            LabelledFolder(root)
        (root / where).unlink()
    for where, target in ("a/to b", "b"), ("b/to a", "a"):
        (root / where).symlink_to(root / target)
    with pytest.raises(UserError, match=r"a/to b/to a is a link to a folder that contains it: remove it"):
        LabelledFolder(root)


#: Links, by where they stand and where they lead, by which an image is in two classes; and the two that are named.
TWO_LABELS = {
    "folder": ({"b/to a": "a"}, "b/to a", "a"),
    "class": ({"c": "a"}, "c", "a"),
    "class_of_inner": ({"c": "a/deep"}, "c", "a/deep"),
    "folders_of_folder": ({"b/to set": "../set", "a/to set": "../set"}, "b/to set", "a/to set/x"),
    "outside": ({"a/pool": "../pool", "b/pool": "../pool"}, "b/pool", "a/pool"),
    "file": ({"b/same.png": "a/0.png"}, "b/same.png", "a/0.png"),
    "earlier_file": ({"a/same.png": "b/0.png"}, "a/same.png", "b/0.png"),
    "file_by_way_of_another": ({"b/same.png": "../away.png", "../away.png": "a/0.png"}, "b/same.png", "a/0.png"),
    "file_outside": ({"a/pool.png": "../pool/0.png", "b/pool.png": "../pool/0.png"}, "b/pool.png", "a/pool.png"),
}


@pytest.fixture
def two_classes(make_folder: Callable[..., Path]) -> Path:
    """Classes a, with an inner folder, and b; and folders of one image each that are in neither."""
    root = make_folder(a=2, b=1)
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


# ---- files that are omitted ----


def with_macos_files(root: Path) -> Path:
    for image in [*root.rglob("*.png"), *root.rglob("*.jpg")]:
        image.with_name(f"._{image.name}").write_bytes(b"\x00\x05\x16\x07")
    return root


def test_macos_s_files_are_omitted_by_every_reader_and_counted_once(
    tmp_path: Path, make_folder: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    root = with_macos_files(make_folder(a=2, b=1))
    (root / "__MACOSX" / "a").mkdir(parents=True)
    (root / "__MACOSX" / "a" / "._0.png").touch()
    assert [len(LabelledFolder(root)), len(LabelledFolder(root))] == [3, 3]
    assert capsys.readouterr().out == f"{root}: omitted 3 files of macOS (._*), not read as images\n"
    assert len(UnlabelledFolder(root / "a")) == 2
    assert capsys.readouterr().out == f"{root / 'a'}: omitted 2 files of macOS (._*), not read as images\n"
    faces = prepare_celeba(tmp_path / "celeba", write_copy(tmp_path / "copy")) / "train"
    with_macos_files(tmp_path / "celeba")
    assert len(CelebAFolder(faces)) == 12
    assert f"{faces}: omitted 12 files of macOS (._*)" in capsys.readouterr().out
    before = (faces / "faces").stat().st_mtime_ns
    prepare_celeba(tmp_path / "celeba", tmp_path / "copy")  # complete as it is
    assert (faces / "faces").stat().st_mtime_ns == before
    source = make_folder("imagenet")
    for part in ("train", "val"):
        with_macos_files(make_folder(f"imagenet/{part}", n1=2))
    assert [len(files) for files in find_images(source, ["n1"]).values()] == [2, 2]
    assert f"{source}: omitted 4 files of macOS (._*)" in capsys.readouterr().out


def test_the_trainer_s_first_process_tells_of_omitted_files_whatever_the_environment_says(
    make_folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(first_process, "_trainer_rank", 0)  # to be restored
    for rank in (1, 0):
        for name in ("LOCAL_RANK", "RANK", "SLURM_PROCID"):
            monkeypatch.setenv(name, str(1 - rank))
        adopt_rank(rank)
        LabelledFolder(with_macos_files(make_folder(f"rank {rank}", a=2, b=1)))
        assert ("omitted 3 files of macOS (._*)" in capsys.readouterr().out) == (rank == 0)


def with_other_files(folder: Path) -> Path:
    """The folder with files that are not read as images: GIF, HEIC, a text, one without a type, hidden ones."""
    for name in ("b.gif", "a.GIF", "c.gif", "d.gif", "e.gif", "phone.HEIC", "notes", ".DS_Store", ".gitkeep", MARKER):
        (folder / name).write_bytes(b"?")
    return folder


OTHERS = {".gif": 5, ".heic": 1, "no extension": 1}
TOLD = "omitted 7 files of unsupported types: 5 .gif (a.GIF, b.gif, c.gif, d.gif, e.gif), 1 .heic (phone.HEIC), 1 "
TOLD += "without an extension (notes). Supported types: .jpg, .jpeg, .png, "


def test_files_of_other_types_are_counted_and_named_by_every_reader(
    make_folder: Callable[..., Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (stray := make_folder("stray", a=2) / "stray.png").touch()
    assert LabelledFolder(stray.parent).omitted.counts() == {".png": 1}
    assert "1 .png next to the class folders (stray.png)" in capsys.readouterr().out
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
    (root / ".cache").mkdir()
    with_other_files(root / ".cache")  # a hidden folder
    below = ImagesBelow(with_other_files(root))
    assert (len(below), below.omitted.counts()) == (3, {".gif": 10, ".heic": 2, "no extension": 2})
    source = make_folder("imagenet")
    for part in ("train", "val"):
        with_other_files(make_folder(f"imagenet/{part}", n1=2) / "n1")
    assert len(find_images(source, ["n1"])["train", "n1"]) == 2
    assert f"{source}: omitted 14 files" in capsys.readouterr().out
