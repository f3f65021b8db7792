"""Ends a run in order when a scheduler asks for the machine."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import suppress
from typing import Any

import lightning.pytorch as pl
import torch
import torch.distributed as dist
from lightning.pytorch.utilities import rank_zero_only
from lightning.pytorch.utilities.exceptions import SIGTERMException
from torch.utils.data._utils import signal_handling

from radial_vicreg.distributed import is_distributed

# SIGTERM is Slurm's preemption and every scheduler's end; SIGUSR1 is what `--signal=USR1@120` sends by custom.
_SIGNALS = (signal.SIGTERM, signal.SIGUSR1)
_WORKER_TERMINATED = "killed by signal: Terminated"  # PyTorch's words
TERMINATED = 128 + signal.SIGTERM
"""Exit status of a process that SIGTERM ends, by the shells' convention."""
_STEPS_BETWEEN_VOTES = 8  # a vote is one small collective between hosts


class RunStoppedError(RuntimeError):
    """The run was told to stop by a signal and can go on from its last checkpoint."""


class StopOnSignal(pl.Callback):
    """Stops after the step in flight, on every process at the same step, whichever of them got the signal.

    It takes the place of Lightning's handler, which broadcasts from inside the handler: when only one process gets the
    signal, the processes then wait for one another for ever.

    Args:
        leave_requeue: leave SIGUSR1 to Lightning where it uses it to put a Slurm job back into the queue.
    """

    def __init__(self, leave_requeue: bool = False) -> None:
        self.leave_requeue = leave_requeue
        self.requested = False
        self.reason = "stopped by a signal"  # of another process, until one arrives here
        self._group: Any = None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Takes over the signals; Lightning restores what was before when the trainer is done."""
        if is_distributed() and dist.get_backend() != "gloo":
            self._group = dist.new_group(backend="gloo")  # so that a vote does not wait for the GPU
        if threading.current_thread() is threading.main_thread():  # Python allows it there only
            for number in _SIGNALS:
                if number is signal.SIGTERM or not (self.leave_requeue and _requeues(trainer)):
                    signal.signal(number, self._request)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Stops when asked.

        Raises:
            RunStoppedError: on every process at the same step.
        """
        if not is_distributed():
            stop = self.requested
        elif trainer.is_last_batch or batch_idx % _STEPS_BETWEEN_VOTES == 0:
            vote = torch.tensor([int(self.requested)])
            dist.all_reduce(vote, op=dist.ReduceOp.MAX, group=self._group)
            stop = bool(vote.item())
        else:
            stop = False
        if stop:
            self.requested = True
            raise RunStoppedError(self.reason)

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        """Lets the other callbacks keep what they have, whichever worker dies next."""
        _let_workers_die()

    def _request(self, number: int, *_: Any) -> None:
        _let_workers_die()
        self.requested = True
        self.reason = f"stopped by {signal.Signals(number).name}"


class ExitAfterSignal(pl.Callback):
    """Ends solo-learn's script with exit status 143 when a signal stopped it; the last callback of the list.

    Without it a run that was stopped early, or during the sanity check, ends with status 0 (Lightning's own exception
    asks for no other), and one whose data-loading processes got the signal as well with an error of theirs.
    """

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        """Exits, once every other callback has kept what it has.

        Raises:
            SystemExit: 143, after a signal.
        """
        reason = stop_reason(trainer, exception)
        if reason is None or isinstance(exception, KeyboardInterrupt):  # whose status Lightning sets
            return
        for logger in trainer.loggers:  # what Lightning would do next
            logger.finalize("failed")
        with suppress(OSError):  # nobody may be reading any more
            rank_zero_only(print)(
                f"{reason} in epoch {trainer.current_epoch + 1} at step {trainer.global_step}", file=sys.stderr
            )
        sys.exit(TERMINATED)  # and not `raise SystemExit`: W&B notes the status that this function is called with


def stop_reason(trainer: pl.Trainer, exception: BaseException) -> str | None:
    """Which signal ended a run, in words; None when it was none.

    Args:
        trainer: Lightning's.
        exception: what ended the run. After a signal that may be anything: workers that got it as well die, say.
    """
    if isinstance(exception, KeyboardInterrupt):
        return "stopped by Ctrl-C"
    asked = next((callback for callback in _stoppers(trainer) if callback.requested), None)
    if asked is not None:
        return asked.reason
    # A worker may get the signal before this process does; seen from the queue, its end is the cause.
    worker = any(_WORKER_TERMINATED in str(error) for error in (exception, exception.__cause__))
    return "stopped by SIGTERM" if worker or isinstance(exception, SIGTERMException) else None


def _let_workers_die() -> None:
    """Stop PyTorch from raising an error, whatever this process is at, when a data-loading process dies.

    A scheduler sends SIGTERM to those as well, and the errors of the second and third would break off what the first
    one's leads to: a checkpoint, the results.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal_handling._SIGCHLD_handler_set = False  # so that PyTorch takes it again with its next loader


def _stoppers(trainer: pl.Trainer) -> list[StopOnSignal]:
    callbacks = trainer.callbacks  # type: ignore[attr-defined]
    return [callback for callback in callbacks if isinstance(callback, StopOnSignal)]


def _requeues(trainer: pl.Trainer) -> bool:
    """Whether Lightning has taken SIGUSR1 to put a Slurm job back into the queue."""
    environment = trainer._accelerator_connector.cluster_environment
    return bool(getattr(environment, "auto_requeue", False))
