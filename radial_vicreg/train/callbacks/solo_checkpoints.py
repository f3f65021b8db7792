"""Adapt solo-learn's own checkpoint callback to our callbacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.plugins.io import TorchCheckpointIO

from radial_vicreg.train.callbacks.checkpointing import AtomicCheckpointIO


def solo_folder(trainer: pl.Trainer) -> Path | None:
    """Find the folder of solo-learn's ``Checkpointer``, which is known once training has started; None without one."""
    checkpointer = _find(trainer)
    return None if checkpointer is None or not hasattr(checkpointer, "path") else Path(checkpointer.path)


def write_checkpoints_last(trainer: pl.Trainer) -> None:
    """Make solo-learn's checkpoints atomic, and include in them the state of our callbacks after the epoch.

    solo-learn's ``Checkpointer`` comes first in the trainer's list, before callbacks of the model, so each checkpoint
    would hold our callbacks' state of the previous epoch. Its files pass through the system's folder for temporary
    files. If this is another file system, a killed process leaves an incomplete file, which auto-resume then loads.

    Args:
        trainer: solo-learn's, once every callback has seen the start of the training; any other is not changed.
    """
    checkpointer = _find(trainer)
    if checkpointer is None:
        return
    callbacks: list[pl.Callback] = trainer.callbacks  # type: ignore[attr-defined]
    # A new list, since Lightning may be iterating the old one.
    trainer.callbacks = [*(c for c in callbacks if c is not checkpointer), checkpointer]  # type: ignore[attr-defined]
    if type(trainer.strategy.checkpoint_io) is TorchCheckpointIO:
        trainer.strategy.checkpoint_io = AtomicCheckpointIO()


def write_last_epoch(trainer: pl.Trainer) -> None:
    """Make solo-learn's ``Checkpointer`` write the checkpoint of the last epoch, unless it has done so.

    It counts epochs from zero and writes every epoch that its frequency divides: of 400 epochs at a frequency of 10,
    the last written one is number 390. The ``Checkpointer`` still chooses file name and folder, and removes the
    previous checkpoint.

    Args:
        trainer: solo-learn's, once its callbacks have finished an epoch; any other is not changed.
    """
    checkpointer = _find(trainer)
    is_last = trainer.current_epoch + 1 == trainer.max_epochs
    if checkpointer is not None and is_last and trainer.current_epoch % checkpointer.frequency != 0:
        checkpointer.save(trainer)


def _find(trainer: pl.Trainer) -> Any:
    # Compared by name, since our callbacks work without solo-learn.
    callbacks = trainer.callbacks  # type: ignore[attr-defined]
    return next((callback for callback in callbacks if type(callback).__name__ == "Checkpointer"), None)
