"""Time and memory of training steps, and of measurements between steps."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import lightning.pytorch as pl
import torch

_MEGABYTE = 2**20


class StepCost(pl.Callback):
    """Measure the seconds of a step and the largest memory of the process, as ``cost`` in ``results.json``.

    A step lasts from the end of one batch to the end of the next batch in the same epoch. Loading counts. Validation
    and measurements between two epochs do not count, neither their time nor their memory on a GPU. The GPU is not
    synchronised: over many steps both clocks agree. A resumed run starts new measurements.

    The process waits for images from the end of one batch until the next one is on the device. Work that it does itself
    for the images counts too: all of it without data-loading processes, and the augmentation of ``data.format=device``.
    """

    def __init__(self) -> None:
        self._seconds: list[float] = []
        self._waited = 0.0
        self._last = self._arrived = 0.0
        self._device = torch.device("cpu")
        self._peak: int | None = None
        self._paused = True

    @property
    def steps(self) -> int:
        """Number of steps that were measured."""
        return len(self._seconds)

    @property
    def image_wait_share(self) -> float | None:
        """Share of the time of all steps that the process waited for images; None before two steps."""
        return self._waited / sum(self._seconds) if self._seconds else None

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        """Add the time since the end of the previous batch; start to measure memory after a pause."""
        self._arrived = time.perf_counter()
        if self._paused:
            self._paused, self._device = False, pl_module.device
            _begin_peak(self._device)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Add the time since the end of the previous batch."""
        now = time.perf_counter()
        if batch_idx > 0 and self._last:
            self._seconds.append(now - self._last)
            self._waited += self._arrived - self._last
        self._last = now

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Exclude the memory of the validation."""
        self.pause()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start a new measurement at the first batch of the next epoch."""
        self._last = 0.0
        self.pause()

    def pause(self) -> None:
        """Keep the memory of the steps so far; exclude everything until the next batch."""
        if not self._paused:
            self._peak, self._paused = larger(self._peak, _peak_of(self._device)), True

    def results(self) -> dict[str, dict[str, float | None]]:
        """Return ``cost``: median ``step_seconds``, ``image_wait_share`` and ``peak_memory_mb`` (2^20 bytes).

        The first two are None before two steps.
        """
        if self._device.type == "cuda":
            peak = self._peak if self._paused else larger(self._peak, _peak_of(self._device))
        else:
            peak = _resident()
        share = self.image_wait_share
        return {
            "cost": {
                "step_seconds": _median(self._seconds),
                "image_wait_share": None if share is None else round(share, 3),
                "peak_memory_mb": _megabytes(peak),
            }
        }


class SeparateCost:
    """Seconds and GPU memory of a callback's measurements between steps, apart from those of the steps.

    Args:
        name: first word of the keys in ``cost``.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._seconds: list[float] = []
        self._peak: int | None = None

    @contextmanager
    def measured(self, trainer: pl.Trainer, device: torch.device) -> Iterator[None]:
        """Measure a block.

        Args:
            trainer: trainer whose step measurement pauses meanwhile.
            device: device of the model.
        """
        for callback in trainer.callbacks:  # type: ignore[attr-defined]
            if isinstance(callback, StepCost):
                callback.pause()
        _begin_peak(device)
        began = time.perf_counter()
        yield
        self._seconds.append(time.perf_counter() - began)
        self._peak = larger(self._peak, _peak_of(device))

    def results(self) -> dict[str, dict[str, float | None]]:
        """Return ``cost``: median ``<name>_seconds`` and largest ``<name>_memory_mb``; the latter is None on a CPU."""
        return {
            "cost": {f"{self.name}_seconds": _median(self._seconds), f"{self.name}_memory_mb": _megabytes(self._peak)}
        }


def _begin_peak(device: torch.device) -> None:
    """Reset the largest memory of a GPU."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def _peak_of(device: torch.device) -> int | None:
    """Read the largest memory of a GPU in bytes since :func:`_begin_peak`; None for a CPU, which cannot reset it."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None


def larger(first: int | None, second: int | None) -> int | None:
    """Return the larger number; None only if both are None."""
    return max((number for number in (first, second) if number is not None), default=None)


def _median(seconds: list[float]) -> float | None:
    return round(statistics.median(seconds), 6) if seconds else None


def _megabytes(count: int | None) -> float | None:
    return None if count is None else round(count / _MEGABYTE, 1)


def _resident() -> int | None:
    """Read the largest resident memory of this process in bytes; None if the system does not report it."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
