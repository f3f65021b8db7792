"""ImageNet-10 as links into an ImageNet folder, and into Imagenette's unpacked archive."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import pytest
from PIL import Image

from radial_vicreg import cli
from radial_vicreg.data.folder import LabelledFolder
from radial_vicreg.data.prepare import imagenet10
from radial_vicreg.data.prepare.imagenet10 import (
    CLASSES,
    COUNTS,
    describe_imagenet10,
    prepare_imagenet10,
)
from radial_vicreg.data.prepare.imagenet_source import shorter_side_of_resized
from radial_vicreg.data.staging import MARKER
from radial_vicreg.errors import UserError

TEN = tuple(CLASSES["imagenette"])
OTHER_TEN = tuple(CLASSES["clustering"])
SAW = "n03000684"  # the class with fewer images than the others, here as in ImageNet
SIZES = ((50, 37), (33, 50), (50, 34), (40, 60), (61, 44))  # as varied as ImageNet's own
SMALL = {
    ("imagenette", "imagenet"): {"train": {**dict.fromkeys(TEN, 3), SAW: 2}, "val": dict.fromkeys(TEN, 2)},
    ("imagenette", "imagenette"): {"train": dict.fromkeys(TEN, 2), "val": {**dict.fromkeys(TEN, 3), SAW: 2}},
    ("clustering", "imagenet"): {"train": dict.fromkeys(OTHER_TEN, 3), "val": dict.fromkeys(OTHER_TEN, 2)},
}


def jpeg(size: tuple[int, int]) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", size, (200, 120, 40)).save(stream, format="JPEG")
    return stream.getvalue()


def write(file: Path, size: tuple[int, int] = SIZES[0]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(jpeg(size))
    return file


@pytest.fixture(autouse=True)
def _few_images(monkeypatch: pytest.MonkeyPatch) -> None:
    for key, counts in SMALL.items():
        monkeypatch.setitem(COUNTS, key, counts)


@pytest.fixture(scope="module")
def imagenet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ImageNet's names and folders: three training and two validation images of both tens and of one more class."""
    root = tmp_path_factory.mktemp("read_only") / "imagenet"
    for number, name in enumerate((*TEN, *OTHER_TEN, "n01443537")):
        for index in range(2 if name == SAW else 3):
            write(root / "train" / name / f"{name}_{100 * index + number}.JPEG", SIZES[(index + number) % 5])
        for index in range(2):
            write(root / "val" / name / f"ILSVRC2012_val_000{number:02d}{index}69.JPEG", SIZES[(index + number) % 5])
    return root


@pytest.fixture(scope="module")
def imagenette(imagenet: Path) -> Path:
    """Imagenette's archive: the same files in folders of another division, and its list of noisy labels."""
    root = imagenet.with_name("imagenette2")
    for name in TEN:
        train, val = (sorted((imagenet / part / name).iterdir()) for part in ("train", "val"))
        for part, files in (("train", [train[0], val[0]]), ("val", [*train[1:], val[1]])):
            (root / part / name).mkdir(parents=True)
            for file in files:
                shutil.copy(file, root / part / name)
    (root / "noisy_imagenette.csv").write_text("path,noisy_labels_0,is_valid\n")
    return root


@pytest.fixture
def own(imagenet: Path, imagenette: Path, tmp_path: Path) -> Callable[[str], Path]:
    """Copies one of the two, by its name, to be changed."""

    def copy(name: str) -> Path:
        source = {"imagenet": imagenet, "imagenette2": imagenette}[name]
        return Path(shutil.copytree(source, tmp_path / name))

    return copy


