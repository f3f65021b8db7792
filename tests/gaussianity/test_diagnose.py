"""``radial-vicreg diagnose``: what is embedded, and the numbers that come of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import one_line, only_run
from PIL import Image
from torch import Tensor

from radial_vicreg.cli import main
from radial_vicreg.data.batches import evenly_spaced
from radial_vicreg.data.build import open_data
from radial_vicreg.diagnostics import gaussianity_statistics, normal_statistics
from radial_vicreg.errors import UserError
from radial_vicreg.export import export_run
from radial_vicreg.gaussianity import measure
from radial_vicreg.gaussianity import references as gaussianity_references
from radial_vicreg.gaussianity.figure import diagnose_figure
from radial_vicreg.gaussianity.forms import distinct_sources
from radial_vicreg.gaussianity.images import ImagesBelow
from radial_vicreg.gaussianity.references import normal_reference
from radial_vicreg.io.cache import FOLDER_VARIABLE, cache_folder
from radial_vicreg.probes.features import extract, feature_loader
from radial_vicreg.runs.loaded import open_run
from radial_vicreg.runs.results import RunResults


def outputs_of(run: Path, untrained: bool = False) -> dict[str, Tensor]:
    """Encoder's and projector's outputs of a run's validation images, in one pass."""
    opened = open_run(run, untrained=untrained)
    images = open_data(opened.config).validation_set()
    assert images is not None
    found, _ = extract(opened.model, feature_loader(images, 0), ("feats", "z"))
    return {"encoder": found["feats"], "projector": found["z"]}


def test_a_run_has_the_statistics_of_both_outputs_beside_those_of_normal_samples(
    finished_run: Callable, diagnosed: Callable
) -> None:
    folder = finished_run("standalone")
    (source,) = diagnosed(folder)["sources"]
    assert (source["label"], source["details"]["epoch"]) == ("radialvicreg", 2)
    for name, z in outputs_of(folder).items():
        output = source["outputs"][name]
        assert (output["count"], output["dim"]) == tuple(z.shape)
        assert output["statistics"] == pytest.approx(gaussianity_statistics(z), rel=1e-4, abs=1e-6)
        assert output["normal"] == pytest.approx(normal_statistics(*z.shape))
        assert len(output["curves"]["raw"]["slices"]) == 256


def test_what_a_shell_makes_of_runs_counts_each_run_once(
    finished_run: Callable, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Such as ``runs/*/*``: ``latest`` leads to a run that has a folder of its own, and files are no sources."""
    run = finished_run("standalone")
    found = [str(path) for path in sorted(run.parents[1].glob("*/*"))]
    assert str(run.parents[1] / "latest" / "epochs.csv") in found
    (log := tmp_path / "sweeps").mkdir()
    assert main(["diagnose", *found, str(log), "--max-images", "4"]) == 0
    printed = capsys.readouterr()
    assert [line for line in printed.out.splitlines() if str(run) in line] != []
    assert "radialvicreg 2" not in printed.out
    files, empty, again = printed.err.splitlines()
    assert files.startswith("skipped files of a run: ")
    assert "epochs.csv" in files
    assert empty == f"skipped folders without a checkpoint: {log}"
    assert again == f"skipped further names of the same runs: {run.parents[1] / 'latest' / 'checkpoints'}"


def test_names_of_which_none_is_a_source_are_refused(finished_run: Callable, tmp_path: Path) -> None:
    run = finished_run("standalone")
    with pytest.raises(UserError, match="contains no checkpoint"):
        distinct_sources([str(tmp_path), str(run / "results.json")])
    with pytest.raises(UserError, match="is a file of a run; give the run's folder"):
        distinct_sources([str(run / "epochs.csv"), str(run / "results.json")])
    assert distinct_sources([str(run / "results.json")]) == ([str(run / "results.json")], [])


def test_a_run_that_measures_gaussianity_has_the_same_numbers_in_its_results(
    tiny_overrides: list[str], tmp_path: Path, diagnosed: Callable
) -> None:
    assert main(["pretrain", *tiny_overrides, "host=standalone", "diagnostics.gaussianity=true"]) == 0
    folder = only_run(tmp_path / "runs")
    radii = RunResults.read(folder / "results.json").radii
    output = diagnosed(folder)["sources"][0]["outputs"]["projector"]
    assert radii.final is not None
    assert radii.normal is not None
    assert radii.final.eval.plain() == pytest.approx(output["statistics"], rel=1e-3, abs=1e-5)
    assert radii.normal.plain() == pytest.approx(output["normal"])
    logged = (folder / "epochs.csv").read_text().splitlines()[0].split(",")
    assert {"radius_eval/epps_pulley", "radius_batch/standardised_sliced_w2"} <= set(logged)


def test_a_checkpoint_and_a_folder_above_a_single_run_are_that_run(finished_run: Callable, diagnosed: Callable) -> None:
    folder = finished_run("standalone")
    found = diagnosed(folder)["sources"][0]["outputs"]
    for other in (folder / "checkpoints" / "last.ckpt", folder.parent, folder.parents[1]):
        assert diagnosed(other)["sources"][0]["outputs"] == found


def test_the_untrained_network_stands_in_front_when_asked_for(finished_run: Callable, diagnosed: Callable) -> None:
    folder = finished_run("standalone")
    sources = diagnosed(folder, "--untrained")["sources"]
    assert [source["label"] for source in sources] == ["untrained", "radialvicreg"]
    expected = gaussianity_statistics(outputs_of(folder, untrained=True)["projector"])
    found = sources[0]["outputs"]["projector"]["statistics"]
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-6)
    assert found["w1_chi"] != sources[1]["outputs"]["projector"]["statistics"]["w1_chi"]


