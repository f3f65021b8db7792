"""ImageNet-10 as links into an ImageNet folder, and into Imagenette's unpacked archive."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from collections.abc import Callable, Iterator
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
    default_folder,
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


def files_of(folder: Path) -> set[tuple[str, str]]:
    """Class and name of every image of a folder, links followed."""
    return {(file.parent.name, file.name) for file in folder.glob("*/*.JPEG") if file.exists()}


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
def own_imagenet(imagenet: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    return Path(shutil.copytree(imagenet, tmp_path / "imagenet"))


@pytest.fixture
def own_imagenette(imagenette: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    return Path(shutil.copytree(imagenette, tmp_path / "imagenette2"))


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


def test_the_default_classes_are_those_of_the_authors_script() -> None:
    paper = json.loads(resources.files("radial_vicreg").joinpath("paper/paper.json").read_text())
    assert list(TEN) == paper["imagenet10_synsets"]["synsets"]
    assert {len(set(names)) for names in CLASSES.values()} == {10}


def test_table_2_counts_images_of_500_over_three_seeds() -> None:
    paper = json.loads(resources.files("radial_vicreg").joinpath("paper/paper.json").read_text())
    methods = [paper["tables"]["2"][name] for name in ("radialvicreg", "vicreg")]
    accuracies = [mean for method in methods for cell in method.values() for mean, _ in cell.values()]
    assert len(accuracies) == 12
    assert [round(round(value * 15) / 15, 2) for value in accuracies] == accuracies


def test_the_counts_are_those_of_the_published_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
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


def test_its_own_division_is_a_choice(imagenette: Path, tmp_path: Path) -> None:
    out = prepare_imagenet10(imagenette, tmp_path / "out", split="imagenette")
    for part in ("train", "val"):
        assert files_of(out / part) == files_of(imagenette / part)
        assert all((out / part / name).is_symlink() for name in TEN)


def test_images_without_imagenets_names_stay_in_the_part_they_lie_in(tmp_path: Path) -> None:
    for part, counts in SMALL["imagenette", "imagenet"].items():
        for name, count in counts.items():
            for index in range(count):
                write(tmp_path / "renamed" / part / name / f"{index}.JPEG")
    out = prepare_imagenet10(tmp_path / "renamed", tmp_path / "out")
    assert all((out / part / name).is_symlink() for part in ("train", "val") for name in TEN)


@pytest.mark.parametrize("source", ["imagenet", "imagenette"])
def test_a_second_time_changes_nothing(source: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(source)
    out = prepare_imagenet10(folder, tmp_path / "out")
    before = (out / "train").stat().st_ino
    prepare_imagenet10(folder, out)
    assert (out / "train").stat().st_ino == before


def test_a_folder_with_dead_links_is_refused_and_replaced_on_request(own_imagenette: Path, tmp_path: Path) -> None:
    out = prepare_imagenet10(own_imagenette, tmp_path / "out")
    (out / "note.txt").write_text("mine")
    moved = own_imagenette.rename(tmp_path / "moved")
    assert len(files_of(out / "val")) == 0
    with pytest.raises(
        UserError, match=rf"contains other images \(imagenet {own_imagenette}\) than requested " f".*{moved}"
    ):
        prepare_imagenet10(moved, out)
    assert (out / "note.txt").read_text() == "mine"
    assert len(files_of(prepare_imagenet10(moved, out, replace=True) / "val")) == 20


def test_an_interrupted_run_leaves_no_folder(imagenette: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: Iterator[int] = iter(range(30))
    link = Path.symlink_to

    def stopped(self: Path, target: Path) -> None:
        if next(made, None) is None:
            raise KeyboardInterrupt
        link(self, target)

    monkeypatch.setattr(Path, "symlink_to", stopped)
    with pytest.raises(KeyboardInterrupt):
        prepare_imagenet10(imagenette, tmp_path / "links" / "out")
    monkeypatch.setattr(Path, "symlink_to", link)
    assert [path.name for path in (tmp_path / "links").iterdir()] == [".out.lock"]
    assert len(files_of(prepare_imagenet10(imagenette, tmp_path / "links" / "out") / "val")) == 20


def test_wrong_numbers_are_named_class_by_class(own_imagenet: Path, tmp_path: Path) -> None:
    next((own_imagenet / "train" / SAW).iterdir()).unlink()
    next((own_imagenet / "val" / TEN[0]).iterdir()).unlink()
    with pytest.raises(UserError, match="incomplete: repeat both") as caught:
        prepare_imagenet10(own_imagenet, tmp_path / "out")
    assert f"train 28 of 29 images: {SAW} (chain saw) 1 of 2; val 19 of 20 images: {TEN[0]} (tench) 1 of 2." in str(
        caught.value
    )
    assert not (tmp_path / "out").exists()


def test_images_too_many_are_an_error_as_well(own_imagenet: Path, tmp_path: Path) -> None:
    write(own_imagenet / "train" / TEN[1] / f"{TEN[1]}_9999.JPEG")
    with pytest.raises(UserError, match=rf"{TEN[1]} \(English springer\) 4 of 3\. Remove added or duplicate files"):
        prepare_imagenet10(own_imagenet, tmp_path / "out")


def test_imagenets_division_is_not_taken_for_imagenettes(imagenet: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"This is ImageNet's split: omit --split imagenette"):
        prepare_imagenet10(imagenet, tmp_path / "out", split="imagenette")


def test_imagenettes_division_with_other_names_is_explained(own_imagenette: Path, tmp_path: Path) -> None:
    for index, file in enumerate(sorted(own_imagenette.glob("*/*/*.JPEG"))):
        file.rename(file.with_name(f"{index}.JPEG"))
    with pytest.raises(UserError, match=r"lack ImageNet's names.*--split imagenette"):
        prepare_imagenet10(own_imagenette, tmp_path / "out")


def test_a_missing_class_is_named(own_imagenet: Path, tmp_path: Path) -> None:
    (own_imagenet / "val" / TEN[3]).rename(tmp_path / "elsewhere")
    with pytest.raises(UserError, match=f"lacks the classes {TEN[3]}$"):
        prepare_imagenet10(own_imagenet, tmp_path / "out")


def test_a_folder_of_the_other_ten_classes_is_recognised(imagenette: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"it has the classes of --classes imagenette$"):
        prepare_imagenet10(imagenette, tmp_path / "out", classes="clustering")
    with pytest.raises(UserError, match=r"Imagenette does not contain --classes clustering"):
        prepare_imagenet10(imagenette, tmp_path / "out", "imagenette", "clustering")


def test_an_unsorted_validation_folder_is_explained(own_imagenet: Path, tmp_path: Path) -> None:
    (own_imagenet / "val").rename(tmp_path / "sorted")
    write(own_imagenet / "val" / "ILSVRC2012_val_00000001.JPEG")
    with pytest.raises(UserError, match="sorted into one folder per class"):
        prepare_imagenet10(own_imagenet, tmp_path / "out")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("imagenette2.tgz", r"is an archive: unpack it \(tar xf imagenette2.tgz\)"),
        (".", r"has no train/ and val/ .*: use --imagenet .*imagenette2"),
        ("imagenette2/train", r"has no train/ and val/ .*: use --imagenet .*imagenette2$"),
        ("imagenette2/val/n03000684", r"has no train/ and val/ with one folder per class \(SYNSET/\*.JPEG\)$"),
        ("nowhere", r"--imagenet=.*nowhere does not exist"),
        ("imagenette2/noisy_imagenette.csv", r"is not a folder"),
    ],
)
def test_another_path_is_answered_with_the_right_one(own_imagenette: Path, given: str, message: str) -> None:
    (own_imagenette.parent / "imagenette2.tgz").touch()
    with pytest.raises(UserError, match=message):
        prepare_imagenet10(own_imagenette.parent / given, own_imagenette.parent / "out")


def test_a_folder_of_something_else_is_left_alone(imagenet: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    with pytest.raises(UserError, match="not prepared by this command"):
        prepare_imagenet10(imagenet, tmp_path / "out")
    assert (tmp_path / "out" / "mine").exists()


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


def test_the_resized_forms_are_known_by_their_folders_name(own_imagenette: Path, run: Callable[..., list[str]]) -> None:
    small = own_imagenette.rename(own_imagenette.with_name("imagenette2-160"))
    status, out, error = run("--imagenette", small)
    assert (status, out) == ("0", "datasets/imagenet10-160\n")
    assert "resized: the shorter sides have 160 pixels" in error
    assert "data.train_path=datasets/imagenet10-160/train" in error
    assert run("--imagenette", small) == [status, out, error]


def test_the_resized_forms_are_known_by_their_images(own_imagenette: Path, tmp_path: Path) -> None:
    for index, file in enumerate(sorted(own_imagenette.glob("*/*/*.JPEG"))):
        write(file, (40, 32) if index % 5 else (28, 40))  # some were smaller from the start
    out = prepare_imagenet10(own_imagenette, tmp_path / "out")
    assert any("shorter sides have 32 pixels" in line for line in describe_imagenet10(out))
    assert default_folder(resized=32) == Path("datasets/imagenet10-32")


def test_images_that_cannot_be_read_do_not_count_as_resized(tmp_path: Path) -> None:
    (tmp_path / "broken.JPEG").write_bytes(b"")
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


def test_the_command_says_in_one_line_what_is_wrong(run: Callable[..., list[str]]) -> None:
    status, _, error = run("--imagenet", "nowhere", "--out", "out")
    assert (status, error.count("\n")) == (str(2), 1)
    assert "--imagenet=nowhere does not exist" in error


@pytest.fixture(scope="module")
def real_images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ImageNet's own files: one of each class of the clustering choice, and a hundred of other classes."""
    found = [root / "shared/data/imagenet_sample.tar" for root in Path(__file__).resolve().parents]
    archive = next((file for file in found if file.is_file()), None)
    if archive is None:
        pytest.skip("no shared/data/imagenet_sample.tar above this folder: ImageNet's own files are not tested")
    root = tmp_path_factory.mktemp("real")
    with tarfile.open(archive) as tar:
        tar.extractall(root, filter="data")
    return root