def files_of(folder: Path) -> set[tuple[str, str]]:
    """Class and name of every image of a folder, links followed."""
    return {(file.parent.name, file.name) for file in folder.glob("*/*.JPEG") if file.exists()}


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., list[str]]:
    """Runs the command in an empty folder: exit status, standard output and standard error."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")

    def command(*words: object) -> list[str]:
        status = cli.main(["data", "imagenet10", *map(str, words)])
        printed = capsys.readouterr()
        return [str(status), printed.out, printed.err]

    return command


def test_classes_and_counts_are_those_of_the_authors_script_and_the_published_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()
    paper = json.loads(resources.files("radial_vicreg").joinpath("paper/paper.json").read_text())
    assert list(TEN) == paper["imagenet10_synsets"]["synsets"]
    assert {len(set(names)) for names in CLASSES.values()} == {10}
    sums = {key: tuple(sum(counts.values()) for counts in parts.values()) for key, parts in COUNTS.items()}
    assert sums == {
        ("imagenette", "imagenet"): (12_894, 500),
        ("imagenette", "imagenette"): (9_469, 3_925),
        ("clustering", "imagenet"): (13_000, 500),
    }
    both = [COUNTS["imagenette", split] for split in ("imagenet", "imagenette")]
    totals = [{name: counts["train"][name] + counts["val"][name] for name in TEN} for counts in both]
    assert totals[0] == totals[1]  # the same images, class by class


@pytest.mark.parametrize("classes", CLASSES)
def test_of_an_imagenet_folder_the_ten_classes_are_linked_and_no_other(
    imagenet: Path, tmp_path: Path, classes: str
) -> None:
    out = prepare_imagenet10(imagenet, tmp_path / "out", classes=classes)
    for part, counts in SMALL[classes, "imagenet"].items():
        folder = LabelledFolder(out / part)
        assert (len(folder), folder.classes) == (sum(counts.values()), list(CLASSES[classes]))
        assert all((out / part / name).readlink() == imagenet / part / name for name in CLASSES[classes])


def test_imagenettes_archive_gives_imagenets_own_division(imagenet: Path, imagenette: Path, tmp_path: Path) -> None:
    out = prepare_imagenet10(imagenette, tmp_path / "out")
    for part, counts in SMALL["imagenette", "imagenet"].items():
        assert files_of(out / part) == {item for item in files_of(imagenet / part) if item[0] in TEN}
        folder = LabelledFolder(out / part)
        assert (len(folder), folder.classes) == (sum(counts.values()), list(TEN))
    assert all(file.is_symlink() for file in out.glob("*/*/*.JPEG"))
    before = (out / "train").stat().st_ino
    prepare_imagenet10(imagenette, out)  # a second time changes nothing
    assert (out / "train").stat().st_ino == before
    own_division = prepare_imagenet10(imagenette, tmp_path / "own", split="imagenette")
    for part in ("train", "val"):
        assert files_of(own_division / part) == files_of(imagenette / part)
        assert all((own_division / part / name).is_symlink() for name in TEN)


def test_images_without_imagenets_names_stay_in_the_part_they_lie_in(tmp_path: Path) -> None:
    for part, counts in SMALL["imagenette", "imagenet"].items():
        for name, count in counts.items():
            for index in range(count):
                write(tmp_path / "renamed" / part / name / f"{index}.JPEG")
    out = prepare_imagenet10(tmp_path / "renamed", tmp_path / "out")
    assert all((out / part / name).is_symlink() for part in ("train", "val") for name in TEN)


def test_a_folder_with_dead_links_is_refused_and_replaced_on_request(
    own: Callable[[str], Path], tmp_path: Path
) -> None:
    source = own("imagenette2")
    out = prepare_imagenet10(source, tmp_path / "out")
    (out / "note.txt").write_text("mine")
    moved = source.rename(tmp_path / "moved")
    assert len(files_of(out / "val")) == 0
    with pytest.raises(UserError, match=rf"contains other images \(imagenet {source}\) than requested .*{moved}"):
        prepare_imagenet10(moved, out)
    assert (out / "note.txt").read_text() == "mine"
    assert len(files_of(prepare_imagenet10(moved, out, replace=True) / "val")) == 20


def test_what_is_wrong_with_a_folder_is_named_and_nothing_is_written(
    own: Callable[[str], Path], tmp_path: Path
) -> None:
    def refused(root: Path, message: str, **choice: str) -> None:
        with pytest.raises(UserError, match=message):
            prepare_imagenet10(root, tmp_path / "out", **choice)
        assert not (tmp_path / "out").exists()

    root = own("imagenet")
    refused(root, "This is ImageNet's split: omit --split imagenette", split="imagenette")
    one_more = write(root / "train" / TEN[1] / f"{TEN[1]}_9999.JPEG")
    refused(root, rf"{TEN[1]} \(English springer\) 4 of 3\. Remove added or duplicate files")
    one_more.unlink()
    next((root / "train" / SAW).iterdir()).unlink()
    next((root / "val" / TEN[0]).iterdir()).unlink()
    numbers = rf"train 28 of 29 images: {SAW} \(chain saw\) 1 of 2; val 19 of 20 images: {TEN[0]} \(tench\) 1 of 2\."
    refused(root, numbers + ".* incomplete: repeat both")
    (root / "val" / TEN[3]).rename(tmp_path / "elsewhere")
    refused(root, f"lacks the classes {TEN[3]}$")
    (root / "val").rename(tmp_path / "sorted")
    write(root / "val" / "ILSVRC2012_val_00000001.JPEG")
    refused(root, "sorted into one folder per class")
    archive = own("imagenette2")
    refused(archive, "it has the classes of --classes imagenette$", classes="clustering")
    refused(archive, "does not contain --classes clustering", classes="clustering", split="imagenette")
    for index, file in enumerate(sorted(archive.glob("*/*/*.JPEG"))):
        file.rename(file.with_name(f"{index}.JPEG"))
    refused(archive, "lack ImageNet's names.*--split imagenette")
    packed = tmp_path / "imagenette2.tgz"
    packed.touch()
    refused(packed, r"is an archive: unpack it \(tar xf imagenette2.tgz\)")
    refused(archive / "train", f"has no train/ and val/ .*: use --imagenet {archive}$")
    refused(archive / "val" / SAW, r"has no train/ and val/ with one folder per class \(SYNSET/\*.JPEG\)$")
    refused(tmp_path / "nowhere", "--imagenet=.*nowhere does not exist")


def test_a_prepared_folder_is_never_replaced_by_other_images(imagenet: Path, imagenette: Path, tmp_path: Path) -> None:
    out = prepare_imagenet10(imagenette, tmp_path / "out", split="imagenette")
    with pytest.raises(UserError, match=r"contains other images \(split imagenette.*than requested \(split imagenet,"):
        prepare_imagenet10(imagenette, out)
    with pytest.raises(UserError, match=r"contains other images .*classes imagenette.*classes clustering"):
        prepare_imagenet10(imagenet, out, classes="clustering")
    assert files_of(out / "val") == files_of(imagenette / "val")


def test_a_folder_of_the_first_version_is_known_as_the_clustering_ten(
    imagenet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = prepare_imagenet10(imagenet, tmp_path / "out", classes="clustering")
    old = {"dataset": "imagenet10", "imagenet": str(imagenet), "num_images": 50}
    monkeypatch.setattr(imagenet10, "_FIRST_VERSION", {**imagenet10._FIRST_VERSION, "train": 30, "val": 20})
    (out / MARKER).write_text(json.dumps(old))
    with pytest.raises(UserError, match=r"classes clustering.*than requested.*classes imagenette"):
        prepare_imagenet10(imagenet, out)
    folder = LabelledFolder(prepare_imagenet10(imagenet, out, classes="clustering") / "val")
    assert folder.classes == list(OTHER_TEN)
    assert describe_imagenet10(out)[0].startswith("30 training and 20 validation images")


def test_the_resized_forms_are_known_by_their_folders_name_or_their_images(
    own: Callable[[str], Path], run: Callable[..., list[str]], tmp_path: Path
) -> None:
    small = own("imagenette2").rename(tmp_path / "imagenette2-160")
    status, out, error = run("--imagenette", small)
    assert (status, out) == ("0", "datasets/imagenet10-160\n")
    assert "resized: the shorter sides have 160 pixels" in error
    assert "data.train_path=datasets/imagenet10-160/train" in error
    assert run("--imagenette", small) == [status, out, error]
    for index, file in enumerate(sorted(small.rename(tmp_path / "renamed").glob("*/*/*.JPEG"))):
        write(file, (40, 32) if index % 5 else (28, 40))  # some were smaller from the start
    out_of_images = prepare_imagenet10(tmp_path / "renamed", tmp_path / "out")
    assert any("shorter sides have 32 pixels" in line for line in describe_imagenet10(out_of_images))
    (tmp_path / "broken.JPEG").write_bytes(b"")  # does not count as resized
    assert shorter_side_of_resized(tmp_path, {("train", TEN[0]): [tmp_path / "broken.JPEG"]}) is None


def test_the_command_prints_the_folder_and_says_what_it_holds(
    imagenet: Path, imagenette: Path, run: Callable[..., list[str]]
) -> None:
    paper = "29 training and 20 validation images of the ten classes of Imagenette, ImageNet's split\n"
    assert run("--imagenet", imagenette) == ["0", "datasets/imagenet10\n", paper]
    _, out, error = run("--imagenette", imagenette, "--split", "imagenette")
    assert out == "datasets/imagenette\n"
    assert "not the paper's ImageNet-10" in error
    _, out, error = run("--imagenet", imagenet, "--classes", "clustering")
    assert out == "datasets/imagenet10-clustering\n"
    assert "of the clustering literature" in error
    assert "not the paper's ImageNet-10" in error
