"""Several workers share a sweep: each run has one training, and a worker stays until every run is finished."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from radial_vicreg import cli
from radial_vicreg.cli.commands import pretrain
from radial_vicreg.cli.hydra_flags import read_request
from radial_vicreg.compose import compose, run_config
from radial_vicreg.io.locks import HeldLock
from radial_vicreg.sweeps import SweepRun, load_sweep
from radial_vicreg.sweeps.claims import ClaimedError, FinishedAlready, RunClaim, claim_path
from radial_vicreg.sweeps.runner import pretrain_arguments
from radial_vicreg.sweeps.status import composed_runs

Hold = Callable[..., "subprocess.Popen[str]"]
WriteResult = Callable[..., Path]
Run = Callable[..., int]


@pytest.fixture
def runs(small_sweep: Path) -> list[SweepRun]:
    """The first two runs."""
    small_sweep.write_text(small_sweep.read_text().replace("[5, 6]", "[5]"))
    return load_sweep(small_sweep).runs()


@pytest.fixture
def sweep(small_sweep: Path, tmp_path: Path) -> Run:
    """Runs ``radial-vicreg sweep`` with the small sweep."""
    return lambda *arguments: cli.main(["sweep", str(small_sweep), f"runs_dir={tmp_path / 'runs'}", *arguments])


@pytest.fixture
def finish(write_result: WriteResult, runs: list[SweepRun]) -> Callable[[Path], int]:
    """What a training that ends well leaves: results."""

    def train(log: Path) -> int:
        write_result(runs[int(log.stem)], "finished")
        return 0

    return train


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
    runs: list[SweepRun], sweep: Run, hold: Hold, started: Any, finish: Any, during_pause: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    other = hold(runs[0])
    pauses = during_pause(other.kill)
    started.then = finish
    assert sweep("--run") == 0
    assert [arguments[-4] for arguments in started] == [run.overrides[-2] for run in (runs[1], runs[0])]
    said = capsys.readouterr().err
    assert said.count(f"run 0 waits: another process is training run 0 (process {other.pid} on ") == 1
    assert len(pauses) == 1


def test_a_run_that_another_process_finished_meanwhile_is_not_trained_again(
    runs: list[SweepRun], sweep: Run, hold: Hold, started: Any, finish: Any, during_pause: Any,
    write_result: WriteResult, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    other = hold(runs[0])

    def end() -> None:
        write_result(runs[0], "finished")
        other.communicate("")

    during_pause(end)
    started.then = finish
    assert sweep("--run") == 0
    assert len(started) == 1
    assert "run 0 was finished by another process" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".lock", ".worker.lock"])
def test_without_waiting_a_run_that_another_process_trains_is_skipped(
    suffix: str, runs: list[SweepRun], sweep: Run, hold: Hold, started: Any, finish: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    other = hold(runs[0], suffix)
    started.then = finish
    assert sweep("--run", "--no-wait") == 0
    assert len(started) == 1
    said = capsys.readouterr().err
    assert f"run 0 is skipped: another process is {'starting' if 'worker' in suffix else 'training'} run 0" in said
    assert f"(process {other.pid} on " in said
    assert "not finished: run 0 (missing)" in said


@pytest.mark.slow
def test_without_waiting_an_index_that_another_process_trains_is_refused(
    runs: list[SweepRun], sweep: Run, hold: Hold, tiny_overrides: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    hold(runs[1])
    assert sweep("--index", "1", "--no-wait", "accelerator=cpu") == 2
    assert "another process is training run 1 (process" in capsys.readouterr().err


@pytest.mark.parametrize("status", [143, 0, -15])
def test_a_run_that_ends_early_without_failing_gives_a_status_of_its_own(
    status: int, runs: list[SweepRun], sweep: Run, started: Any, finish: Any, write_result: WriteResult,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    def train(log: Path) -> int:
        if log.stem == "1":
            return int(finish(log))
        log.write_text("stopped by a signal\n")
        write_result(runs[0], "stopped")
        return status

    started.then = train
    assert sweep("--run") == 3
    said = capsys.readouterr().err
    assert "not finished: run 0 (stopped)" in said
    assert ("run 0 was stopped, exit status" in said) == (status != 0)
    assert sweep("--run", "--no-wait") == 0  # as an array job has it


def test_a_failed_run_that_another_worker_finished_is_no_failure(
    runs: list[SweepRun], sweep: Run, started: Any, finish: Any
) -> None:
    def train(log: Path) -> int:
        finish(log)
        log.write_text("it broke\n")
        return 1

    started.then = train
    assert sweep("--run") == 0


def test_a_training_that_finds_the_run_claimed_leaves_it_to_the_other_one(
    runs: list[SweepRun], sweep: Run, started: Any, finish: Any, during_pause: Any
) -> None:
    statuses = iter([3, 0, 0])

    def train(log: Path) -> int:
        return next(statuses) or int(finish(log))

    pauses = during_pause(lambda: None)
    started.then = train
    assert sweep("--run") == 0
    assert len(started) == 3
    assert len(pauses) == 1


def test_the_worker_and_its_training_mean_one_claim(runs: list[SweepRun], tmp_path: Path) -> None:
    overrides = [f"runs_dir={tmp_path / 'runs'}", "max_epochs=7", "accelerator=cpu"]
    for run, config in zip(runs, composed_runs(runs, overrides), strict=True):
        request = read_request(pretrain.parser(), [*pretrain_arguments(run, overrides), "--claim"])
        assert request.claim
        assert claim_path(run_config(compose(*request.where))) == claim_path(config)


class TestClaim:
    def test_a_finished_run_is_found_under_the_claim(
        self, runs: list[SweepRun], write_result: WriteResult, tmp_path: Path
    ) -> None:
        (config,) = composed_runs(runs[:1], [f"runs_dir={tmp_path / 'runs'}"])
        write_result(runs[0], "running")
        with RunClaim(config, "training") as claim:
            assert claim.is_held()
        done = write_result(runs[0], "finished", "two")
        with pytest.raises(FinishedAlready) as found, RunClaim(config, "training"):
            pass
        assert found.value.folder == done.parent
        assert not claim.is_held()

    def test_a_claim_is_refused_and_can_be_taken_over(self, runs: list[SweepRun], hold: Hold, tmp_path: Path) -> None:
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

    def test_a_worker_that_takes_over_does_not_wait(
        self, runs: list[SweepRun], sweep: Run, hold: Hold, started: Any, finish: Any
    ) -> None:
        hold(runs[0])
        hold(runs[1], ".worker.lock")
        started.then = finish
        assert sweep("--run", "lock=take") == 0
        assert len(started) == 2
        assert all("lock=take" in arguments for arguments in started)
