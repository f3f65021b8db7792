"""Run Lightning's trainer, and raise a specific error for each way in which a run can end early."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import lightning.pytorch as pl
from torch.utils.data import DataLoader

from radial_vicreg.data.errors import resource_problem
from radial_vicreg.errors import RunFailed, RunStopped
from radial_vicreg.train.callbacks.checkpointing import last_checkpoint
from radial_vicreg.train.callbacks.stop_on_signal import SIGNALS, stop_reason


class WorkerDiedError(RunFailed):
    """A data-loading process has died, or has run out of files or memory."""


def fit(
    trainer: pl.Trainer,
    model: pl.LightningModule,
    train_loader: DataLoader[Any],
    val_loader: DataLoader[Any] | None,
    checkpoint: str | None,
) -> None:
    """Train until the end, or until SIGTERM, SIGUSR1, SIGHUP or Ctrl-C, after which the current step is completed.

    A stopped run keeps the checkpoint of its last complete epoch. From an epoch's start on, everything depends only on
    seed and epoch, so a resumed run equals one that was never stopped. Checkpoints within an epoch could not ensure it.

    Args:
        trainer: Lightning's trainer.
        model: module of either host.
        train_loader: training batches.
        val_loader: validation batches, or None.
        checkpoint: checkpoint to resume from.

    Raises:
        RunStopped: a signal ended the run.
        WorkerDiedError: a data-loading process was killed, or files or memory ran out.
        UserError: an image cannot be read, or the images of a batch have several shapes.
        KeyboardInterrupt: Ctrl-C.
    """
    try:
        with _handlers_restored():
            trainer.fit(model, train_loader, val_loader, ckpt_path=checkpoint, weights_only=True)
    except SystemExit as exit_:  # Lightning turns Ctrl-C into SystemExit
        if not isinstance(exit_.__context__, KeyboardInterrupt):
            raise
        print(_how_to_resume(trainer, "interrupted"))
        raise KeyboardInterrupt from exit_
    except Exception as error:
        # The error may be of any type: for example, workers receive the signal as well.
        if stop_reason(trainer, error) is not None:
            raise RunStopped(_how_to_resume(trainer, "stopped by a signal")) from error
        if (problem := resource_problem(error)) is not None:
            raise WorkerDiedError(f"{problem}. {_how_to_resume(trainer, 'Stopped')}") from error
        if "DataLoader worker (pid" in str(error):
            # The queue only says that it "exited unexpectedly"; the cause names the signal that killed it, if any.
            cause = next((e for e in (error, error.__cause__) if "by signal" in str(e)), error)
            raise WorkerDiedError(
                f"{str(cause).splitlines()[0]} Killed usually means that memory ran out, Bus error that shared "
                f"memory ran out: lower data.num_workers. {_how_to_resume(trainer, 'Stopped')}"
            ) from error
        raise


@contextmanager
def _handlers_restored() -> Iterator[None]:
    """Restore the signal handlers: after one Ctrl-C, Lightning ignores further ones."""
    if threading.current_thread() is not threading.main_thread():  # Python allows it there only
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *SIGNALS)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _how_to_resume(trainer: pl.Trainer, what: str) -> str:
    at = f"{what} in epoch {trainer.current_epoch + 1} at step {trainer.global_step}"
    found = last_checkpoint(trainer)
    if found is None:
        return f"{at}, before the first checkpoint"
    return f"{at}; the same command with ckpt=last resumes from {found}"
