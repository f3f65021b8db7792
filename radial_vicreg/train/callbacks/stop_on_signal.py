"""End a run cleanly when a scheduler stops the job."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import lightning.pytorch as pl
import torch
import torch.distributed as dist
from lightning.pytorch.callbacks import ProgressBar
from lightning.pytorch.utilities import rank_zero_only
from lightning.pytorch.utilities.exceptions import SIGTERMException
from torch.utils.data._utils import signal_handling

from radial_vicreg.errors import STOP_SIGNALS, RunStopped
from radial_vicreg.runtime.distributed import is_distributed

SIGNALS = STOP_SIGNALS

_PATIENCE, _POLL = 2.0, 0.05  # seconds: a scheduler signals the processes of a job one after another
_STEPS_BETWEEN_VOTES = 8  # a vote is one small collective between hosts


class StopOnSignal(pl.Callback):
    """Stop after the current step, on every process at the same step, whichever process received the signal.

    This replaces Lightning's handler, which broadcasts from inside the handler: if only one process receives the
    signal, the processes then wait for one another for ever.

    Args:
        leave_requeue: leave SIGUSR1 to Lightning if Lightning uses it to put a Slurm job back into the queue.
    """

    def __init__(self, leave_requeue: bool = False) -> None:
        self.leave_requeue = leave_requeue
        self.requested = False
        self.reason = "stopped by a signal"  # of another process, until one arrives here
        self._group: Any = None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Install the signal handlers; Lightning restores the previous ones when the trainer is done."""
        # Before the progress bar: closing it takes long and must not be interrupted. Lightning iterates the old list.
        others = [callback for callback in trainer.callbacks if callback is not self]  # type: ignore[attr-defined]
        bar = next((place for place, callback in enumerate(others) if isinstance(callback, ProgressBar)), None)
        if bar is not None:
            trainer.callbacks = [*others[:bar], self, *others[bar:]]  # type: ignore[attr-defined]
        if is_distributed() and dist.get_backend() != "gloo":
            self._group = dist.new_group(backend="gloo")  # so that a vote does not wait for the GPU
        if _in_main_thread():
            for number in SIGNALS:
                if not self._leaves(number, trainer):
                    signal.signal(number, self._request)

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        """Limit the loader, which has started by now, to reporting a single dying worker."""
        handler = signal.getsignal(signal.SIGCHLD)
        if callable(handler) and not isinstance(handler, _FirstError) and _in_main_thread():
            signal.signal(signal.SIGCHLD, _FirstError(handler))

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Stop if a process has received a signal.

        Raises:
            RunStopped: on every process at the same step.
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
            raise RunStopped(self.reason)

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        """Let the other callbacks save their state, and wait briefly for a signal that a worker received earlier.

        The end of a worker may appear as any error of the connection to it.
        """
        _let_workers_die()
        worker_lost = isinstance(exception, (ConnectionError, EOFError)) or "DataLoader worker" in str(exception)
        end = time.monotonic() + (_PATIENCE if worker_lost else 0)
        while not self.requested and time.monotonic() < end:
            time.sleep(_POLL)

    def _leaves(self, number: signal.Signals, trainer: pl.Trainer) -> bool:
        """Return whether a signal is not handled: SIGHUP that ``nohup`` ignores, SIGUSR1 that requeues."""
        if number is signal.SIGHUP:
            return signal.getsignal(number) is signal.SIG_IGN
        return number is signal.SIGUSR1 and self.leave_requeue and _requeues(trainer)

    def _request(self, number: int, *_: Any) -> None:
        _let_workers_die()
        self.requested = True
        self.reason = f"stopped by {signal.Signals(number).name}"


class ExitAfterSignal(pl.Callback):
    """End solo-learn's script with exit status 143 when a signal stopped it; the last callback of the list.

    Without it, a run that was stopped early, or during the sanity check, ends with status 0, since Lightning's own
    exception sets no other. A run whose data-loading processes also received the signal ends with their error.
    """

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        """Exit after every other callback has saved its state.

        Raises:
            SystemExit: 143, after a signal.
        """
        reason = stop_reason(trainer, exception)
        if reason is None or isinstance(exception, KeyboardInterrupt):  # Lightning sets the status of Ctrl-C
            return
        for logger in trainer.loggers:  # what Lightning would do next
            logger.finalize("failed")
        with suppress(OSError):  # the reader may be gone
            rank_zero_only(print)(
                f"{reason} in epoch {trainer.current_epoch + 1} at step {trainer.global_step}", file=sys.stderr
            )
        sys.exit(RunStopped.exit_status)  # not `raise SystemExit`: W&B records the argument of this function


def stop_reason(trainer: pl.Trainer, exception: BaseException) -> str | None:
    """Describe the signal that ended a run; None if no signal did.

    Args:
        trainer: Lightning's trainer.
        exception: the exception that ended the run. After a signal it may be of any type, for example since workers
            that also received the signal die.
    """
    if isinstance(exception, KeyboardInterrupt):
        return "stopped by Ctrl-C"
    asked = next((callback for callback in _stoppers(trainer) if callback.requested), None)
    if asked is not None:
        return asked.reason
    return "stopped by SIGTERM" if isinstance(exception, SIGTERMException) else None


class _FirstError:
    """PyTorch's handler for the end of a child process, until it raises its first error."""

    def __init__(self, handler: Callable[..., Any]) -> None:
        self.handler = handler

    def __call__(self, *arguments: Any) -> None:
        try:
            self.handler(*arguments)
        except RuntimeError:
            _let_workers_die()
            raise


def _let_workers_die() -> None:
    """Stop PyTorch from raising an error at an arbitrary place when a data-loading process dies.

    A scheduler sends SIGTERM to these processes as well. After the first error, a checkpoint and the results are
    written; errors of further processes would interrupt this.
    """
    if _in_main_thread():
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal_handling._SIGCHLD_handler_set = False  # so that PyTorch installs its handler again with its next loader


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()  # Python allows handlers there only


def _stoppers(trainer: pl.Trainer) -> list[StopOnSignal]:
    callbacks = trainer.callbacks  # type: ignore[attr-defined]
    return [callback for callback in callbacks if isinstance(callback, StopOnSignal)]


def _requeues(trainer: pl.Trainer) -> bool:
    """Return whether Lightning uses SIGUSR1 to put a Slurm job back into the queue."""
    environment = trainer._accelerator_connector.cluster_environment
    return bool(getattr(environment, "auto_requeue", False))
