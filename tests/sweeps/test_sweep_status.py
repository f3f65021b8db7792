"""What has become of a sweep's runs, and running those that are missing: the unstable ones last, none from another."""

from __future__ import annotations

import json
import os
import shlex
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
from radial_vicreg.runs.identity import config_hash
from radial_vicreg.runs.results import ResultsError
from radial_vicreg.sweeps import SweepRun, load_sweep, run_missing, states_of
from radial_vicreg.sweeps.runner import pretrain_arguments
from radial_vicreg.sweeps.status import composed_runs

WriteResult = Callable[..., Path]
Run = Callable[..., int]


@pytest.fixture
def four(small_sweep: Path) -> list[SweepRun]:
    """All runs of the small sweep."""
    return load_sweep(small_sweep).runs()


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
    ]
    found = [config.plain() for config in compose_grid("radialvicreg", points)]
    assert found == [sweep_config(compose("radialvicreg", point)).plain() for point in points]


def test_each_run_is_found_by_its_own_results_and_listed(
    four: list[SweepRun], sweep: Run, runs_dir: str, write_result: WriteResult, capsys: pytest.CaptureFixture[str]
) -> None:
    done = write_result(four[0], "finished")
    write_result(four[1], "failed", error="NonFiniteLossError: so\nand so")
    write_result(four[3], "running")
    states = states_of(four, [runs_dir])
    assert [state.status for state in states] == ["finished", "failed", "missing", "running"]
    assert states[0].folder == done.parent
    assert sweep("--status") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["run", "status", "overrides", "folder", "remark"]
    assert lines[2].endswith("NonFiniteLossError: so and so")
    assert lines[-1] == "small: 4 runs, 1 finished, 1 failed, 1 missing, 1 running"
    assert sweep("--index", "0") == 0  # and trains nothing
    assert "run 0 is finished" in capsys.readouterr().out


def test_a_finished_result_counts(four: list[SweepRun], runs_dir: str, write_result: WriteResult) -> None:
    done = write_result(four[0], "finished", "early")
    later = write_result(four[0], "failed", "late")
    os.utime(done, (1, 1))
    os.utime(later, (2, 2))
    assert states_of(four[:1], [runs_dir])[0].folder == done.parent


