"""Checkpoints of ``radial-vicreg pretrain``: the newest two epochs, each whole or not there."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.plugins.io import TorchCheckpointIO

from radial_vicreg.files import atomic_file

LAST_CHECKPOINT = "last.ckpt"
_KEPT = 2  # the newest, and the one before for the case that the newest cannot be read
_EPOCH = re.compile(r"epoch-(\d+)\.ckpt")


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes a checkpoint beside its target and renames it.

    Lightning's own writes into the system's folder for temporary files first: where that is another file system, the
    checkpoint is then copied over the old one piece by piece.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None) -> None:
        """Writes one file.

        Args:
            checkpoint: content.
            path: target.
            storage_options: not used.

        Raises:
            OSError: the disk is full, say; the previous file stays as it was.
        """
        buffer = io.BytesIO()  # torch.save into a file hides the reason when the disk is full
        torch.save(checkpoint, buffer)
        with atomic_file(path) as stream:
            stream.write(buffer.getbuffer())


class RunCheckpoint(Checkpoint):
    """Writes ``epoch-<epochs done>.ckpt`` and the link ``last.ckpt`` to the newest.

    Args:
        folder: where to.
        every_n_epochs: how often; the last epoch is always written.
        keep_all: keep every one of them; otherwise the newest two.
    """

    def __init__(self, folder: str | Path, every_n_epochs: int = 1, keep_all: bool = False) -> None:
        self.folder = Path(folder)
        self.every_n_epochs = every_n_epochs
        self.keep_all = keep_all

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Removes what a killed process had not finished; the results writer has claimed the folder by now."""
        if trainer.is_global_zero:
            for file in self.folder.glob(".*.tmp"):
                file.unlink(missing_ok=True)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Writes, once every other callback is done with the epoch."""
        done = trainer.current_epoch + 1
        if done % self.every_n_epochs != 0 and done != trainer.max_epochs:
            return
        path = self.folder / f"epoch-{done}.ckpt"
        trainer.save_checkpoint(path, weights_only=False)
        if trainer.is_global_zero:
            link(path, self.folder / LAST_CHECKPOINT)
            if not self.keep_all:
                for old in epoch_checkpoints(self.folder)[_KEPT:]:
                    old.unlink(missing_ok=True)


def epoch_checkpoints(folder: Path) -> list[Path]:
    """The checkpoints of a folder, that of the latest epoch first."""
    found = {int(match[1]): path for path in folder.glob("epoch-*.ckpt") if (match := _EPOCH.fullmatch(path.name))}
    return [found[epoch] for epoch in sorted(found, reverse=True)]


def link(target: Path, name: Path) -> None:
    """Makes ``name`` a relative symbolic link to its neighbour ``target``, in one step.

    Raises:
        OSError: the folder cannot be written.
    """
    temporary = name.with_name(f".{name.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target.name)
    os.replace(temporary, name)


def last_checkpoint(trainer: pl.Trainer) -> str | None:
    """Path of the newest checkpoint that this trainer, ours or solo-learn's, has written or started from."""
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        if isinstance(callback, RunCheckpoint) and (found := epoch_checkpoints(callback.folder)):
            return str(found[0])
        if written := getattr(callback, "last_ckpt", None):  # solo-learn's Checkpointer
            return str(written)
    return None if trainer.ckpt_path is None else str(trainer.ckpt_path)
