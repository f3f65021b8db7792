"""Run a sweep: any number of workers share it, and each trains one run at a time."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep
from typing import NamedTuple

from radial_vicreg.data.fingerprint import listed_once
from radial_vicreg.errors import INTERRUPTED, NOT_FINISHED, STOP_SIGNALS, RunStopped
from radial_vicreg.io.files import claim_output
from radial_vicreg.io.locks import SECONDS_BETWEEN_LOOKS
from radial_vicreg.io.terminal import Bar
from radial_vicreg.names.counts import counted
from radial_vicreg.sweeps.claims import ClaimedError, WorkerClaim
from radial_vicreg.sweeps.evidence import keep_results, refuse_paths_of_this_machine
from radial_vicreg.sweeps.forwarding import SignalForwarder
from radial_vicreg.sweeps.grid import SweepRun
from radial_vicreg.sweeps.predictions import Prediction, predictions_of
from radial_vicreg.sweeps.status import RunState, states_of

_PRETRAIN = (sys.executable, "-m", "radial_vicreg.cli", "pretrain")
_CLAIM = "--claim"  # take the run's claim, or exit with NOT_FINISHED

_STOPPED = {RunStopped.exit_status, INTERRUPTED, *(-number for number in (signal.SIGINT, *STOP_SIGNALS))}


class Outcome(NamedTuple):
    """Unfinished runs of a sweep when a worker ends.

    Attributes:
        failed: indices of runs that failed in this worker and are not finished.
        unfinished: indices of the other unfinished runs: stopped, or being trained by other processes.
    """

    failed: list[int]
    unfinished: list[int]


@listed_once()
def run_missing(
    name: str,
    runs: Sequence[SweepRun],
    overrides: Sequence[str] = (),
    wait: bool = True,
    evidence: Path | None = None,
) -> Outcome:
    """Train every unfinished run, each in its own process; a failed run does not stop the others.

    Any number of workers may share a sweep, on one machine or on several with a common ``runs_dir``. The training
    process of a run holds its claim (:class:`~.claims.RunClaim`) and keeps running if its worker is killed. A worker
    tries each run once, and resumes it from its last checkpoint if it has one. The output of a run is appended to
    ``<runs_dir>/sweeps/<name>/<index>.log``. Runs past stability, which are likely to diverge, are trained last, but
    keep their index. Each image folder is listed once.

    Args:
        name: name of the sweep, for the logs.
        runs: its runs.
        overrides: additional Hydra overrides; ``ckpt=null`` restarts unfinished runs.
        wait: wait for runs that other processes train, and train those that end unfinished. False: skip them.
        evidence: folder of results. Runs with results there count as finished; results of other runs are copied there.

    Returns:
        The runs that are not finished.

    Raises:
        UserError: a configuration cannot be composed, or logs cannot be written.
        RunStopped: SIGTERM, SIGUSR1 or SIGHUP was received, and the running process has ended.
        KeyboardInterrupt: Ctrl-C was received, and the running process has ended.
    """
    if evidence is not None:
        claim_output(evidence, "folder", setting="--evidence DIR")
    predictions = predictions_of(runs, overrides)
    if evidence is not None:
        for prediction in predictions:
            refuse_paths_of_this_machine(prediction.config.plain(), f"the configuration of run {prediction.run.index}")
    states = _kept(states_of(runs, overrides, evidence=evidence), evidence)
    unfinished = {state.run.index for state in states if not state.is_finished}
    todo = [prediction for prediction in predictions if prediction.run.index in unfinished]
    todo.sort(key=lambda prediction: prediction.past_stability is not None)
    logs = claim_output(Path(predictions[0].config.runs_dir) / "sweeps" / name, "folder", setting="runs_dir=DIR")
    logs.mkdir(parents=True, exist_ok=True)
    _say(f"{name}: {counted(len(runs), 'run')}, {len(runs) - len(todo)} finished, {len(todo)} to do; logs in {logs}")
    for text in _remarks(predictions):
        _say(text)
    with SignalForwarder() as forwarder, Bar(name, len(runs), len(runs) - len(todo)) as bar:

        def show(description: str, done: int = 0) -> None:
            bar.relabel(f"{name} [{description}]")
            bar.advance(done)

        worker = _Worker(overrides, wait, logs, forwarder, show, evidence)
        worker.work(todo)
    states = _kept(states_of(runs, overrides, evidence=evidence), evidence)
    return _outcome(name, states, worker.failed)


def _kept(states: list[RunState], evidence: Path | None) -> list[RunState]:
    """Copy the results of finished runs to ``evidence``, if given."""
    for state in states:
        if evidence is not None and state.is_finished and state.folder is not None:
            keep_results(state.folder, evidence)
    return states


@dataclass
class _Worker:
    """A worker that trains runs of a sweep.

    Attributes:
        overrides: additional Hydra overrides.
        wait: wait for runs that other processes train.
        logs: folder of the logs.
        forwarder: starts the trainings.
        show: shows the current run and the number of completed runs.
        evidence: folder of results.
        failed: indices of runs that failed.
    """

    overrides: Sequence[str]
    wait: bool
    logs: Path
    forwarder: SignalForwarder
    show: Callable[..., None]
    evidence: Path | None = None
    failed: list[int] = field(default_factory=list)

    def work(self, todo: Sequence[Prediction]) -> None:
        """Train the runs that no other process trains, then wait for the others and train those that end unfinished."""
        announced: set[int] = set()
        while True:
            refused = {cell.run.index: (cell, error) for cell in todo if (error := self.settle(cell)) is not None}
            for index, (_, error) in refused.items():
                if index not in announced:
                    _say(f"run {index} {'waits' if self.wait else 'is skipped'}: {error}")
            announced |= refused.keys()
            if not self.wait or not refused:
                return
            self.show(f"waiting for {len(refused)}")
            todo = [cell for cell, _ in refused.values()]
            claims = [WorkerClaim(cell.config, cell.run.index) for cell in todo]
            sleep(SECONDS_BETWEEN_LOOKS)
            while all(claim.is_held() for claim in claims):
                sleep(SECONDS_BETWEEN_LOOKS)

    def settle(self, cell: Prediction) -> ClaimedError | None:
        """Train a run unless it is finished; return the error if another process is training it."""
        index = cell.run.index
        self.show(str(index))
        try:
            with WorkerClaim(cell.config, index):
                (current,) = self._state(cell.run)
                if current.is_finished:
                    _say(f"run {index} was finished by another process: {current.folder}")
                elif self._train(cell.run) == NOT_FINISHED:
                    # A worker was killed just after it had started that training.
                    return ClaimedError(f"another process is now training run {index}")
        except ClaimedError as error:
            return error
        self.show(str(index), done=1)
        if self.evidence is not None:
            _kept(self._state(cell.run), self.evidence)
        return None

    def _state(self, run: SweepRun) -> list[RunState]:
        return states_of([run], self.overrides, evidence=self.evidence)

    def _train(self, run: SweepRun) -> int:
        log = self.logs / f"{run.index}.log"
        begin = log.stat().st_size if log.exists() else 0
        arguments = pretrain_arguments(run, self.overrides)
        status = self.forwarder.run([*_PRETRAIN, *arguments, _CLAIM], log)
        if status in (0, NOT_FINISHED):
            return status
        said = f"exit status {status}: {_last_line(log, begin)} ({log})"
        if status in _STOPPED:
            _say(f"run {run.index} was stopped, {said}")
        else:
            self.failed.append(run.index)
            _say(f"run {run.index} failed with {said}")
        return status


def pretrain_arguments(run: SweepRun, overrides: Sequence[str]) -> list[str]:
    """List the arguments of ``radial-vicreg pretrain`` that resume a run or start it; overrides come last."""
    return run.arguments("ckpt=auto", *overrides)


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def _outcome(name: str, states: Sequence[RunState], failed: Sequence[int]) -> Outcome:
    """Print the unfinished runs and return them; another worker may have finished a run that failed here."""
    left = {state.run.index: state.status for state in states if not state.is_finished}
    left |= {index: "failed" for index in left if index in failed}
    runs = ", ".join(f"run {index} ({status})" for index, status in left.items())
    every = f"all {len(states)} runs are" if len(states) > 1 else "its run is"
    _say(f"not finished: {runs}" if left else f"{name}: {every} finished")
    return Outcome([index for index in left if index in failed], [index for index in left if index not in failed])


def _remarks(predictions: Sequence[Prediction]) -> list[str]:
    unstable = sum(prediction.past_stability is not None for prediction in predictions)
    away = sum(prediction.has_distant_equilibrium for prediction in predictions)
    texts = [
        f"{unstable} of {len(predictions)} runs are past stability and are trained last: --list shows them"
    ] * bool(unstable)
    if away:
        texts.append(
            f"in {away} of {len(predictions)} runs the minimum of the radial term alone has a W1 above 1 to chi, see "
            "docs/tables.md"
        )
    return texts


def _last_line(log: Path, begin: int) -> str:
    with log.open("rb") as stream:
        stream.seek(begin)
        text = stream.read().decode(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it printed no output"