def test_a_run_on_other_images_does_not_count_and_folders_are_listed_once(
    four: list[SweepRun],
    sweep: Run,
    runs_dir: str,
    image_folder: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    paths = [f"data.{name}_path={image_folder(name, per_class=2)}" for name in ("train", "val")]
    overrides = ["radialvicreg/dataset=folder", *paths, runs_dir]
    known = fingerprint.fingerprints_of(next(composed_runs(four[:1], overrides))).model_dump()
    for run, marks in zip(four, (known, {**known, "val": ("2:ffffffff",)}, None), strict=False):  # the last: 0.2's
        (config,) = composed_runs([run], overrides)
        content = {"schema_version": 2, "config": config.plain(), "status": "finished"}
        content["config"]["data"] |= {} if marks is None else {"fingerprints": marks}
        write_json(tmp_path / "runs" / f"run-{run.index}" / "results.json", content)
    real, listed = fingerprint._fingerprints, []
    monkeypatch.setattr(fingerprint, "_fingerprints", lambda path, form: listed.append(path.name) or real(path, form))
    states = states_of(four, overrides)
    assert [state.status for state in states] == ["finished", "missing", "finished", "missing"]
    assert sorted(listed) == ["train", "val"]
    reason = f"{tmp_path}/runs/run-1 was validated on other images (2:ffffffff and {known['val'][1]})"
    assert [state.apart for state in states] == [None, reason, None, None]
    assert sweep("--status", *overrides) == 0
    assert f"not counted: {reason}" in capsys.readouterr().out


def test_the_processes_of_a_sweep_get_what_was_listed(
    four: list[SweepRun], runs_dir: str, image_folder: Callable[..., Path], started: Any
) -> None:
    images = image_folder("train", per_class=2)
    listed: list[str] = []

    def train(log: Path) -> int:  # in a process that inherits the environment
        listed.extend(json.loads(os.environ[fingerprint._LISTED]))
        return 0

    started.then = train
    overrides = ["radialvicreg/dataset=folder", f"data.train_path={images}", "data.val_path=null", runs_dir]
    assert run_missing("small", four[:2], overrides) == ([], [0, 1])
    assert listed == [str(images), str(images)]


def test_half_written_files_are_no_results(four: list[SweepRun], runs_dir: str, write_result: WriteResult) -> None:
    path = write_result(four[0], "finished")
    path.write_text(path.read_text()[:-20])
    (path.parents[1] / "results.json").write_text("[]")
    bad: list[ResultsError] = []
    assert states_of(four[:1], [runs_dir], bad.append)[0].status == "missing"
    assert [error.reason.partition(":")[0] for error in bad] == ["not a dictionary", "cut short or not JSON"]


def test_an_override_of_a_swept_key_is_refused(four: list[SweepRun]) -> None:
    with pytest.raises(ValueError, match="seed: the sweep sets this key itself"):
        states_of(four, ["seed=1"])


def test_finished_runs_are_skipped_and_a_failed_one_does_not_stop_the_rest(
    four: list[SweepRun], runs_dir: str, write_result: WriteResult, started: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    write_result(four[1], "finished")

    def train(log: Path) -> int:
        with log.open("a") as stream:
            stream.write("working\nit broke\n\n")
        return int(log.stem == "0")

    started.then = train
    assert run_missing("small", four, [runs_dir, "max_epochs=1"]) == ([0], [1, 2, 3])
    assert started == [run.arguments("ckpt=auto", runs_dir, "max_epochs=1") for run in four]
    started.clear()
    # Other overrides, other runs: run 1 was trained without them.
    assert run_missing("small", four, [runs_dir]) == ([0], [2, 3])
    assert started == [four[index].arguments("ckpt=auto", runs_dir) for index in (0, 2, 3)]
    assert "run 0 failed with exit status 1: it broke" in capsys.readouterr().err


def test_a_run_that_died_before_it_was_called_finished_is_returned_to_and_one_without_its_checkpoint_is_not(
    four: list[SweepRun], runs_dir: str, write_result: WriteResult, started: Any
) -> None:
    write_result(four[0], "running", epochs=400, max_epochs=400)
    write_result(four[1], "finished", checkpoint={"name": "epoch-400.ckpt", "epoch": 400, "step": 78000})  # deleted
    write_result(four[2], "finished", checkpoint=None)
    write_result(four[3], "finished")  # of a version that did not name it
    assert run_missing("small", four, [runs_dir]) == ([], [0])
    assert started == [four[0].arguments("ckpt=auto", runs_dir)]


def test_an_override_restarts_unfinished_runs(four: list[SweepRun], runs_dir: str) -> None:
    for overrides, ckpt in (([], "auto"), (["ckpt=null"], None)):
        request = read_request(pretrain.parser(), pretrain_arguments(four[0], [runs_dir, *overrides]))
        assert run_config(compose(*request.where)).ckpt == ckpt


def test_the_option_of_0_2_for_resuming_is_accepted_with_a_notice(sweep: Run) -> None:
    with pytest.warns(Notice, match="--resume has no effect"):
        assert sweep("--resume") == 0


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


# ---- runs past stability are marked in the list and trained last


@pytest.fixture
def unstable_sweep(tmp_path: Path) -> Path:
    """Four runs: without the factor 1/d, the first two are past stability; with it, the second and fourth pull away."""
    path = tmp_path / "unstable.yaml"
    path.write_text(
        "method: grid\n"
        "parameters:\n"
        "  method_kwargs.radial_ce_loss_weight: {values: [100, 1]}\n"
        "  method_kwargs.radial_ent_loss_weight: {values: [0, 2]}\n"
        'command: ["${program}", --config-name, radialvicreg, optimizer.lr=0.1, "${args_no_hyphens}"]\n'
    )
    return path


def test_the_list_marks_unstable_runs(unstable_sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = "method_kwargs.radial_ce_normalize=false"
    assert cli.main(["sweep", str(unstable_sweep), "--list", plain]) == 0
    lines = capsys.readouterr().out.splitlines()
    runs = load_sweep(unstable_sweep).runs()
    assert len(lines) == len(runs) == 4
    for line, run in zip(lines, runs, strict=True):
        index, _, command = line.partition(": ")
        assert int(index) == run.index
        assert shlex.split(command, comments=True) == ["radial-vicreg", "pretrain", *run.arguments(plain)]
    marked = ["# past stability: curvature 400, limit 38 at a rate of 0.1" in line for line in lines]
    assert marked == [True, True, False, False]


def test_a_list_that_cannot_be_marked_is_printed(small_sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sweep", str(small_sweep), "--list", "radialvicreg/dataset=folder"]) == 0
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 4
    assert "cannot determine which runs are past stability" in printed.err
    assert "data.train_path" in printed.err


def test_runs_past_stability_come_last_under_their_own_numbers(
    unstable_sweep: Path, tmp_path: Path, started: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    runs = load_sweep(unstable_sweep).runs()
    overrides = [f"runs_dir={tmp_path / 'runs'}", "method_kwargs.radial_ce_normalize=false"]
    run_missing("small", runs, overrides)
    assert started == [runs[index].arguments("ckpt=auto", *overrides) for index in (2, 3, 0, 1)]
    said = capsys.readouterr().err
    assert "2 of 4 runs are past stability and are trained last" in said
    assert "the radial term alone" not in said


def test_runs_that_pull_away_are_counted_once(
    unstable_sweep: Path, tmp_path: Path, started: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    runs, overrides = load_sweep(unstable_sweep).runs(), [f"runs_dir={tmp_path / 'runs'}"]
    run_missing("small", runs, overrides)
    assert started == [run.arguments("ckpt=auto", *overrides) for run in runs]
    said = capsys.readouterr().err
    assert "in 2 of 4 runs the minimum of the radial term alone has a W1 above 1 to chi" in said
    assert "past stability" not in said


# ---- runs never resume from one another


@pytest.mark.solo
@pytest.mark.slow
@pytest.mark.parametrize("name", ["tables/figure4", "celeba_resnet18"])
def test_solo_learn_resumes_each_run_from_its_own_checkpoint(name: str, tmp_path: Path) -> None:
    resumer: Any = pytest.importorskip("solo.utils.auto_resumer").AutoResumer(checkpoint_dir=tmp_path, max_hours=36)
    runs = load_sweep(name).runs()
    first = set(runs[0].overrides)
    neighbours = [run for run in runs if len(first - set(run.overrides)) <= 1]  # that differ from it in one value
    configurations = list(composed_points(runs[0].config_name, [run.overrides for run in neighbours]))
    checkpoints = []
    for index, cfg in enumerate(configurations):  # what solo-learn's Checkpointer leaves of each
        path = tmp_path / f"offline-{index}" / "run-ep=1.ckpt"
        path.parent.mkdir(parents=True)
        (path.parent / "args.json").write_text(json.dumps(OmegaConf.to_container(cfg)))
        path.touch()
        checkpoints.append(path)
    # It takes the newest checkpoint that matches: two runs that it cannot tell apart would both get one of them.
    assert [resumer.find_checkpoint(cfg)[0] for cfg in configurations] == checkpoints


#: Of each kind of sweep one: over values, over values and attributes, over cells, over methods.
@pytest.mark.slow
@pytest.mark.parametrize("name", ["tables/figure4", "celeba_resnet18", "study_full_tune", "study2"])
def test_every_run_of_a_sweep_has_a_name_and_a_hash_of_its_own(name: str) -> None:
    runs = load_sweep(name).runs()
    points = composed_points(runs[0].config_name, [run.overrides for run in runs])
    configurations = [run_config(cfg) for cfg in points]
    assert len({config.name for config in configurations}) == len(configurations)
    assert len({config_hash(config.plain(), config.processes) for config in configurations}) == len(configurations)