@pytest.mark.parametrize("side", [None, 320, 160])
def test_of_imagenets_own_files_only_the_resized_ones_are_called_so(
    real_images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side: int | None
) -> None:
    others = sorted((real_images / "unlabelled").iterdir())
    root = tmp_path / "imagenet"
    for index, name in enumerate(OTHER_TEN):
        (file,) = (real_images / "imagenet10" / name).iterdir()
        numbered = (root / "val" / name / f"ILSVRC2012_val_{index + 1:08d}.JPEG", others[index])
        for target, image_file in ((root / "train" / name / file.name, file), numbered):
            target.parent.mkdir(parents=True)
            with Image.open(image_file) as image:
                factor = 1 if side is None else side / min(image.size)
                size = [round(factor * length) for length in image.size]
                image.convert("RGB").resize(size).save(target, format="JPEG")  # type: ignore[arg-type]
    monkeypatch.setitem(
        imagenet10.COUNTS, ("clustering", "imagenet"), dict.fromkeys(("train", "val"), dict.fromkeys(OTHER_TEN, 1))
    )
    out = prepare_imagenet10(root, tmp_path / "out", classes="clustering")
    assert json.loads((out / MARKER).read_text())["resized"] == side
    folder = LabelledFolder(out / "train")
    assert (len(folder), folder.classes) == (10, list(OTHER_TEN))
