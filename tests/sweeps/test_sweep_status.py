"""What has become of a sweep's runs, and running those that are missing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import without
from omegaconf import OmegaConf

from radial_vicreg import cli
from radial_vicreg.cli.commands import pretrain
from radial_vicreg.cli.hydra_flags import read_request
from radial_vicreg.compose import compose, run_config
from radial_vicreg.compose.points import compose_grid, composed_points
from radial_vicreg.compose.resolution import sweep_config
from radial_vicreg.data import fingerprint
from radial_vicreg.io.files import write_json
from radial_vicreg.io.notices import Notice
from radial_vicreg.runs.results import ResultsError
from radial_vicreg.sweeps import load_sweep, run_missing, states_of
from radial_vicreg.sweeps.runner import pretrain_arguments
from radial_vicreg.sweeps.status import composed_runs

WriteResult = Callable[..., Path]


@pytest.fixture
def runs_dir(tmp_path: Path) -> str:
    return f"runs_dir={tmp_path / 'runs'}"


@pytest.mark.parametrize("name", ["cifar100_resnet18_d2048", "tables/table4"])
def test_the_short_way_to_compose_gives_what_hydra_gives(name: str) -> None:
    runs = load_sweep(name).runs()
    chosen = [runs[0], runs[-1]]
    found = composed_points(runs[0].config_name, [run.overrides for run in chosen], ["max_epochs=7"])
    for run, cfg in zip(chosen, found, strict=True):
        assert OmegaConf.to_container(cfg, resolve=True) == OmegaConf.to_container(
            compose(run.config_name, [*run.overrides, "max_epochs=7"]), resolve=True
        )


def test_points_of_a_grid_are_independent_of_one_another() -> None:
    """Points with the same keys take turns in one configuration; others start from the base."""
    points = [
        ["optimizer.lr=0.3", "seed=1"],
        ["seed=2", "optimizer.lr=0.1"],
        ["seed=3"],
        ["devices=[0,1]", "seed=4"],
        ["devices=[0]", "seed=5"],
        ["radialvicreg/optimizer=adamw", "seed=6"],
        ["optimizer.lr=0.2", "seed=7"],
    ]
    found = [config.plain() for config in compose_grid("radialvicreg", points)]
    assert found == [sweep_config(compose("radialvicreg", point)).plain() for point in points]


def test_each_run_is_found_by_its_own_results(small_sweep: Path, runs_dir: str, write_result: WriteResult) -> None:
    runs = load_sweep(small_sweep).runs()
    done = write_result(runs[0], "finished")
    write_result(runs[1], "failed", error="NonFiniteLossError: loss is nan")
    write_result(runs[3], "running")
    states = states_of(runs, [runs_dir])
    assert [state.status for state in states] == ["finished", "failed", "missing", "running"]
    assert states[0].folder == done.parent
    assert states[1].error == "NonFiniteLossError: loss is nan"


def test_a_finished_result_counts_whatever_came_after(
    small_sweep: Path, runs_dir: str, write_result: WriteResult
) -> None:
    run = load_sweep(small_sweep).runs()[0]
    done = write_result(run, "finished", "early")
    later = write_result(run, "failed", "late")
    os.utime(done, (1, 1))
    os.utime(later, (2, 2))
    assert states_of([run], [runs_dir])[0].folder == done.parent


def test_a_run_on_other_images_does_not_count_and_folders_are_listed_once(
    small_sweep: Path,
    runs_dir: str,
    image_folder: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs = load_sweep(small_sweep).runs()
    paths = [f"data.{name}_path={image_folder(name, per_class=2)}" for name in ("train", "val")]
    overrides = ["radialvicreg/dataset=folder", *paths, runs_dir]
    known = fingerprint.fingerprints_of(next(composed_runs(runs[:1], overrides))).model_dump()
    for run, marks in zip(runs, (known, {**known, "val": ("2:ffffffff",)}, None), strict=False):  # the last: 0.2's
        (config,) = composed_runs([run], overrides)
        content = {"schema_version": 2, "config": config.plain(), "status": "finished"}
        content["config"]["data"] |= {} if marks is None else {"fingerprints": marks}
        write_json(tmp_path / "runs" / f"run-{run.index}" / "results.json", content)
    real, listed = fingerprint._fingerprints, []
    monkeypatch.setattr(fingerprint, "_fingerprints", lambda path, form: listed.append(path.name) or real(path, form))
    states = states_of(runs, overrides)
    assert [state.status for state in states] == ["finished", "missing", "finished", "missing"]
    assert sorted(listed) == ["train", "val"]
    reason = f"{tmp_path}/runs/run-1 was validated on other images (2:ffffffff and {known['val'][1]})"
    assert [state.apart for state in states] == [None, reason, None, None]
    assert cli.main(["sweep", str(small_sweep), "--status", *overrides]) == 0
    assert f"not counted: {reason}" in capsys.readouterr().out


def test_the_processes_of_a_sweep_get_what_was_listed(
    small_sweep: Path, runs_dir: str, image_folder: Callable[..., Path], started: Any
) -> None:
    images = image_folder("train", per_class=2)
    listed: list[str] = []

    def train(log: Path) -> int:  # in a process that inherits the environment
        listed.extend(json.loads(os.environ[fingerprint._LISTED]))
        return 0

    started.then = train
    overrides = ["radialvicreg/dataset=folder", f"data.train_path={images}", "data.val_path=null", runs_dir]
    assert run_missing("small", load_sweep(small_sweep).runs()[:2], overrides) == ([], [0, 1])
    assert listed == [str(images), str(images)]


def test_half_written_and_foreign_files_are_no_results(
    small_sweep: Path, runs_dir: str, write_result: WriteResult
) -> None:
    run = load_sweep(small_sweep).runs()[0]
    path = write_result(run, "finished")
    path.write_text(path.read_text()[:-20])
    (path.parents[1] / "results.json").write_text("[]")
    bad: list[ResultsError] = []
    assert states_of([run], [runs_dir], bad.append)[0].status == "missing"
    assert [error.reason.partition(":")[0] for error in bad] == ["not a dictionary", "cut short or not JSON"]


def test_an_override_of_a_swept_key_is_refused(small_sweep: Path) -> None:
    with pytest.raises(ValueError, match="seed: the sweep sets this key itself"):
        states_of(load_sweep(small_sweep).runs(), ["seed=1"])


def test_finished_runs_are_skipped_and_a_failed_one_does_not_stop_the_rest(
    small_sweep: Path,
    runs_dir: str,
    write_result: WriteResult,
    started: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs = load_sweep(small_sweep).runs()
    write_result(runs[1], "finished")

    def train(log: Path) -> int:
        with log.open("a") as stream:
            stream.write("working\nit broke\n\n")
        return int(log.stem == "0")

    started.then = train
    assert run_missing("small", runs, [runs_dir, "max_epochs=1"]) == ([0], [1, 2, 3])
    assert started == [runs[index].arguments("ckpt=auto", runs_dir, "max_epochs=1") for index in (0, 1, 2, 3)]
    started.clear()
    # Other overrides, other runs: run 1 was trained without them.
    assert run_missing("small", runs, [runs_dir]) == ([0], [2, 3])
    assert started == [runs[index].arguments("ckpt=auto", runs_dir) for index in (0, 2, 3)]
    assert "run 0 failed with exit status 1: it broke" in capsys.readouterr().err


def test_a_run_that_died_before_it_was_called_finished_is_returned_to_and_one_without_its_checkpoint_is_not(
    small_sweep: Path, runs_dir: str, write_result: WriteResult, started: Any
) -> None:
    runs = load_sweep(small_sweep).runs()
    write_result(runs[0], "running", epochs=400, max_epochs=400)
    write_result(runs[1], "finished", checkpoint={"name": "epoch-400.ckpt", "epoch": 400, "step": 78000})  # deleted
    write_result(runs[2], "finished", checkpoint=None)
    write_result(runs[3], "finished")  # of a version that did not name it
    assert run_missing("small", runs, [runs_dir]) == ([], [0])
    assert started == [runs[0].arguments("ckpt=auto", runs_dir)]


def test_an_override_restarts_unfinished_runs(small_sweep: Path, runs_dir: str) -> None:
    run = load_sweep(small_sweep).runs()[0]
    for overrides, ckpt in (([], "auto"), (["ckpt=null"], None)):
        request = read_request(pretrain.parser(), pretrain_arguments(run, [runs_dir, *overrides]))
        assert run_config(compose(*request.where)).ckpt == ckpt


def test_the_option_of_0_2_for_resuming_is_accepted_with_a_notice(
    small_sweep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.warns(Notice, match="--resume has no effect"):
        assert cli.main(["sweep", str(small_sweep), "--resume"]) == 0


def test_the_status_counts_and_shows_errors(
    small_sweep: Path, runs_dir: str, write_result: WriteResult, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = load_sweep(small_sweep).runs()
    write_result(runs[0], "finished")
    write_result(runs[1], "failed", error="ValueError: so\nand so")
    assert cli.main(["sweep", str(small_sweep), "--status", runs_dir]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "small: 4 runs, 1 finished, 1 failed, 2 missing"
    assert lines[0].split() == ["run", "status", "overrides", "folder", "remark"]
    assert lines[2].endswith("ValueError: so and so")


def test_an_index_that_is_finished_trains_nothing(
    small_sweep: Path, runs_dir: str, write_result: WriteResult, capsys: pytest.CaptureFixture[str]
) -> None:
    write_result(load_sweep(small_sweep).runs()[2], "finished")
    assert cli.main(["sweep", str(small_sweep), "--index", "2", runs_dir]) == 0
    assert "run 2 is finished" in capsys.readouterr().out


@pytest.mark.slow
def test_a_sweep_trains_its_other_runs_after_a_failure(
    small_sweep: Path, tiny_overrides: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = small_sweep.read_text().replace("method_kwargs.radial_ce_loss_weight", "backbone.name")
    small_sweep.write_text(text.replace("[0, 1]", "[resnet19, vit_tiny]").replace("[5, 6]", "[5]"))
    overrides = [*without(tiny_overrides, "backbone.name"), "diagnostics.enabled=false", "host=standalone"]
    command = ["sweep", str(small_sweep), *without(overrides, "optimizer.lr")]
    assert cli.main([*command, "--run"]) == 1
    said = capfd.readouterr().err
    assert "run 0 failed with exit status 2" in said
    assert "unknown backbone.name 'resnet19'" in said
    assert cli.main([*command, "--status"]) == 0
    assert capfd.readouterr().out.splitlines()[-1] == "small: 2 runs, 1 finished, 1 missing"
    log = tmp_path / "runs" / "sweeps" / "small" / "1.log"
    assert "finished: 2 epochs, 6 steps" in log.read_text()
    assert cli.main([*command, "--index", "1"]) == 0
    assert "run 1 is finished" in capfd.readouterr().out


def test_points_that_differ_in_an_argument_of_the_trainer_are_runs_of_their_own(
    small_sweep: Path, runs_dir: str, write_result: WriteResult
) -> None:
    small_sweep.write_text(
        small_sweep.read_text().replace("seed:\n    values: [5, 6]", "+gradient_clip_val:\n    values: [0.01, 5.0]")
    )
    runs = load_sweep(small_sweep).runs()
    write_result(runs[0], "finished")
    assert [state.status for state in states_of(runs, [runs_dir])] == ["finished", *["missing"] * 3]
