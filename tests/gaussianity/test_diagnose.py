"""``radial-vicreg diagnose``: what is embedded, and the numbers that come of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from figure_checks import check_files
from helpers import one_line, only_run
from PIL import Image
from torch import Tensor

from radial_vicreg.cli import main
from radial_vicreg.data.build import open_data
from radial_vicreg.diagnostics import dimension_statistics, gaussianity_statistics, lidar
from radial_vicreg.diagnostics.gaussianity import normal_sample
from radial_vicreg.errors import UserError
from radial_vicreg.export import export_run
from radial_vicreg.gaussianity import references as gaussianity_references
from radial_vicreg.gaussianity.figure import diagnose_figure
from radial_vicreg.gaussianity.forms import distinct_sources
from radial_vicreg.gaussianity.matrix import matrix_statistics, statistics_and_curves
from radial_vicreg.gaussianity.references import FEWEST, FULL, draws_for, normal_reference
from radial_vicreg.gaussianity.table import ROWS, tables
from radial_vicreg.io.cache import FOLDER_VARIABLE, cache_folder
from radial_vicreg.probes.features import extract, feature_loader
from radial_vicreg.runs.loaded import open_run
from radial_vicreg.runs.results import RunResults


def statistics_of(z: Tensor) -> dict[str, float]:
    """What is printed of one matrix."""
    return {**gaussianity_statistics(z), **dimension_statistics(z)}


def outputs_of(run: Path, untrained: bool = False) -> dict[str, Tensor]:
    """Encoder's and projector's outputs of a run's validation images, in one pass."""
    opened = open_run(run, untrained=untrained)
    images = open_data(opened.config).validation_set()
    assert images is not None
    found, _ = extract(opened.model, feature_loader(images, 0), ("feats", "z"))
    return {"encoder": found["feats"], "projector": found["z"]}


def test_a_run_has_the_statistics_of_both_outputs_and_the_untrained_network_stands_in_front(
    finished_run: Callable, diagnosed: Callable
) -> None:
    folder = finished_run("standalone")
    before, after = sources = diagnosed(folder, "--untrained")["sources"]
    assert [source["label"] for source in sources] == ["untrained", "radialvicreg"]
    assert after["details"]["epoch"] == 2
    for source, untrained in ((before, True), (after, False)):
        for name, z in outputs_of(folder, untrained).items():
            output = source["outputs"][name]
            assert (output["count"], output["dim"]) == tuple(z.shape)
            assert output["statistics"] == pytest.approx(statistics_of(z), rel=1e-4, abs=1e-6, nan_ok=True)
            assert len(output["curves"]["raw"]["slices"]) == 256
    assert before["outputs"]["projector"]["statistics"] != after["outputs"]["projector"]["statistics"]
    for other in (folder / "checkpoints" / "last.ckpt", folder.parents[1]):
        assert diagnosed(other)["sources"][0]["outputs"] == after["outputs"]


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
    for names, said in (
        ([tmp_path, run / "results.json"], "contains no checkpoint"),
        ([run / "epochs.csv", run / "results.json"], "is a file of a run; give the run's folder"),
    ):
        with pytest.raises(UserError, match=said):
            distinct_sources([str(name) for name in names])


def test_a_run_that_measures_gaussianity_has_the_same_numbers_in_its_results(
    tiny_overrides: list[str], tmp_path: Path, diagnosed: Callable
) -> None:
    assert main(["pretrain", *tiny_overrides, "host=standalone", "diagnostics.gaussianity=true"]) == 0
    folder = only_run(tmp_path / "runs")
    radii = RunResults.read(folder / "results.json").radii
    output = diagnosed(folder)["sources"][0]["outputs"]["projector"]
    assert radii.final is not None
    assert radii.normal is not None
    measured = radii.final.eval.plain()
    assert measured == pytest.approx({name: output["statistics"][name] for name in measured}, rel=1e-3, abs=1e-5)
    assert radii.normal.plain().keys() <= output["normal"].keys()
    logged = (folder / "epochs.csv").read_text().splitlines()[0].split(",")
    assert {"radius_eval/epps_pulley", "radius_batch/standardised_sliced_w2"} <= set(logged)


def test_an_export_and_its_run_have_the_same_features_of_the_same_images(
    finished_run: Callable, diagnosed: Callable, image_folder: Callable, tmp_path: Path
) -> None:
    folder = finished_run("standalone")
    images = image_folder("images", per_class=3, size=40)
    for file in list(images.rglob("class_0/*.png")):
        file.rename(images / file.name)  # not all of them in folders
    export_run(folder, "timm", tmp_path / "export")
    exported, run = diagnosed(tmp_path / "export", folder, "--images", images)["sources"]
    assert exported["label"] == "exported vit_tiny_patch16_224"
    assert set(exported["outputs"]) == {"encoder"}
    found, expected = (source["outputs"]["encoder"] for source in (exported, run))
    assert (found["count"], found["dim"]) == (9, 24)
    assert found["statistics"] == pytest.approx(expected["statistics"], rel=1e-4, abs=1e-6, nan_ok=True)


