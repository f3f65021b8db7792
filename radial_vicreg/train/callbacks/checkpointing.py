"""Checkpoints of ``radial-vicreg pretrain`` while it trains."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.plugins.io import TorchCheckpointIO

from radial_vicreg.runs.checkpoints import epoch_checkpoints, epoch_of, link_last, prune, set_aside, write_checkpoint

_LARGE_SHARE = 0.05  # of an epoch
_WORTH_A_LINE = 1.0  # seconds


class AtomicCheckpointIO(TorchCheckpointIO):
    """Write a checkpoint into the folder of its target and rename it.

    Lightning's ``TorchCheckpointIO`` first writes into the system's folder for temporary files. If this folder is on
    another file system, the checkpoint is then copied over the old one piece by piece.

    From the second checkpoint on, one line is printed if writing takes a large share of the time.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last: tuple[float, int] | None = None  # when the last one was written, and its epoch
        self._told = False

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None) -> None:
        """Write one file; see :func:`radial_vicreg.runs.checkpoints.write_checkpoint`."""
        began = time.perf_counter()
        write_checkpoint(checkpoint, path)
        ended, before, epoch = time.perf_counter(), self._last, checkpoint["epoch"]
        self._last = ended, epoch
        if self._told or before is None or (epochs := epoch - before[1]) < 1:
            return
        note = slow_writing(ended - began, (began - before[0]) / epochs, epochs)
        if note is not None:
            self._told = True
            print(note, flush=True)


class RunCheckpoint(Checkpoint):
    """Write ``epoch-<epochs done>.ckpt`` and ``last.ckpt``, which leads to the newest.

    Args:
        folder: where to write.
        every_n_epochs: number of epochs between checkpoints; the last epoch is always written.
        keep_all: keep all checkpoints; otherwise the newest two.
    """

    def __init__(self, folder: str | Path, every_n_epochs: int = 1, keep_all: bool = False) -> None:
        self.folder = Path(folder)
        self.every_n_epochs = every_n_epochs
        self.keep_all = keep_all

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Set aside checkpoints of this run that are beyond the epoch from which it resumes.

        Their numbers would make them the newest. They are renamed, never removed: a user who returns to an earlier
        epoch may want to compare.
        """
        if trainer.is_global_zero:
            for path in epoch_checkpoints(self.folder):
                if epoch_of(path) > trainer.current_epoch:
                    print(f"{path} is of an earlier training of this run: renamed to {set_aside(path).name}")

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write the checkpoint after every other callback has finished the epoch."""
        done = trainer.current_epoch + 1
        if done % self.every_n_epochs != 0 and done != trainer.max_epochs:
            return
        path = self.folder / f"epoch-{done}.ckpt"
        trainer.save_checkpoint(path, weights_only=False)
        if trainer.is_global_zero:
            self.settle(path)

    def settle(self, newest: Path) -> None:
        """Point ``last.ckpt`` to the newest checkpoint, and remove those that are not kept."""
        link_last(newest)
        if not self.keep_all:
            prune(self.folder)


def slow_writing(writing: float, epoch: float, every_n_epochs: int) -> str | None:
    """Describe in one line how much of the time checkpoints take, and the key that changes it; None if it is little.

    Args:
        writing: seconds for one checkpoint.
        epoch: seconds of an epoch without it.
        every_n_epochs: epochs between checkpoints.
    """
    if writing < _WORTH_A_LINE or writing <= _LARGE_SHARE * epoch * every_n_epochs:
        return None
    enough = math.ceil(writing / (_LARGE_SHARE * epoch))
    of = "an epoch" if every_n_epochs == 1 else f"{every_n_epochs} epochs"
    return (
        f"writing a checkpoint takes {writing:.1f} s, {writing / (epoch * every_n_epochs):.0%} of {of}:"
        f" checkpoint.frequency={enough} writes one every {enough} epochs, the most that a killed run repeats"
    )


def settle_checkpoints(trainer: pl.Trainer) -> None:
    """Complete the work of a process that was killed after it wrote the checkpoint that this trainer has loaded."""
    loaded = Path(str(trainer.ckpt_path))
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        if isinstance(callback, RunCheckpoint) and callback.folder.resolve() == loaded.parent.resolve():
            callback.settle(loaded)


def written_checkpoint(trainer: pl.Trainer) -> str | None:
    """Find the newest checkpoint that this trainer, ours or solo-learn's, has written; None if it writes none."""
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        if isinstance(callback, RunCheckpoint) and (found := epoch_checkpoints(callback.folder)):
            return str(found[0])
        if written := getattr(callback, "last_ckpt", None):  # solo-learn's Checkpointer
            return str(written)
    return None


def last_checkpoint(trainer: pl.Trainer) -> str | None:
    """Find the newest checkpoint that this trainer, ours or solo-learn's, has written or started from."""
    written = written_checkpoint(trainer)
    return written if written is not None or trainer.ckpt_path is None else str(trainer.ckpt_path)
