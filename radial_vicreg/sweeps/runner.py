"""Run a sweep in one shell, one run after the other."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from radial_vicreg.data.fingerprint import listed_once
from radial_vicreg.files import claim_output
from radial_vicreg.identity import config_hash
from radial_vicreg.locks import HeldLock, LockedError
from radial_vicreg.sweeps.grid import SweepRun
from radial_vicreg.sweeps.marks import Mark, marks_of
from radial_vicreg.sweeps.status import FINISHED, RunState, composed_runs, states_of

_SECONDS_TO_STOP = 30  # Lightning finishes its step and writes the results after an interrupt


@listed_once()
def run_missing(name: str, runs: Sequence[SweepRun], overrides: Sequence[str] = (), resume: bool = False) -> list[int]:
    """Train every run that is not finished, each in its own process; one that fails does not stop the rest.

    Each folder of images is listed once for all of them.

    What a run prints goes to ``<runs_dir>/sweeps/<name>/<index>.log``. Runs past stability, which are likely to
    diverge, come last under their own numbers.

    Args:
        name: of the sweep, for the logs.
        runs: its runs.
        overrides: Hydra overrides on top.
        resume: continue unfinished runs from their last checkpoint; otherwise they start anew.

    Returns:
        Indices of the runs that failed.

    Raises:
        UserError: a configuration that cannot be composed, or logs that cannot be written.
        KeyboardInterrupt: after the running process has been told to stop.
    """
    states = states_of(runs, overrides)
    marks = marks_of(runs, overrides)
    unstable = {mark.run.index for mark in marks if mark.past_stability is not None}
    todo = [state for state in states if state.status != FINISHED]
    todo.sort(key=lambda state: state.run.index in unstable)
    logs = claim_output(Path(next(composed_runs(runs[:1], overrides)).runs_dir) / "sweeps" / name, "folder")
    logs.mkdir(parents=True, exist_ok=True)
    console = Console(stderr=True)
    console.print(f"{name}: {len(runs)} runs, {len(runs) - len(todo)} finished, {len(todo)} to do; logs in {logs}")
    for text in _remarks(marks):
        console.print(text, markup=False, highlight=False, soft_wrap=True)
    failed: list[int] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console) as progress:
        task = progress.add_task(name, total=len(runs), completed=len(runs) - len(todo))
        for state in todo:
            progress.update(task, description=f"{name} [{state.run.index}]")
            message = _train_unless_taken(state, overrides, resume, logs, failed)
            if message is not None:
                console.print(message, markup=False, highlight=False, soft_wrap=True)
            progress.advance(task)
    return failed


@contextmanager
def claimed(run: SweepRun, overrides: Sequence[str]) -> Iterator[RunState]:
    """Keep other processes from training a run, and look once more what has become of it.

    Args:
        run: of a sweep.
        overrides: Hydra overrides on top.

    Yields:
        The run's state, which another process may have changed since it was listed.

    Raises:
        LockedError: another process is training it.
        UserError: a configuration that cannot be composed.
    """
    (config,) = composed_runs([run], overrides)
    claims = Path(config.runs_dir) / "sweeps" / "claims"
    lock = claims / f"{config_hash(config.plain(), config.processes)}.lock"
    with HeldLock(lock, f"training run {run.index}", take=config.lock == "take"):
        yield states_of([run], overrides)[0]


def _train_unless_taken(
    state: RunState, overrides: Sequence[str], resume: bool, logs: Path, failed: list[int]
) -> str | None:
    """Train one run and add it to ``failed`` if it fails; return what there is to say, or None."""
    index = state.run.index
    try:
        with claimed(state.run, overrides) as current:
            if current.status == FINISHED:
                return f"run {index} has been finished by another process: {current.folder}"
            log = logs / f"{index}.log"
            status = _train(pretrain_arguments(state.run, overrides, resume), log)
    except LockedError as error:
        return f"run {index} is left out: {error}"
    if status == 0:
        return None
    failed.append(index)
    return f"run {index} failed with exit status {status}: {_last_line(log)} ({log})"


def pretrain_arguments(run: SweepRun, overrides: Sequence[str], resume: bool) -> list[str]:
    """List what follows ``radial-vicreg pretrain`` for one run; with ``resume`` it continues where it can."""
    return run.arguments(*overrides, *(["ckpt=auto"] if resume else []))


def _remarks(marks: Sequence[Mark]) -> list[str]:
    unstable = sum(mark.past_stability is not None for mark in marks)
    away = sum(mark.is_pulled_away for mark in marks)
    texts = [f"{unstable} of {len(marks)} runs are past stability and come last: --list marks them"] * bool(unstable)
    if away:
        texts.append(
            f"in {away} of {len(marks)} runs the radial term alone pulls the radii to a W1 above 1 from chi, see "
            "docs/tables.md"
        )
    return texts


def _train(arguments: list[str], log: Path) -> int:
    command = [sys.executable, "-m", "radial_vicreg.cli", "pretrain", *arguments]
    with log.open("w") as stream:
        process = subprocess.Popen(
            command, stdout=stream, stderr=subprocess.STDOUT, env={**os.environ, "PYTHONUNBUFFERED": "1"}
        )
        try:
            return process.wait()
        except KeyboardInterrupt:  # the terminal has sent it to the child as well
            try:
                process.wait(_SECONDS_TO_STOP)
            except subprocess.TimeoutExpired:
                process.kill()
            raise


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it printed nothing"