def test_a_matrix_is_shown_with_median_band_and_percentile_of_normal_samples_of_its_size(
    diagnosed: Callable, matrix: Callable
) -> None:
    z = np.random.default_rng(0).normal(size=(40, 5)) + 0.3
    content = diagnosed(matrix(z), "--seed", 3)
    (source,) = content["sources"]
    output = source["outputs"]["embeddings"]
    assert source["label"] == "z"
    assert output["statistics"] == pytest.approx({**matrix_statistics(torch.from_numpy(z), 3)}, nan_ok=True)
    draws, drawn_curves = zip(
        *(statistics_and_curves(normal_sample(40, 5, 3, draw), 3) for draw in range(FULL)), strict=True
    )
    assert content["normal_draws"] == output["draws"] == FULL
    for name in ROWS.keys() - {"dim", "lidar", "worst_dimension"}:
        values = [drawn[name] for drawn in draws]
        assert output["normal"][name] == pytest.approx(np.median(values)), name
        assert output["normal_band"][name] == pytest.approx((min(values), max(values))), name
        value = output["statistics"][name]
        rank = sum((other < value) + (other == value) / 2 for other in values)
        assert output["percentile"][name] == pytest.approx(100 * rank / FULL), name
    assert "worst_dimension" not in output["normal"]
    curves = content["normal_curves"]["40x5"]["raw"]
    spectra = [drawn["raw"]["spectrum"] for drawn in drawn_curves]
    assert curves["spectrum"] == pytest.approx(np.median(spectra, axis=0).tolist())
    assert curves["spectrum_band"] == [np.min(spectra, axis=0).tolist(), np.max(spectra, axis=0).tolist()]


def test_the_number_of_normal_samples_depends_on_the_size_alone() -> None:
    assert 2 / (FULL + 1) == 0.05  # chances that another normal sample is the least or the largest of all
    assert draws_for(10_000, 100) == draws_for(1000, 1000) == draws_for(2, 4) == FULL
    assert [draws_for(10_000, dim) for dim in (101, 512, 1024, 2048, 4096)] == [12, 8, 4, FEWEST, FEWEST]