@pytest.mark.parametrize("flat", [True, False], ids=["flat", "class folders"])
def test_an_export_and_its_run_have_the_same_features_of_the_same_images(
    finished_run: Callable, diagnosed: Callable, image_folder: Callable, tmp_path: Path, flat: bool
) -> None:
    folder = finished_run("standalone")
    images = image_folder("images", per_class=3, size=40)
    if flat:
        for file in list(images.rglob("*.png")):
            file.rename(images / f"{file.parent.name}-{file.name}")
    export_run(folder, "timm", tmp_path / "export")
    exported, run = diagnosed(tmp_path / "export", folder, "--images", images)["sources"]
    assert set(exported["outputs"]) == {"encoder"}
    found = exported["outputs"]["encoder"]
    assert (found["count"], found["dim"]) == (9, 24)
    assert found["statistics"] == pytest.approx(run["outputs"]["encoder"]["statistics"], rel=1e-4, abs=1e-6)
    assert exported["label"] == "exported vit_tiny_patch16_224"


def test_a_matrix_is_read_as_it_is(diagnosed: Callable, matrix: Callable) -> None:
    z = np.random.default_rng(0).normal(size=(50, 7))
    (source,) = diagnosed(matrix(z))["sources"]
    output = source["outputs"]["embeddings"]
    assert output["statistics"] == pytest.approx(gaussianity_statistics(torch.from_numpy(z)))
    assert source["label"] == "z"


def test_of_many_rows_or_images_evenly_spaced_ones_are_taken(diagnosed: Callable, matrix: Callable) -> None:
    assert evenly_spaced(10, 4) == [0, 2, 5, 7]
    assert evenly_spaced(3, 10) == [0, 1, 2]
    z = np.random.default_rng(0).normal(size=(20, 3))
    output = diagnosed(matrix(z), "--max-images", 5)["sources"][0]["outputs"]["embeddings"]
    assert output["statistics"] == pytest.approx(gaussianity_statistics(torch.from_numpy(z[::4])))


def test_constant_embeddings_have_finite_numbers_and_a_figure(diagnosed: Callable, matrix: Callable) -> None:
    z = np.full((12, 5), 0.1, dtype=np.float32)
    content = diagnosed(matrix(z))
    statistics = content["sources"][0]["outputs"]["embeddings"]["statistics"]
    assert None not in statistics.values()  # JSON has null for what is not finite
    assert statistics["constant_dimensions"] == 5
    diagnose_figure(content).canvas.draw()


def test_the_same_seed_gives_the_same_numbers(diagnosed: Callable, matrix: Callable) -> None:
    file = matrix(np.random.default_rng(0).normal(size=(20, 3)))
    assert diagnosed(file) == diagnosed(file)
    assert diagnosed(file, "--seed", 1)["normal_curves"] != diagnosed(file)["normal_curves"]


def test_out_gets_numbers_and_figure_and_equal_names_are_numbered(
    matrix: Callable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = matrix(np.random.default_rng(0).normal(size=(20, 3)))
    assert main(["diagnose", str(file), str(file), "--out", str(tmp_path / "out")]) == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir() if not path.name.startswith(".")) == [
        "diagnose.json",
        "diagnose.pdf",
        "diagnose.png",
        "diagnose.svg",
        "radial_vicreg_diagnose.json",
    ]
    with Image.open(tmp_path / "out" / "diagnose.png") as image:
        assert len(image.convert("RGB").getcolors(1 << 20) or []) > 50  # something is drawn
    assert (tmp_path / "out" / "diagnose.pdf").read_bytes().startswith(b"%PDF")
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[0] == f"z 1: {file}"
    header = next(line for line in lines if line.startswith("embeddings "))
    assert header.split() == ["embeddings", "z", "1", "z", "2", "normal"]
    assert len({len(line) for line in lines[2:16]}) == 1  # aligned
    assert captured.err == ""  # no progress bar in a pipe


