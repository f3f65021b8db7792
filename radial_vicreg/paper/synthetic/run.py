"""One synthetic run: sample, descend, measure."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from radial_vicreg.errors import UserError
from radial_vicreg.paper.synthetic.distances import measure
from radial_vicreg.paper.synthetic.engine_cpu import CpuEngine
from radial_vicreg.paper.synthetic.engine_torch import TorchEngine
from radial_vicreg.paper.synthetic.gradient import loss_terms
from radial_vicreg.paper.synthetic.settings import SUBSAMPLE, SyntheticConfig

Array = NDArray[np.float64]
Progress = Callable[[int, dict[str, float]], None]

_HARDLY_MOVED = 0.01
"""Ratio of root-mean-square displacement to root-mean-square radius below which points count as hardly moved."""


@dataclass
class RunResult:
    """Result of a run.

    Attributes:
        config: configuration of the run.
        snapshots: step and points of every snapshot, from start to end.
        history: loss terms during the run, with their ``step``.
        diverged_at: step at which the run diverged, or None; the last snapshot then holds the last finite points.
        seconds: wall time of the descent.
    """

    config: SyntheticConfig
    snapshots: list[tuple[int, Array]]
    history: list[dict[str, float]] = field(default_factory=list)
    diverged_at: int | None = None
    seconds: float = 0.0

    @property
    def start(self) -> Array:
        """Points at the start, shape ``(N, d)``."""
        return self.snapshots[0][1]

    @property
    def end(self) -> Array:
        """Points at the end, shape ``(N, d)``."""
        return self.snapshots[-1][1]


def run(
    config: SyntheticConfig,
    *,
    device: str = "cpu",
    snapshots: int = 5,
    records: int = 100,
    progress: Progress | None = None,
) -> RunResult:
    """Make a run.

    Args:
        config: configuration of the run.
        device: ``cpu`` uses numba on one core; any other torch device uses PyTorch.
        snapshots: number of snapshots after the start, evenly spaced and including the end; at least 1.
        records: number of times that the loss terms are recorded.
        progress: callback with the step and the loss terms of every record.

    Returns:
        The run's snapshots and history.

    Raises:
        UserError: the device is not available, or a count is below 1.
    """
    if snapshots < 1 or records < 1:
        raise UserError(f"snapshots and records must be at least 1, got {snapshots} and {records}")
    start, rates = config.start(), config.rates()
    result = RunResult(config, [(0, start)])
    driver = _Cpu(start, config) if device == "cpu" else _Torch(start, config, device)
    snapshot_steps = set(_marks(config.steps, snapshots))
    done = 0
    _record(result, start, 0, progress)
    for mark in sorted(snapshot_steps | set(_marks(config.steps, records))):
        began = time.perf_counter()
        points, result.diverged_at = driver.advance(rates[done:mark])
        result.seconds += time.perf_counter() - began
        if result.diverged_at is not None:
            break
        done = mark
        _record(result, points, mark, progress)
        if mark in snapshot_steps:
            result.snapshots.append((mark, points))
    return result


def summarise(result: RunResult, subsample: int = SUBSAMPLE) -> dict[str, Any]:
    """Build the content of ``results.json``: the run's row, a note on its outcome, and the loss history."""
    moved = _relative_displacement(result.start, result.end)
    return {
        **row_of(result.config, result.end, result.diverged_at, result.seconds, subsample),
        "note": note(result.config, moved, result.diverged_at),
        "history": result.history,
    }


def row_of(
    config: SyntheticConfig, end: Array, diverged_at: int | None, seconds: float, subsample: int
) -> dict[str, Any]:
    """Build the row of a run: configuration, metrics before and after, and relative displacement.

    Args:
        config: configuration of the run.
        end: final points.
        diverged_at: step at which the run diverged, or None; a diverged run has no metrics after the descent.
        seconds: wall time of the descent.
        subsample: number of points in the pairwise metrics.

    Returns:
        One line of a sweep's results, and the first part of a single run's ``results.json``.
    """
    finished = diverged_at is None
    moved = _relative_displacement(config.start(), end) if finished else None
    return {
        "key": config.key,
        "config": asdict(config),
        "definition": config.definition,
        "diverged_at": diverged_at,
        "seconds": round(seconds, 4),
        "before": _measured_start(
            config.distribution, config.alpha, config.num_samples, config.dim, config.seed, subsample
        ),
        "after": measure(end, seed=config.seed, subsample=subsample) if finished else None,
        "relative_displacement": moved,
        "hardly_moved": moved is not None and moved < _HARDLY_MOVED,
    }


@lru_cache(maxsize=64)
def _measured_start(
    distribution: str, alpha: float, num_samples: int, dim: int, seed: int, subsample: int
) -> dict[str, Any]:
    config = SyntheticConfig(distribution=distribution, alpha=alpha, num_samples=num_samples, dim=dim, seed=seed)
    return measure(config.start(), seed=seed, subsample=subsample)


def _relative_displacement(start: Array, end: Array) -> float:
    """Compute the root-mean-square displacement over the root-mean-square radius of the start."""
    return float(np.sqrt(np.square(end - start).sum() / max(np.square(start).sum(), np.finfo(float).tiny)))


def note(config: SyntheticConfig, moved: float, diverged_at: int | None) -> str:
    """Describe the outcome of a run in one line."""
    if diverged_at is not None:
        return f"diverged at step {diverged_at}: the rate {config.lr:g} is past stability for these weights"
    if moved >= _HARDLY_MOVED:
        return f"moved by {moved:.1%} of the root-mean-square radius"
    reach = float(config.rates().sum()) / config.num_samples
    return (
        f"hardly moved ({moved:.2%} of the root-mean-square radius): either the start already minimises the objective, "
        f"or the rate is too small. Gradients are means over {config.num_samples} points, so convergence depends "
        f"on the sum of the rates over N, {reach:.2g}, times the weight of a term; about 3 is needed"
    )


class _Cpu:
    def __init__(self, start: Array, config: SyntheticConfig) -> None:
        self._engine = CpuEngine(start, config)

    def advance(self, rates: Array) -> tuple[Array, int | None]:
        self._engine.advance(rates)
        return self._engine.points, self._engine.diverged_at


class _Torch:
    def __init__(self, start: Array, config: SyntheticConfig, device: str) -> None:
        self._engine = TorchEngine(start[None], [config], device)

    def advance(self, rates: Array) -> tuple[Array, int | None]:
        self._engine.advance(rates[:, None])
        return self._engine.points[0], self._engine.diverged_at[0]


def _marks(steps: int, count: int) -> list[int]:
    return sorted({math.ceil(steps * (i + 1) / count) for i in range(count)})


def _record(result: RunResult, points: Array, step: int, progress: Progress | None) -> None:
    terms = loss_terms(torch.from_numpy(points), result.config)
    result.history.append({"step": step, **terms})
    if progress is not None:
        progress(step, terms)
