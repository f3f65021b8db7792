"""Runs of 0.2.0 (commit f6043d9) are found, read, resumed, probed, exported and reported, under the names they have.

Where 0.2.0 hashed all of a run's settings, its hash stays. What it left out of the hash (``gradient_clip_val``, ...) is
in the stored configuration, and the runs of ``merged`` differ in nothing else.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from helpers import composed
from old_releases import (
    EPOCHS,
    KL,
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
from omegaconf import OmegaConf
from stored import MERGED, MERGED_HASH, STORED, Stored

from radial_vicreg.cli import main
from radial_vicreg.compose import run_config
from radial_vicreg.config import RunConfig
from radial_vicreg.report.collect import collect, group
from radial_vicreg.runs.loaded import open_run
from radial_vicreg.runs.results import RunResults
from radial_vicreg.runs.stored import RunsByIdentity, stored_runs
from radial_vicreg.train.run_folder import find_run_folder
from radial_vicreg.train.run_name import named

FINISHED = {
    "standalone": "standalone/runs/radialvicreg-*-d8230bc818a2/*",
    "solo": "solo/runs/radialvicreg-*-d8230bc818a2/*",
    "main_pretrain": "main_pretrain/trained_models/radialvicreg/0",
}
PROBED = "standalone/runs/radialvicreg-*-226601383b8f/*"
KILLED = "runs/radialvicreg-*-15c9bb484344/*"  # two of three epochs done


def requested(overrides: list[str], arguments: str) -> RunConfig:
    """The configuration that a command asks for, with its final name; what sets a key is not composed anew."""
    given = arguments.split()
    groups = [each for each in given if "/" in each.partition("=")[0]]
    cfg = composed("radialvicreg", *overrides, *groups)
    OmegaConf.set_struct(cfg, False)
    cfg.merge_with_dotlist([each.lstrip("+") for each in given if each not in groups])
    return named(run_config(cfg), Path("nowhere"))


# ---- identity, names and folders ----


@pytest.mark.parametrize("stored", STORED, ids=lambda stored: stored.config_hash)
def test_a_run_and_the_same_request_have_the_identity_name_and_folder_that_it_was_given(
    stored: Stored, overrides: list[str], reading: Path
) -> None:
    given = {"config_hash": stored.config_hash, "experiment_hash": stored.experiment_hash}
    for folder in stored.folders:
        results = RunResults.read(reading / folder / "results.json")
        assert (results.config_hash, results.experiment_hash) == tuple(given.values()), folder
        assert results.identity.hashes == given, folder
        assert results.name == stored.name, folder
        if folder.startswith("main_pretrain"):
            assert json.loads((reading / folder / "args.json").read_text())["name"] == stored.name
    config = requested(overrides, stored.arguments)
    assert config.name == stored.name
    chosen = find_run_folder(config).parent.name
    assert {chosen} == {Path(folder).parent.name for folder in stored.folders if "/runs/" in folder}


def test_of_the_runs_that_0_2_gave_one_identity_a_request_finds_that_of_its_settings_alone(
    overrides: list[str], reading: Path
) -> None:
    found = [run.results for run in stored_runs("merged")]
    assert [results.config_hash for results in found] == [MERGED_HASH] * 8
    assert len({json.dumps(results.plain()["history"]) for results in found}) == 8, "their weights differ"
    runs = RunsByIdentity(stored_runs("merged/runs"))
    for settings, run in MERGED.items():
        config = requested(overrides, f"{' '.join(KL)} max_epochs=2 {settings}")
        assert [one.folder.name for one in runs.of(config)] == [run], settings
    (attributes,), (classes,) = (stored_runs(f"merged/attributes_{value}") for value in ("true", "false"))
    assert attributes.results.identity != classes.results.identity


def test_ckpt_auto_hands_out_no_run_of_other_settings(overrides: list[str], reading: Path) -> None:
    asked = f"{' '.join(KL)} max_epochs=3 runs_dir=standalone/runs ckpt=auto"
    assert find_run_folder(requested(overrides, asked)).path is not None  # the killed run
    for settings in ("+gradient_clip_val=5.0", "+limit_train_batches=1", "data.format=device"):
        assert find_run_folder(requested(overrides, f"{asked} {settings}")).path is None


# ---- listed, reported, swept ----


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("standalone", {("finished", 2): 3, ("running", 2): 1, ("running", 1): 1}),
        ("main_pretrain", {("finished", 2): 1, ("running", 2): 2}),
        ("merged", {("finished", 2): 8}),
        ("handed_out", {("finished", 3): 1}),
        ("sweep", {("finished", 2): 3, ("interrupted", 1): 1, ("running", 0): 1, ("failed", 0): 2}),
    ],
)
def test_runs_are_listed(
    folder: str, expected: dict[tuple[str, int], int], reading: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", folder, "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert Counter((run["status"], run["epochs"]) for run in listed) == expected


def test_the_runs_of_both_hosts_are_one_experiment_and_one_without_validation_is_another(reading: Path) -> None:
    folders = ("standalone", "solo", "main_pretrain")
    experiments, repeated = group([run for folder in folders for run in collect(folder)[0]])
    kl = [found for found in experiments if found.setting.objective == "kl"]
    assert {found.runs[0].results.images.val != (): [run.seed for run in found.runs] for found in kl} == {
        True: [5, 6],
        False: [5],
    }, "main_pretrain.py validated on no images"
    assert [problem.kind for problem in repeated] == ["repeated"], "seed 5 ran on either host"


def test_the_report_drops_no_run_of_other_settings_as_repeated(reading: Path) -> None:
    experiments, repeated = group(collect("merged/runs")[0])
    assert (len(experiments), repeated) == (len(MERGED), [])


@pytest.mark.slow
def test_the_report_is_written(release: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "standalone", "--out", "report"]) == 0
    assert "3 finished runs in 2 experiments" in capsys.readouterr().out
    assert (release / "report" / "report.html").is_file()


@pytest.mark.parametrize(
    ("sweep", "expected"),
    [
        ("states", ["finished", "finished", "interrupted", "running", "failed", "failed", "missing", "missing"]),
        ("clipping", ["finished", "missing"]),
    ],
)
def test_a_sweep_finds_what_became_of_its_runs(
    sweep: str, expected: list[str], overrides: list[str], reading: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert statuses(capsys, overrides, sweep) == expected


# ---- resumed ----


@pytest.mark.slow
@pytest.mark.parametrize(
    ("host", "ckpt"), [("standalone", "auto"), pytest.param("solo", "path", marks=pytest.mark.solo)]
)
def test_a_killed_run_is_resumed_in_its_folder(
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
    assert results_of(folder)["name"] == before["name"]


def test_a_finished_run_is_found_and_not_trained_again(
    overrides: list[str], only: Only, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = only(FINISHED["standalone"])
    before = (folder / "results.json").read_bytes()
    assert resume(overrides, "standalone", "auto", "max_epochs=2") == 0
    assert f"run folder: {folder}" in capsys.readouterr().out
    assert (folder / "results.json").read_bytes() == before


@pytest.mark.solo
@pytest.mark.slow
def test_main_pretrain_s_own_auto_resume_finds_a_killed_run_by_its_name(tmp_path: Path) -> None:
    release = copy_release("second_release", tmp_path)
    given = [f"max_epochs={EPOCHS}", "checkpoint.dir=main_pretrain/clipped", "+gradient_clip_val=5.0"]
    assert "Resuming from previous checkpoint" in run_main_pretrain(release, 1, *given)
    folder = release / "main_pretrain" / "clipped" / "radialvicreg" / "1"  # a new one, as that script has it
    killed = results_of(folder.with_name("0"))
    after = results_of(folder)
    assert after["name"] == killed["name"]
    assert (killed["status"], after["status"], after["steps"]) == ("interrupted", "finished", 9)
    assert (after["epochs"], epochs_of(after)) == (EPOCHS, [1, 2, 3])
    assert after["history"][:2] == killed["history"]
    assert open_run(folder).epoch == EPOCHS


# ---- opened, probed, exported ----


@pytest.mark.parametrize("pattern", [PROBED, FINISHED["main_pretrain"]], ids=["again", "main_pretrain"])
def test_a_run_is_probed_and_the_figures_join_its_results(pattern: str, only: Only) -> None:
    folder = only(pattern)
    before = RunResults.read(folder / "results.json")
    val = ["--val", "images/val"] if pattern != PROBED else []  # it had none
    assert main(["probe", str(folder), "--probe", "linear", "--add-to-results", *val]) == 0
    written = json.loads((folder / "probes" / "linear-encoder.json").read_text())
    assert (written["epoch"], written["train_images"], written["val_images"], written["feature_dim"]) == (2, 18, 9, 8)
    assert results_of(folder)["probes"]["offline_linear_encoder"]["top1"] == written["test"]["top1"]
    if pattern == PROBED:
        assert before.probe("offline_linear_encoder").top1 == written["test"]["top1"]


@pytest.mark.parametrize("kind", list(FINISHED))
def test_a_run_is_opened_and_exported(kind: str, only: Only) -> None:
    folder = only(FINISHED[kind])
    run = open_run(folder)
    assert (run.epoch, run.config.seed, run.config.rates.lr) == (2, 5, pytest.approx(0.3 * 6 / 256))
    assert_exported(folder)


def test_runs_check_names_what_0_2_merged_handed_out_or_recorded_wrongly(
    reading: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def checked(folder: str) -> list[str]:
        capsys.readouterr()
        status = main(["runs", folder, "--check", "--json"])
        reasons = [doubt["reason"] for doubt in json.loads(capsys.readouterr().out)]
        assert status == bool(reasons)
        return reasons

    assert checked("standalone") == []
    assert checked("solo") == []
    merged = checked("merged/runs")
    assert len(merged) == len(MERGED)
    assert all("release 0.2 treated it" in reason for reason in merged)
    assert ["its 3 epochs had 7 batches, but the last one had 3" in reason for reason in checked("handed_out")] == [
        True
    ]
    assert ["optimizer.lr=0.001" in reason for reason in checked("other_rate")] == [True]


def test_a_run_without_the_checkpoint_of_its_figures_is_finished_and_not_exported(
    reading: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run,) = stored_runs("without_last")
    assert run.results.status == "finished"
    assert main(["export", str(run.folder), "--format", "timm", "--out", str(reading / "export")]) == 2
    assert "results of epoch 2 (results.json) and weights of epoch 1" in capsys.readouterr().err
