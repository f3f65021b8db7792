"""Checkpoints of ``radial-vicreg pretrain``: the newest two epochs, each whole or not there."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.plugins.io import TorchCheckpointIO

from radial_vicreg.errors import UserError
from radial_vicreg.files import atomic_file, atomic_link

LAST_CHECKPOINT = "last.ckpt"
_EPOCH = re.compile(r"epoch-(\d+)\.ckpt")
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

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Set aside what a former course of this run has left beyond the epoch from which it goes on.

        Their numbers would make them the newest. They are renamed, never removed: whoever goes back to an earlier epoch
        may want to compare.
        """
        if trainer.is_global_zero:
            for path in epoch_checkpoints(self.folder):
                if epoch_of(path) > trainer.current_epoch:
                    print(f"{path} is of a former course of this run: renamed to {_set_aside(path).name}")

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
    """List the checkpoints ``epoch-<N>.ckpt`` of a folder, the furthest first.

    By number and never by the files' times: clocks of a cluster's nodes disagree, and a copy has times of its own.
    """
    found = [path for path in folder.glob("epoch-*.ckpt") if _EPOCH.fullmatch(path.name)]
    return sorted(found, key=epoch_of, reverse=True)


def epoch_of(checkpoint: Path) -> int:
    """Read the number of epochs done from a checkpoint's name ``epoch-<N>.ckpt``.

    Raises:
        UserError: another name.
    """
    match = _EPOCH.fullmatch(checkpoint.name)
    if match is None:
        raise UserError(f"{checkpoint} is not named epoch-<number>.ckpt")
    return int(match[1])


def last_checkpoint(trainer: pl.Trainer) -> str | None:
    """Path of the newest checkpoint that this trainer, ours or solo-learn's, has written or started from."""
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        if isinstance(callback, RunCheckpoint) and (found := epoch_checkpoints(callback.folder)):
            return str(found[0])
        if written := getattr(callback, "last_ckpt", None):  # solo-learn's Checkpointer
            return str(written)
    return None if trainer.ckpt_path is None else str(trainer.ckpt_path)


def _set_aside(checkpoint: Path) -> Path:
    """Rename ``epoch-<N>.ckpt`` to a name that no search finds."""
    target = checkpoint.with_name(f"former-{checkpoint.name}")
    count = 2
    while target.exists():
        target = checkpoint.with_name(f"former-{count}-{checkpoint.name}")
        count += 1
    return checkpoint.rename(target)
