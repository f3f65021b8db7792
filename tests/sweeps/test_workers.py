"""Several workers share a sweep: each run has one training, and a worker stays until every run is finished."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from radial_vicreg.cli.commands import pretrain
from radial_vicreg.cli.hydra_flags import read_request
from radial_vicreg.compose import compose, run_config
from radial_vicreg.io.locks import HeldLock
from radial_vicreg.sweeps import SweepRun
from radial_vicreg.sweeps.claims import ClaimedError, FinishedAlready, RunClaim, claim_path
from radial_vicreg.sweeps.runner import pretrain_arguments
from radial_vicreg.sweeps.status import composed_runs

Hold = Callable[..., "subprocess.Popen[str]"]
WriteResult = Callable[..., Path]
Run = Callable[..., int]


@pytest.fixture
def during_pause(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], list[float]]:
    """Lets something happen while a worker waits, and counts its pauses."""

    def set_up(happen: Callable[[], object]) -> list[float]:
        pauses: list[float] = []

        def sleep(seconds: float) -> None:
            pauses.append(seconds)
            happen()

        monkeypatch.setattr("radial_vicreg.sweeps.runner.sleep", sleep)
        return pauses

    return set_up


def test_a_run_whose_training_died_is_trained_by_a_worker_that_waited(
    runs: list[SweepRun], sweep: Run, hold: Hold, trained: Any, during_pause: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    other = hold(runs[0])
    pauses = during_pause(other.kill)
    assert sweep("--run") == 0
    assert [arguments[-4] for arguments in trained] == [run.overrides[-2] for run in (runs[1], runs[0])]
    said = capsys.readouterr().err
    assert said.count(f"run 0 waits: another process is training run 0 (process {other.pid} on ") == 1
    assert len(pauses) == 1


def test_a_run_that_another_process_finished_meanwhile_is_not_trained_again(
    runs: list[SweepRun], sweep: Run, hold: Hold, trained: Any, during_pause: Any, write_result: WriteResult,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    other = hold(runs[0])

    def end() -> None:
        write_result(runs[0], "finished")
        other.communicate("")

    during_pause(end)
    assert sweep("--run") == 0
    assert len(trained) == 1
    assert "run 0 was finished by another process" in capsys.readouterr().err


@pytest.mark.parametrize(("suffix", "doing"), [(".lock", "training"), (".worker.lock", "starting")])
def test_without_waiting_a_run_that_another_process_trains_is_skipped(
    suffix: str, doing: str, runs: list[SweepRun], sweep: Run, hold: Hold, trained: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    other = hold(runs[0], suffix)
    assert sweep("--run", "--no-wait") == 0
    assert len(trained) == 1
    said = capsys.readouterr().err
    assert f"run 0 is skipped: another process is {doing} run 0 (process {other.pid} on " in said
    assert "not finished: run 0 (missing)" in said


@pytest.mark.parametrize("status", [143, 0, -15])
def test_a_run_that_ends_early_without_failing_gives_a_status_of_its_own(
    status: int, runs: list[SweepRun], sweep: Run, trained: Any, write_result: WriteResult,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    finish = trained.then

    def train(log: Path) -> int:
        if log.stem == "1":
            return int(finish(log))
        log.write_text("stopped by a signal\n")
        write_result(runs[0], "stopped")
        return status

    trained.then = train
    assert sweep("--run") == 3
    said = capsys.readouterr().err
    assert "not finished: run 0 (stopped)" in said
    assert ("run 0 was stopped, exit status" in said) == (status != 0)
    assert sweep("--run", "--no-wait") == 0  # as an array job has it


def test_a_failed_run_that_another_worker_finished_is_no_failure(sweep: Run, trained: Any) -> None:
    finish = trained.then

    def train(log: Path) -> int:
        log.write_text("it broke\n")
        return int(finish(log)) + 1

    trained.then = train
    assert sweep("--run") == 0


def test_a_training_leaves_a_claimed_run_to_the_other(sweep: Run, trained: Any, during_pause: Any) -> None:
    statuses, finish = iter([3, 0, 0]), trained.then
    trained.then = lambda log: next(statuses) or finish(log)
    pauses = during_pause(lambda: None)
    assert sweep("--run") == 0
    assert len(trained) == 3
    assert len(pauses) == 1


def test_the_worker_and_its_training_mean_one_claim(runs: list[SweepRun], tmp_path: Path) -> None:
    overrides = [f"runs_dir={tmp_path / 'runs'}", "max_epochs=7", "accelerator=cpu"]
    (config,) = composed_runs(runs[1:], overrides)
    request = read_request(pretrain.parser(), [*pretrain_arguments(runs[1], overrides), "--claim"])
    assert request.claim
    assert claim_path(run_config(compose(*request.where))) == claim_path(config)


def test_a_claim_finds_the_finished_run(runs: list[SweepRun], write_result: WriteResult, tmp_path: Path) -> None:
    (config,) = composed_runs(runs[:1], [f"runs_dir={tmp_path / 'runs'}"])
    write_result(runs[0], "running")
    with RunClaim(config, "training") as claim:
        assert claim.is_held()
    done = write_result(runs[0], "finished", "two")
    with pytest.raises(FinishedAlready) as found, RunClaim(config, "training"):
        pass
    assert found.value.folder == done.parent
    assert not claim.is_held()


def test_a_claim_is_refused_and_can_be_taken_over(runs: list[SweepRun], hold: Hold, tmp_path: Path) -> None:
    other = hold(runs[0])
    place = f"runs_dir={tmp_path / 'runs'}"
    (config,) = composed_runs(runs[:1], [place])
    (taking,) = composed_runs(runs[:1], [place, "lock=take"])
    assert claim_path(taking) == claim_path(config)
    with pytest.raises(ClaimedError, match=rf"another process is training run 0 \(process {other.pid} .*lock=take"):
        RunClaim(config, "training run 0").__enter__()
    with RunClaim(taking, "training run 0"):
        other.communicate("")  # it outlived its process on another node, or so the user says
        assert HeldLock(claim_path(config), "x").is_held()
        with pytest.raises(ClaimedError, match=rf"\(process {os.getpid()} on "):
            RunClaim(config, "training run 0").__enter__()


def test_a_worker_that_takes_over_does_not_wait(runs: list[SweepRun], sweep: Run, hold: Hold, trained: Any) -> None:
    hold(runs[0])
    hold(runs[1], ".worker.lock")
    assert sweep("--run", "lock=take") == 0
    assert len(trained) == 2
    assert all("lock=take" in arguments for arguments in trained)