def test_sources_of_several_sizes_have_their_own_normal_columns(
    matrix: Callable, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    files = [matrix(rng.normal(size=size), name) for size, name in (((20, 3), "a"), ((20, 3), "b"), ((30, 3), "c"))]
    assert main(["diagnose", *map(str, files)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["embeddings", "a", "b", "normal", "c", "normal"] in lines
    assert ["embeddings", "N", "20", "20", "20", "30", "30"] in lines


def test_hidden_folders_are_no_images_and_bad_ones_can_be_left_out(image_folder: Callable) -> None:
    images = image_folder("images", classes=1, per_class=3)
    shutil.copytree(images / "class_0", images / "class_0" / ".ipynb_checkpoints")
    (images / "bad.png").write_bytes(b"?")
    assert len(ImagesBelow(images)) == 4
    assert len(ImagesBelow(images, on_bad_image="skip")) == 3


def test_an_image_that_cannot_be_read_is_one_line_or_left_out(
    finished_run: Callable, diagnosed: Callable, image_folder: Callable, capsys: pytest.CaptureFixture[str]
) -> None:
    images = image_folder("images", classes=1, per_class=3)
    (images / "bad.png").write_bytes(b"?")
    words = [finished_run("standalone"), "--images", images]
    assert main(["diagnose", *map(str, words)]) == 2
    one_line(capsys.readouterr().err, "cannot read the image", "bad.png")
    (images / "class_0" / "a.gif").touch()
    (source,) = diagnosed(*words, "--on-bad-image", "skip")["sources"]
    assert source["outputs"]["encoder"]["count"] == 3
    assert source["details"]["omitted_files"] == {".gif": 1}
    assert "omitted 1 file of unsupported types: 1 .gif (a.gif)" in capsys.readouterr().out


def test_images_of_any_size_are_cut_to_the_run_s_resolution(
    finished_run: Callable, diagnosed: Callable, tmp_path: Path
) -> None:
    (tmp_path / "images").mkdir()
    for index, size in enumerate([(300, 40), (20, 20), (32, 64)]):
        Image.new("RGB", size, (index * 80, 10, 10)).save(tmp_path / "images" / f"{index}.png")
    found = diagnosed(finished_run("standalone"), "--images", tmp_path / "images", "--batch-size", 2)
    assert found["sources"][0]["outputs"]["projector"]["count"] == 3


@pytest.fixture
def references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of normal references in an empty cache."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache" / "normal-references"


def anew() -> tuple[Any, list[int]]:
    """The reference of 40 x 5 as another process has it, and how often it was computed."""
    calls = []

    def curves(z: Tensor, seed: int) -> Any:
        calls.append(seed)
        return measure._curves(z, seed)

    normal_reference.cache_clear()
    return normal_reference(40, 5, 0, curves), calls


def test_a_normal_reference_is_computed_once_and_read_with_all_its_digits(references: Path) -> None:
    first, calls = anew()
    assert calls == [0]
    assert first.statistics == normal_statistics(40, 5)
    (file,) = references.iterdir()
    assert file.name.startswith("40x5-seed0-")
    again, calls = anew()
    assert (again, calls) == (first, [])


def test_a_damaged_reference_is_computed_anew(references: Path) -> None:
    first, _ = anew()
    (file,) = references.iterdir()
    whole = file.read_text()
    for damaged in (
        "",
        whole[: len(whole) // 2],
        whole.replace("0", "1"),
        "[]",
        whole.replace('"count": 40', '"count": 41'),
    ):
        file.write_text(damaged)
        assert anew() == (first, [0]), damaged[:80]
        assert file.read_text() == whole


def test_a_changed_statistic_or_another_pytorch_is_not_read_from_the_cache(
    references: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    anew()
    monkeypatch.setattr(gaussianity_references.torch, "__version__", "0.0")
    assert anew()[1] == [0]
    monkeypatch.setattr(gaussianity_references, "_code", lambda further: "of another version")
    assert anew()[1] == [0]
    assert len(list(references.iterdir())) == 3


def test_a_cache_that_cannot_be_written_is_passed_over(references: Path) -> None:
    references.parent.write_text("in the way")
    assert anew()[0].statistics == normal_statistics(40, 5)


def test_the_cache_is_the_user_s_folder_for_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "radial-vicreg"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder() == tmp_path / "home" / ".cache" / "radial-vicreg"
