"""Runs of the first release (commit fc2057d) are read, resumed, probed, exported and reported.

Nothing here depends on a stored hash or on what a folder's name says: what a run is, its stored configuration tells.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest
from old_releases import (
    EPOCHS,
    HOSTS,
    SWEEP,
    Only,
    assert_exported,
    assert_resumed,
    copy_release,
    epochs_of,
    results_of,
    resume,
    run_main_pretrain,
    statuses,
)
from old_runs import FINISHED

from radial_vicreg.cli import main
from radial_vicreg.loaded_run import open_run
from radial_vicreg.report.collect import collect, group

KILLED = "runs/radialvicreg-*-bc61*/*"  # two of three epochs done


# ---- reported ----


@pytest.mark.parametrize(
    ("folder", "finished", "others"),
    [
        ("standalone", 3, {"partial": 1}),
        ("solo", 2, {"partial": 1}),
        ("main_pretrain", 1, {"partial": 1}),
        ("sweep", 5, {"partial": 2, "failed": 2}),
    ],
)
def test_every_finished_run_is_reported_and_none_is_foreign(
    folder: str, finished: int, others: dict[str, int], release: Path
) -> None:
    runs, problems = collect(folder)
    assert len(runs) == finished
    assert Counter(problem.kind for problem in problems) == others


def test_the_seeds_of_an_experiment_are_pooled(release: Path) -> None:
    experiments, repeated = group(collect("standalone")[0])
    found = sorted((found.setting.objective, [run.seed for run in found.runs]) for found in experiments)
    assert found == [("kl", [5, 6]), ("none", [5])]
    assert repeated == []


def test_one_experiment_of_both_hosts_is_one_and_a_run_without_validation_is_another(release: Path) -> None:
    experiments, repeated = group(collect(".")[0])
    found = [each for each in experiments if (each.setting.objective, each.setting.weight("beta2")) == ("kl", 0.1)]
    seeds = {
        each.runs[0].results.config["data"]["val_path"] is not None: [run.seed for run in each.runs] for each in found
    }
    assert seeds == {True: [5, 6], False: [5]}, "main_pretrain.py validated on no images"
    assert any(problem.kind == "repeated" for problem in repeated), "seed 5 ran on either host"


def test_vicreg_is_one_experiment_however_it_was_written(release: Path) -> None:
    experiments, _ = group(collect(".")[0])
    (found,) = [each for each in experiments if each.setting.objective == "none"]
    assert [run.seed for run in found.runs] == [5, 6]


@pytest.mark.slow
def test_the_report_is_written(release: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "standalone", "--out", "report"]) == 0
    assert "3 finished runs in 2 experiments" in capsys.readouterr().out
    assert (release / "report" / "report.html").is_file()


# ---- sweeps ----


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "states",
            ["finished", "finished", "finished", "interrupted", "failed", "failed", "running", "missing"],
        ),
        ("precision", ["finished", "missing"]),
        ("sync_batchnorm", ["finished", "missing"]),
    ],
)
def test_a_sweep_finds_what_became_of_its_runs(
    name: str, expected: list[str], overrides: list[str], release: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert statuses(capsys, overrides, name) == expected


def test_a_finished_run_of_a_sweep_is_not_trained_again(
    overrides: list[str], release: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", "sweep/precision.yaml", "--index", "0", *overrides, *SWEEP]) == 0
    assert "run 0 is finished" in capsys.readouterr().out


@pytest.mark.slow
def test_an_interrupted_run_of_a_sweep_is_resumed(
    overrides: list[str], release: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = set(release.glob("sweep/runs/*/*/results.json"))
    assert main(["sweep", "sweep/states.yaml", "--index", "3", "--resume", *overrides, *SWEEP]) == 0
    assert set(release.glob("sweep/runs/*/*/results.json")) == before  # in its own folder
    assert statuses(capsys, overrides, "states")[3] == "finished"


# ---- resumed ----


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("ckpt", ["auto", *(pytest.param(ckpt, marks=pytest.mark.slow) for ckpt in ("last", "path"))])
def test_a_killed_run_goes_on_to_its_end(
    host: str, ckpt: str, overrides: list[str], only: Only, request: pytest.FixtureRequest
) -> None:
    if host == "solo":
        request.getfixturevalue("small_vit")
    folder = only(f"{host}/{KILLED}")
    before = results_of(folder)
    assert (before["status"], epochs_of(before)) == ("running", [1, 2])
    chosen = str(folder / "checkpoints" / "last.ckpt") if ckpt == "path" else ckpt
    assert resume(overrides, host, chosen) == 0
    assert_resumed(folder, before)


def test_a_copied_run_goes_on_from_its_last_epoch_whatever_the_file_times(
    overrides: list[str], only: Only, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = only(f"standalone/{KILLED}")
    os.utime(folder / "checkpoints" / "epoch-1.ckpt")  # now the newer one
    assert resume(overrides, "standalone", "last") == 0
    said = capsys.readouterr().out
    assert "epoch 3/3" in said
    assert "epoch 2/3" not in said


@pytest.fixture(scope="module")
def resumed_by_main_pretrain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy in which solo-learn's own script has gone on with its killed run; the run's new folder."""
    release = copy_release("first_release", tmp_path_factory.mktemp("resumed"))
    runs = release / "main_pretrain" / "trained_models" / "radialvicreg"
    # By its path: runs have other names since, so that auto-resume passes it over.
    (killed,) = (runs / "1").glob("*.ckpt")
    run_main_pretrain(release, 2, f"max_epochs={EPOCHS}", f"resume_from_checkpoint='{killed}'")
    return runs / "2"


