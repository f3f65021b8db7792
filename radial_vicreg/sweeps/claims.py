"""Claims of runs: locks that let only one of the processes that share a sweep train a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from radial_vicreg.config import RunConfig
from radial_vicreg.io.locks import HeldLock, LockedError
from radial_vicreg.runs.identity import Identity
from radial_vicreg.runs.stored import RunsByIdentity, stored_runs
from radial_vicreg.sweeps.status import best_result


class ClaimedError(LockedError):
    """Another process is training the run."""


class FinishedAlready(Exception):
    """The run was finished before this process acquired the claim.

    Attributes:
        folder: folder of its results.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(f"the run is finished: {folder}")
        self.folder = folder


class RunClaim:
    """The claim of a run, which the training process takes before it chooses a folder and holds until it ends.

    The operating system releases the claim however the process ends, so a run whose training was killed is free again.
    The claim does not depend on the worker that started the training.

    Args:
        config: requested configuration of the run; ``lock=take`` takes the claim from a process that holds it.
        what: activity of the process, as the end of "another process is ...".
        on_wait: see :meth:`radial_vicreg.io.locks.HeldLock.acquire`. None: do not wait for another process.
    """

    def __init__(self, config: RunConfig, what: str, on_wait: Callable[[str], object] | None = None) -> None:
        self.config = config
        self.on_wait = on_wait
        self.lock = HeldLock(claim_path(config), what, take=config.lock == "take")

    def __enter__(self) -> RunClaim:
        """Take the claim, then check whether the run is finished.

        Raises:
            ClaimedError: another process is training the run.
            FinishedAlready: another process has finished it.
        """
        try:
            self.lock.acquire(self.on_wait)
        except LockedError as error:
            raise ClaimedError(str(error)) from error
        # Check only now, since the previous holder may have finished the run or written further checkpoints.
        found = best_result(self.config, RunsByIdentity(stored_runs(self.config.runs_dir)))
        if found is not None and found.results.is_finished:
            self.lock.release()
            raise FinishedAlready(found.folder)
        return self

    def __exit__(self, *exception: object) -> None:
        self.lock.release()

    def is_held(self) -> bool:
        """Return whether a process is training the run; always False with ``lock=take``."""
        return not self.lock.take and self.lock.is_held()


class WorkerClaim:
    """The claim of the worker that starts a run's training and waits for it.

    It prevents workers that start at the same time from each starting a training of the same run. It does not replace
    the claim of the run: a training keeps that after its worker has ended, and until it ends, no other worker can take
    this claim either.

    Args:
        config: see :class:`RunClaim`.
        index: index of the run in its sweep.
    """

    def __init__(self, config: RunConfig, index: int) -> None:
        self.index = index
        self._of_training = RunClaim(config, f"training run {index}")
        self._lock = HeldLock(claim_path(config, ".worker.lock"), f"starting run {index}", take=config.lock == "take")

    def __enter__(self) -> WorkerClaim:
        """Take the claim.

        Raises:
            ClaimedError: another worker has the claim, or a process is training the run.
        """
        training = self._of_training.lock
        try:
            self._lock.acquire()
        except LockedError as error:
            raise ClaimedError(training.refusal() if training.is_held() else str(error)) from error
        if self._of_training.is_held():
            self._lock.release()
            raise ClaimedError(training.refusal())
        return self

    def __exit__(self, *exception: object) -> None:
        self._lock.release()

    def is_held(self) -> bool:
        """Return whether another worker has the claim or a process is training the run."""
        return self._of_training.is_held() or (not self._lock.take and self._lock.is_held())


def claim_path(config: RunConfig, suffix: str = ".lock") -> Path:
    """Return the lock file of a run's claim; with the suffix ``".worker.lock"``, that of its worker's claim."""
    return Path(config.runs_dir) / "sweeps" / "claims" / f"{Identity.of(config).config_hash}{suffix}"
