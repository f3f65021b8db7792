"""Ends a run in order when a scheduler asks for the machine."""

from __future__ import annotations

import signal
import threading
from typing import Any

import lightning.pytorch as pl
import torch
import torch.distributed as dist

from radial_vicreg.distributed import is_distributed

# SIGTERM is Slurm's preemption and every scheduler's end; SIGUSR1 is what `--signal=USR1@120` sends by custom.
_SIGNALS = (signal.SIGTERM, signal.SIGUSR1)
_STEPS_BETWEEN_VOTES = 8  # a vote is one small collective between hosts


class RunStoppedError(RuntimeError):
    """The run was told to stop by a signal and can go on from its last checkpoint."""


class StopOnSignal(pl.Callback):
    """Stops after the step in flight, on every process at the same step, whichever of them got the signal.

    It takes the place of Lightning's handler, which broadcasts from inside the handler: when only one process gets the
    signal, the processes then wait for one another for ever.
    """

    def __init__(self) -> None:
        self.requested = False
        self._group: Any = None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Takes over the signals; Lightning restores what was before when the trainer is done."""
        if is_distributed() and dist.get_backend() != "gloo":
            self._group = dist.new_group(backend="gloo")  # so that a vote does not wait for the GPU
        if threading.current_thread() is threading.main_thread():  # Python allows it there only
            for number in _SIGNALS:
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
            raise RunStoppedError("stopped by a signal")

    def _request(self, *_: Any) -> None:
        self.requested = True


def stop_requested(trainer: pl.Trainer) -> bool:
    """Whether a signal has told this trainer to stop."""
    callbacks = trainer.callbacks  # type: ignore[attr-defined]
    return any(callback.requested for callback in callbacks if isinstance(callback, StopOnSignal))
