"""solo-learn's own checkpoint callback, seen from our callbacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.plugins.io import TorchCheckpointIO

from radial_vicreg.train.callbacks.checkpointing import AtomicCheckpointIO


def solo_folder(trainer: pl.Trainer) -> Path | None:
    """Find where solo-learn's ``Checkpointer`` writes; known once training has started, None without one."""
    checkpointer = _find(trainer)
    return None if checkpointer is None or not hasattr(checkpointer, "path") else Path(checkpointer.path)


def write_checkpoints_last(trainer: pl.Trainer) -> None:
    """Let solo-learn's checkpoint hold what our callbacks make of an epoch, and be whole or not there.

    Its ``Checkpointer`` comes first in the trainer's list, and what a model attaches comes after it: each checkpoint
    would hold our callbacks' state of the epoch before. Its files pass through the system's folder for temporary
    files; where that is another file system, a killed process leaves half of one, which auto-resume then takes.

    Args:
        trainer: solo-learn's, once every callback has seen the start of the training; any other is left alone.
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
    """Ask solo-learn's ``Checkpointer`` for the checkpoint of the last epoch, unless it has written that one itself.

    It counts epochs from zero and writes every one that its frequency divides: of 400 epochs at a frequency of 10 the
    last that it writes is number 390. File name, folder and the removal of the checkpoint before stay its own.

    Args:
        trainer: solo-learn's, once its callbacks are done with an epoch; any other is left alone.
    """
    checkpointer = _find(trainer)
    is_last = trainer.current_epoch + 1 == trainer.max_epochs
    if checkpointer is not None and is_last and trainer.current_epoch % checkpointer.frequency != 0:
        checkpointer.save(trainer)


def _find(trainer: pl.Trainer) -> Any:
    # By name: our callbacks work without solo-learn.
    callbacks = trainer.callbacks  # type: ignore[attr-defined]
    return next((callback for callback in callbacks if type(callback).__name__ == "Checkpointer"), None)
