"""What a training step costs: time and memory."""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

import lightning.pytorch as pl
import torch

_MEGABYTE = 2**20


class StepCost(pl.Callback):
    """Measure the seconds of a step and the largest memory of the process, as ``cost`` in ``results.json``.

    A step lasts from the end of one batch to the end of the next of the same epoch: loading counts, validation and
    measurements between two epochs do not. The GPU is not waited for: over many steps both clocks agree. A run that
    goes on from a checkpoint measures anew.
    """

    def __init__(self) -> None:
        self._seconds: list[float] = []
        self._last = 0.0
        self._on_gpu = False

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Add the time since the end of the batch before."""
        now = time.perf_counter()
        if batch_idx > 0 and self._last:
            self._seconds.append(now - self._last)
        self._last, self._on_gpu = now, pl_module.device.type == "cuda"

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Let the first batch of the next epoch begin a measurement."""
        self._last = 0.0

    def results(self) -> dict[str, Any]:
        """Give ``cost``: median ``step_seconds`` (None before two steps) and ``peak_memory_mb`` (2^20 bytes)."""
        median = round(statistics.median(self._seconds), 6) if self._seconds else None
        peak = torch.cuda.max_memory_allocated() if self._on_gpu else _resident()
        return {
            "cost": {"step_seconds": median, "peak_memory_mb": None if peak is None else round(peak / _MEGABYTE, 1)}
        }


def _resident() -> int | None:
    """Read the largest resident memory of this process in bytes; None where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