@pytest.mark.usefixtures("references")
def test_few_normal_samples_have_a_range_and_mark_nothing(matrix: Callable, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(matrix(np.random.default_rng(0).normal(size=(26, 4)) + 9))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["embeddings", "z", "normal", "range", "of", str(FEWEST)]
    assert not any("*" in line for line in lines), "a normal sample leaves the range of three draws half the time"
    assert any(line.startswith(f"range of {FEWEST}: their range, which another") for line in lines)


def test_a_cube_with_normal_radii_is_marked(matrix: Callable, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    signs = np.sign(rng.normal(size=(100, 16))) / 4
    z = signs * np.linalg.norm(rng.normal(size=(100, 16)), axis=1, keepdims=True)
    assert main(["diagnose", str(matrix(z))]) == 0
    marked = {line[:34].strip() for line in capsys.readouterr().out.splitlines() if " * " in line}
    assert ROWS["failing_dimensions"] in marked
    assert not {ROWS[name] for name in ("w1_chi", "sliced_w2", "epps_pulley")} & marked, "what averages sees nothing"


def test_views_have_lidar_of_all_and_the_statistics_of_the_first(
    matrix: Callable, diagnosed: Callable, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    views = (rng.normal(size=(80, 5)) + 0.3 * rng.normal(size=(3, 80, 5))).astype(np.float32)
    (source,) = diagnosed(matrix(views), "--max-images", 40)["sources"]
    output = source["outputs"]["embeddings"]
    chosen = torch.from_numpy(views[:, ::2])
    assert (output["count"], source["details"]["rows"], source["details"]["views"]) == (40, 80, 3)
    assert output["statistics"].pop("lidar") == pytest.approx(lidar(chosen))
    assert output["statistics"] == pytest.approx(statistics_of(chosen[0]))
    assert "lidar" not in output["normal"]
    assert main(["diagnose", str(matrix(views)), "--max-images", "40"]) == 0
    printed = capsys.readouterr().out
    assert "z.npy; 3 views: LiDAR of all, every other row of the first" in printed


def test_constant_embeddings_have_finite_numbers_and_a_figure(diagnosed: Callable, matrix: Callable) -> None:
    z = np.full((40, 5), 0.1, dtype=np.float32)
    content = diagnosed(matrix(z))
    output = content["sources"][0]["outputs"]["embeddings"]
    finite = {name for name, value in output["statistics"].items() if np.isfinite(value)}
    assert output["statistics"].keys() - finite == dimension_statistics(torch.zeros(40, 5)).keys()
    assert output["percentile"].keys() == output["normal"].keys() & finite
    assert output["statistics"]["constant_dimensions"] == 5
    diagnose_figure(content).canvas.draw()


@pytest.mark.slow  # test_drawing.py looks at the figure
def test_out_gets_numbers_and_figure(matrix: Callable, tmp_path: Path) -> None:
    file, out = matrix(np.random.default_rng(0).normal(size=(20, 3))), tmp_path / "out"
    assert main(["diagnose", str(file), "--out", str(out)]) == 0
    written = sorted(path.name for path in out.iterdir() if not path.name.startswith("."))
    assert written == [*(f"diagnose.{kind}" for kind in ("json", "pdf", "png", "svg")), "radial_vicreg_diagnose.json"]
    check_files(out / "diagnose")


def test_a_value_next_to_a_narrow_band_looks_outside(diagnosed: Callable, matrix: Callable) -> None:
    content = diagnosed(*(matrix(np.random.default_rng(0).normal(size=(rows, 3)), f"z{rows}") for rows in (20, 30)))
    wide, narrow = (source["outputs"]["embeddings"] for source in content["sources"])
    wide["normal_band"]["w1_chi"] = (0.1, 0.9)
    narrow["normal_band"]["w1_chi"], narrow["statistics"]["w1_chi"] = (0.12341, 0.12342), 0.12339
    ((_, rows),) = tables(content)
    row = next(row for row in rows if row[0] == ROWS["w1_chi"])
    assert [row[index].strip() for index in (5, -1)] == ["0.12339 *", "0.12341 to 0.12342"]


def test_sources_of_several_sizes_have_their_own_normal_columns(
    matrix: Callable, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    small, other = matrix(rng.normal(size=(26, 4))), matrix(rng.normal(size=(40, 5)), "other")
    assert main(["diagnose", *map(str, (small, small, other))]) == 0
    printed = capsys.readouterr()
    lines = [line.split() for line in printed.out.splitlines()]
    reference = ["normal", "95", "%", "band"]
    assert ["embeddings", "z", "1", "pct", "z", "2", "pct", *reference, "other", "pct", *reference] in lines
    assert ["embeddings", "N", "26", "26", "26", "40", "40"] in lines
    assert printed.err == ""  # no progress bar in a pipe


def test_images_are_cut_to_the_run_s_resolution_and_bad_ones_are_one_line_or_left_out(
    finished_run: Callable, diagnosed: Callable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images = tmp_path / "images"
    (images / ".ipynb_checkpoints").mkdir(parents=True)
    for index, size in enumerate([(300, 40), (20, 20), (32, 64)]):
        Image.new("RGB", size, (index * 80, 10, 10)).save(images / f"{index}.png")
    shutil.copy(images / "0.png", images / ".ipynb_checkpoints")
    (images / "bad.png").write_bytes(b"?")
    (images / "a.gif").touch()
    words = [finished_run("standalone"), "--images", images, "--batch-size", 2]
    assert main(["diagnose", *map(str, words)]) == 2
    printed = capsys.readouterr()
    one_line(printed.err, "cannot read the image", "bad.png")
    assert "omitted 1 file of unsupported types: 1 .gif (a.gif)" in printed.out
    (source,) = diagnosed(*words, "--on-bad-image", "skip")["sources"]
    assert source["outputs"]["projector"]["count"] == 3
    assert source["details"]["omitted_files"] == {".gif": 1}


@pytest.fixture
def references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of normal references in an empty cache."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(gaussianity_references, "_FULL_UP_TO", 0)  # every size takes long
    monkeypatch.setattr(gaussianity_references, "_SECONDS", 0)
    normal_reference.cache_clear()
    yield tmp_path / "cache" / "normal-references"
    normal_reference.cache_clear()


def anew() -> tuple[Any, list[int]]:
    """The reference of 40 x 5 as another process has it, and how often it was computed."""
    calls = []

    def counted(z: Tensor, seed: int) -> Any:
        calls.append(seed)
        return statistics_and_curves(z, seed)

    normal_reference.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gaussianity_references, "statistics_and_curves", counted)
        return normal_reference(40, 5, 0), calls


def test_a_normal_reference_is_computed_once_and_read_with_all_its_digits(references: Path) -> None:
    first, calls = anew()
    assert calls == [0] * FEWEST
    assert first.values["kl"][0] == matrix_statistics(normal_sample(40, 5), 0)["kl"]
    (file,) = references.iterdir()
    assert file.name.startswith("40x5-seed0-")
    again, calls = anew()
    assert (again, calls) == (first, [])


def test_a_damaged_reference_is_computed_anew(references: Path) -> None:
    first, _ = anew()
    (file,) = references.iterdir()
    whole = file.read_text()
    for damaged in ("", "[]", whole.replace("0", "1"), whole.replace('"count": 40', '"count": 41')):
        file.write_text(damaged)
        assert anew() == (first, [0] * FEWEST), damaged[:80]
        assert file.read_text() == whole


def test_a_cache_of_another_pytorch_or_that_cannot_be_written_is_passed_over(
    references: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    anew()
    monkeypatch.setattr(gaussianity_references.torch, "__version__", "0.0")
    assert anew()[1]
    monkeypatch.setattr(gaussianity_references, "_code", lambda: "of another version")
    shutil.rmtree(references.parent)
    references.parent.write_text("in the way")
    assert anew()[0].draws == FEWEST


def test_the_cache_is_the_user_s_folder_for_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "radial-vicreg"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder() == tmp_path / "home" / ".cache" / "radial-vicreg"
