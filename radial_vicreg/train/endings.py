"""Run Lightning's trainer, and turn each way in which a run can end early into an error that says so."""

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
    """A process that loads data is gone, or has no files or memory left to do so."""


def fit(
    trainer: pl.Trainer,
    model: pl.LightningModule,
    train_loader: DataLoader[Any],
    val_loader: DataLoader[Any] | None,
    checkpoint: str | None,
) -> None:
    """Train until the end, or until SIGTERM, SIGUSR1, SIGHUP or Ctrl-C after the step in flight.

    A stopped run keeps the checkpoint of its last whole epoch. What follows an epoch's start depends on seed and epoch
    alone, so a resumed run equals one that was never stopped. A checkpoint within an epoch could not promise that.

    Args:
        trainer: Lightning's.
        model: either host's module.
        train_loader: its batches.
        val_loader: its validation batches, or None.
        checkpoint: to resume from.

    Raises:
        RunStopped: a signal ended the run.
        WorkerDiedError: a data-loading process was killed, or files or memory ran out.
        UserError: an image cannot be read, or the images of a batch have several shapes.
        KeyboardInterrupt: Ctrl-C.
    """
    try:
        with _handlers_restored():
            trainer.fit(model, train_loader, val_loader, ckpt_path=checkpoint, weights_only=True)
    except SystemExit as exit_:  # what Lightning makes of Ctrl-C
        if not isinstance(exit_.__context__, KeyboardInterrupt):
            raise
        print(_how_to_resume(trainer, "interrupted"))
        raise KeyboardInterrupt from exit_
    except Exception as error:
        # Anything may break on the way out: workers get the signal as well, say.
        if stop_reason(trainer, error) is not None:
            raise RunStopped(_how_to_resume(trainer, "stopped by a signal")) from error
        if (problem := resource_problem(error)) is not None:
            raise WorkerDiedError(f"{problem}. {_how_to_resume(trainer, 'Stopped')}") from error
        if "DataLoader worker (pid" in str(error):
            # The queue only says that it "exited unexpectedly"; the cause names the signal that killed it, if any.
            cause = next((e for e in (error, error.__cause__) if "by signal" in str(e)), error)
            raise WorkerDiedError(
                f"{str(cause).splitlines()[0]} Killed means, as a rule, that memory ran out, and Bus error that shared "
                f"memory did: lower data.num_workers. {_how_to_resume(trainer, 'Stopped')}"
            ) from error
        raise


@contextmanager
def _handlers_restored() -> Iterator[None]:
    """Restore the signal handlers: Lightning leaves Ctrl-C switched off once it was pressed."""
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
