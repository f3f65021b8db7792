"""``radial-vicreg try``: images of any size and type, three methods, one figure, three sentences."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from figure_checks import check_layout
from helpers import composed
from PIL import Image

from radial_vicreg import cli
from radial_vicreg.compose import run_config
from radial_vicreg.errors import UserError
from radial_vicreg.figures import figure_style
from radial_vicreg.runs.results import RunResults
from radial_vicreg.trial import METHODS, threads
from radial_vicreg.trial import images as trial
from radial_vicreg.trial.comparison import Comparison
from radial_vicreg.trial.figure import comparison_figure
from radial_vicreg.trial.images import own_images
from radial_vicreg.trial.summary import sentences, table

Photos = Callable[..., Path]
SUFFIXES = ("jpg", "PNG", "webp", "JPEG", "bmp", "tiff")


def _image(index: int, rng: np.random.Generator) -> Image.Image:
    """An image of one of many sizes and modes."""
    width, height = (int(side) for side in rng.integers(20, 90, 2))
    pixels = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    if index % 6 == 5:  # 16-bit grey, in a TIFF
        return Image.fromarray(rng.integers(0, 65536, (height, width), dtype=np.uint16))
    image = Image.fromarray(pixels)
    return image.convert("RGBA") if index % 6 == 1 else image


@pytest.fixture
def photos(tmp_path: Path) -> Photos:
    """Writes images of any size, type and mode, by class; a class named "" lies directly in the folder."""

    def make(**counts: int) -> Path:
        rng = np.random.default_rng(0)
        root = tmp_path / "my photos"
        for label, count in counts.items():
            folder = root if label == "none" else root / label
            folder.mkdir(parents=True)
            for index in range(count):
                suffix = SUFFIXES[index % len(SUFFIXES)]
                _image(index, rng).save(folder / f"{index:04d}.{suffix}")
        return root

    return make


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
    fewer = own_images(root, tmp_path / "out")
    os.utime(next(root.glob("*.jpg")), (0, 0))  # other pixels may take as many bytes
    later = own_images(root, tmp_path / "out")
    assert len({str(images.overrides) for images in (found, fewer, later)}) == 3
    assert len(list((tmp_path / "out").glob("images-*"))) == 3


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


SMALL = ("backbone.name=timm:test_resnet", "method_kwargs.proj_output_dim=32", "max_epochs=1")
LABELS = dict(zip(METHODS, ("VICReg", "Radial-VICReg", "Radial-VICReg + mean"), strict=True))
COLUMNS = ["W1 to chi", "offset's share", "sliced W2", "effective rank"]
CURVES = {"radii": {"edges": [1.0, 2.0, 3.0], "density": [0.5, 0.5]}, "spectrum": [2.0, 1.0, 0.1], "slices": []}


def comparison(w1: float = 0.2, labelled: bool = True) -> Comparison:
    """A comparison in which Radial-VICReg has this W1, and VICReg 9."""

    def probe(top1: float) -> object:
        return {"top1": top1, "low": top1 - 2, "high": top1 + 2} if labelled else None

    def statistics(value: float) -> dict[str, float]:
        return {"w1_chi": value, "mean_share": 0.5, "sliced_w2": 0.7 / value, "effective_rank": 40.0}

    methods = [
        {"label": LABELS[name], "style": name, "run": f"runs/{name}", "steps": 88, "statistics": statistics(value)}
        for name, value in zip(METHODS, (9.0, w1, 0.5), strict=True)
    ]
    return {  # type: ignore[return-value]
        **{"radial_vicreg": "0", "count": 360, "dim": 512, "untrained": probe(94.0)},
        "methods": [{**method, "curves": CURVES, "probe": probe(96.0)} for method in methods],
        **{"normal": statistics(0.04), "normal_curves": CURVES},
    }


def test_sentences_have_the_numbers_and_no_ranking() -> None:
    lengths, directions, limits = sentences(comparison())
    assert "moves the lengths of the embeddings to chi(512): their W1 to chi is 0.20, and 9.00 with VICReg" in lengths
    assert "makes 50% of the mean squared length (50% with VICReg" in directions
    assert "are farther from a normal sample" in directions
    assert "are closer to a normal sample" in sentences(comparison(w1=10))[1]
    assert "intervals of the linear probe overlap, and one seed and 88 steps are too few" in limits
    header, rows = table(comparison())
    assert header == ["N 360, d 512", *COLUMNS, "linear probe (%)"]
    assert rows[1] == ["Radial-VICReg", "0.20", "50%", "3.50", "40", "96.0 [94.0, 98.0]"]
    assert rows[-1] == ["untrained", "", "", "", "", "94.0 [92.0, 96.0]"]
    assert {len(row) for row in rows} == {len(header)}
    assert "does not yet move the lengths" in sentences(comparison(w1=8.0))[0]
    apart = comparison()
    apart["methods"][0]["probe"] = {"top1": 80.0, "low": 78.0, "high": 82.0}
    assert "do not all overlap, but one seed" in sentences(apart)[2]


def test_images_without_labels_have_two_panels_and_no_probe() -> None:
    content = comparison(labelled=False)
    assert "The images have no labels for a probe" in sentences(content)[2]
    assert table(content)[0] == ["N 360, d 512", *COLUMNS]
    for found, titles in (
        (content, ["(a) lengths", "(b) spectrum"]),
        (comparison(), ["(a) lengths", "(b) spectrum", "(c) linear probe"]),
    ):
        with figure_style():
            figure = comparison_figure(found)
        assert [axis.get_title(loc="left") for axis in figure.axes] == titles
        check_layout(figure)


def test_the_fastest_number_of_threads_is_taken_and_the_environment_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    monkeypatch.setattr(threads, "_seconds", {4: 3.0, 2: 1.0, 1: 1.0}.get)
    try:
        torch.set_num_threads(4)
        monkeypatch.setenv("OMP_NUM_THREADS", "4")
        assert threads.fastest_threads() == torch.get_num_threads() == 4
        monkeypatch.delenv("OMP_NUM_THREADS")
        assert threads.fastest_threads() == torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.slow
def test_digits_are_prepared_trained_three_times_and_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["try", *SMALL]) == 0
    printed = capsys.readouterr().out
    content = json.loads(Path("runs/try-digits/comparison.json").read_text())
    assert all(sentence in printed for sentence in content["sentences"])
    assert Path("runs/try-digits/comparison.png").stat().st_size > 10_000
    for method in content["methods"]:
        results = RunResults.read(Path(method["run"]) / "results.json")
        assert results.radii.final is not None
        # One definition of W1 wherever one number is shown.
        assert method["statistics"]["w1_chi"] == pytest.approx(results.radii.final.eval.w1_chi, rel=1e-4)
        assert re.search(
            rf"^{re.escape(method['label'])} +{method['statistics']['w1_chi']:.2f} ", printed, re.MULTILINE
        )
    runs = sorted(path.parent for path in Path("runs").rglob("results.json"))
    assert cli.main(["try", *SMALL]) == 0  # finished runs are kept
    assert sorted(path.parent for path in Path("runs").rglob("results.json")) == runs
    assert json.loads(Path("runs/try-digits/comparison.json").read_text()) == content


@pytest.mark.slow
@pytest.mark.parametrize("labelled", [True, False], ids=["classes", "without labels"])
def test_own_images_end_with_the_command_of_a_long_run(
    labelled: bool,
    photos: Photos,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = photos(**({"cats": 60, "dogs": 60} if labelled else {"none": 100}))
    before = sorted(os.listdir(root))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    assert cli.main(["try", str(root), *SMALL]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert ("left out" in "\n".join(printed)) is False
    said, _, command = printed[-1].partition(": ")
    assert said == "a long run"
    words = ["radial-vicreg", "pretrain", "radialvicreg/dataset=folder", f'data.train_path="{root}"']
    assert shlex.split(command)[:4] == words
    content = json.loads(Path("runs/try-my photos/comparison.json").read_text())
    assert (content["untrained"] is not None) == labelled
    assert content["count"] == (24 if labelled else 100)
    assert sorted(os.listdir(root)) == before