@pytest.mark.solo
@pytest.mark.slow
def test_main_pretrain_resumes_its_own_run(resumed_by_main_pretrain: Path) -> None:
    after = results_of(resumed_by_main_pretrain)
    assert (after["status"], after["steps"], after["max_epochs"]) == ("finished", 9, EPOCHS)
    assert open_run(resumed_by_main_pretrain).epoch == EPOCHS


@pytest.mark.solo
@pytest.mark.slow
def test_main_pretrain_s_history_has_no_gap_after_resuming(resumed_by_main_pretrain: Path) -> None:
    before = results_of(resumed_by_main_pretrain.with_name("1"))
    after = results_of(resumed_by_main_pretrain)
    assert (after["epochs"], epochs_of(after)) == (EPOCHS, [1, 2, 3])
    assert after["history"][:2] == before["history"]


# ---- probed, exported ----


@pytest.mark.parametrize("kind", list(FINISHED))
@pytest.mark.parametrize("features", ["encoder", "projector"])
def test_a_run_is_probed_and_the_figures_join_its_results(kind: str, features: str, only: Only) -> None:
    folder = only(FINISHED[kind])
    val = ["--val", "images/val"] if kind == "main_pretrain" else []  # it had none
    given = ["--probe", "linear", "--features", features, "--add-to-results", *val]
    assert main(["probe", str(folder), *given]) == 0
    written = json.loads((folder / "probes" / f"linear-{features}.json").read_text())
    assert (written["epoch"], written["train_images"], written["val_images"], written["feature_dim"]) == (2, 18, 9, 8)
    added = results_of(folder)["probes"][f"offline_linear_{features}"]
    assert added["top1"] == written["test"]["top1"]


@pytest.mark.parametrize("host", ["standalone", "solo"])
@pytest.mark.parametrize("probe", ["knn", pytest.param("mlp", marks=pytest.mark.slow)])
def test_an_unfinished_run_is_probed_as_far_as_it_came(host: str, probe: str, only: Only) -> None:
    folder = only(f"{host}/{KILLED}")
    assert main(["probe", str(folder), "--probe", probe]) == 0
    assert json.loads((folder / "probes" / f"{probe}-encoder.json").read_text())["epoch"] == 2


@pytest.mark.parametrize("kind", list(FINISHED))
def test_a_run_is_exported(kind: str, only: Only) -> None:
    folder = only(FINISHED[kind])
    assert_exported(folder)
