"""Checkpoints of ``radial-vicreg pretrain``: the newest two epochs, each whole or not there."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.plugins.io import TorchCheckpointIO

from radial_vicreg.files import atomic_file, atomic_link

LAST_CHECKPOINT = "last.ckpt"
_KEPT = 2  # the newest, and the one before for the case that the newest cannot be read


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

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Writes, once every other callback is done with the epoch."""
        done = trainer.current_epoch + 1
        if done % self.every_n_epochs != 0 and done != trainer.max_epochs:
            return
        path = self.folder / f"epoch-{done}.ckpt"
        trainer.save_checkpoint(path, weights_only=False)
        if trainer.is_global_zero:
            atomic_link(path, self.folder / LAST_CHECKPOINT)
            if not self.keep_all:
                for old in epoch_checkpoints(self.folder)[_KEPT:]:
                    old.unlink(missing_ok=True)


def epoch_checkpoints(folder: Path) -> list[Path]:
    """The checkpoints of a folder, the one written last first.

    By time and not by epoch: a run that goes on from an earlier epoch on purpose has later ones of its former course.
    """
    return sorted(folder.glob("epoch-*.ckpt"), key=lambda path: path.stat().st_mtime_ns, reverse=True)


def last_checkpoint(trainer: pl.Trainer) -> str | None:
    """Path of the newest checkpoint that this trainer, ours or solo-learn's, has written or started from."""
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        if isinstance(callback, RunCheckpoint) and (found := epoch_checkpoints(callback.folder)):
            return str(found[0])
        if written := getattr(callback, "last_ckpt", None):  # solo-learn's Checkpointer
            return str(written)
    return None if trainer.ckpt_path is None else str(trainer.ckpt_path)
