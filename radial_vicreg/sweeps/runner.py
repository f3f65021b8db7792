"""Runs a sweep in one shell, one run after the other."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from radial_vicreg.sweeps.grid import SweepRun
from radial_vicreg.sweeps.marks import Mark, marks_of
from radial_vicreg.sweeps.status import FINISHED, RunState, runs_dir, states_of

_SECONDS_TO_STOP = 30  # Lightning finishes its step and writes the results after an interrupt


def run_missing(name: str, runs: Sequence[SweepRun], overrides: Sequence[str] = (), resume: bool = False) -> list[int]:
    """Trains every run that is not finished, each in a process of its own; one that fails does not stop the rest.

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
        ValueError: a configuration that cannot be composed.
        KeyboardInterrupt: after the running process has been told to stop.
    """
    states = states_of(runs, overrides)
    marks = marks_of(runs, overrides)
    unstable = {mark.run.index for mark in marks if mark.past_stability is not None}
    todo = [state for state in states if state.status != FINISHED]
    todo.sort(key=lambda state: state.run.index in unstable)
    logs = Path(runs_dir(runs, overrides)) / "sweeps" / name
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
            log = logs / f"{state.run.index}.log"
            status = _train(pretrain_arguments(state, overrides, resume), log)
            if status != 0:
                failed.append(state.run.index)
                message = f"run {state.run.index} failed with exit status {status}: {_last_line(log)} ({log})"
                console.print(message, markup=False, highlight=False, soft_wrap=True)
            progress.advance(task)
    return failed


def pretrain_arguments(state: RunState, overrides: Sequence[str], resume: bool) -> list[str]:
    """What follows ``radial-vicreg pretrain`` for one run, its checkpoint included when it is to be continued."""
    checkpoint = state.checkpoint if resume else None
    continued = [] if checkpoint is None else [f"ckpt='{checkpoint}'"]
    return state.run.arguments(*overrides, *continued)


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
