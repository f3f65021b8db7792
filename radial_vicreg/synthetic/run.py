"""One synthetic run: sample, descend, measure."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from radial_vicreg.errors import UserError
from radial_vicreg.synthetic.distributions import DISTRIBUTIONS, sample
from radial_vicreg.synthetic.engine_cpu import CpuEngine
from radial_vicreg.synthetic.engine_torch import TorchEngine
from radial_vicreg.synthetic.metrics import SUBSAMPLE, measure
from radial_vicreg.synthetic.objective import Objective, loss_terms
from radial_vicreg.synthetic.schedule import learning_rates

Array = NDArray[np.float64]
Progress = Callable[[int, dict[str, float]], None]

HARDLY_MOVED = 0.01
"""Root-mean-square displacement over root-mean-square radius below which a run is said to have hardly moved."""
KEY_LENGTH = 16
"""Hexadecimal digits that identify a configuration."""


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides the outcome of a run; two runs with the same values give the same points.

    Attributes:
        distribution: where the points start, a key of :data:`~.distributions.DISTRIBUTIONS`.
        alpha: share of X in ``mixture``.
        num_samples: number of points N.
        dim: dimension d.
        steps: gradient steps.
        lr: peak learning rate. Gradients are means over N points, so what counts is lr * weight * steps / N for the
            way that a term's weight makes in a run, and lr * beta2 for stability (past about 1.4 it is lost).
        schedule: ``cosine``, ``linear`` or ``constant`` after the warm-up.
        warmup_steps: steps of linear warm-up.
        final_lr: rate at the end of the decay.
        objective: ``kl``, ``wasserstein``, ``reverse_kl`` or ``e2mc``.
        lambda2: weight of the variance term.
        lambda3: weight of the covariance term.
        beta1: weight of the radial cross-entropy (``kl``).
        beta2: weight of the radial entropy (``kl``).
        gamma: weight of the other objectives.
        m: spacing of the entropy; None is round(sqrt(N)).
        seed: of the starting points and of the metrics' subsample.

    Raises:
        UserError: a value out of range, by name.
    """

    distribution: str = "x"
    alpha: float = 1.0
    num_samples: int = 10_000
    dim: int = 2
    steps: int = 200_000
    lr: float = 0.5
    schedule: str = "cosine"
    warmup_steps: int = 100
    final_lr: float = 1e-6
    objective: str = "kl"
    lambda2: float = 25.0
    lambda3: float = 1.0
    beta1: float = 1.0
    beta2: float = 1.0
    gamma: float = 1.0
    m: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.seed < 0 or self.num_samples < 2 or self.steps < 1:
            raise UserError(
                "seed must be at least 0, num_samples at least 2 and steps at least 1, "
                f"got {self.seed}, {self.num_samples} and {self.steps}"
            )
        # Two points and one step: what these refuse is refused before the run and not during it.
        sample(self.distribution, 2, self.dim, alpha=self.alpha)
        learning_rates(1, self.lr, schedule=self.schedule, warmup_steps=self.warmup_steps, final_lr=self.final_lr)
        self.weights.spacing(self.num_samples)

    @property
    def weights(self) -> Objective:
        """The objective to descend."""
        return Objective(self.objective, self.lambda2, self.lambda3, self.beta1, self.beta2, self.gamma, self.m)

    @property
    def definition(self) -> int:
        """Which definition of the distribution's name is meant, from 1."""
        return DISTRIBUTIONS[self.distribution].definition

    @property
    def key(self) -> str:
        """Identifies the configuration: equal keys, equal runs."""
        values = asdict(self)
        if self.definition > 1:
            values["definition"] = self.definition
        text = json.dumps(values, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:KEY_LENGTH]

    def start(self) -> Array:
        """Starting points, shape ``(num_samples, dim)``."""
        return sample(self.distribution, self.num_samples, self.dim, alpha=self.alpha, seed=self.seed)

    def rates(self) -> Array:
        """Learning rate of every step, shape ``(steps,)``."""
        return learning_rates(
            self.steps,
            self.lr,
            schedule=self.schedule,
            warmup_steps=self.warmup_steps,
            final_lr=self.final_lr,
        )


@dataclass
class RunResult:
    """What a run leaves behind.

    Attributes:
        config: its configuration.
        snapshots: step and points of every snapshot, start first and end last.
        history: loss terms along the way, with their ``step``.
        diverged_at: step at which it diverged, or None; the last snapshot is then the last finite one.
        seconds: wall time of the descent.
    """

    config: RunConfig
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
    config: RunConfig,
    *,
    engine: str = "cpu",
    device: str = "cpu",
    snapshots: int = 5,
    records: int = 100,
    progress: Progress | None = None,
) -> RunResult:
    """Make a run.

    Args:
        config: the run.
        engine: ``cpu`` (numba, one core) or ``torch``.
        device: torch device of the ``torch`` engine.
        snapshots: snapshots after the start, evenly spaced, the end among them; at least 1.
        records: how often the loss terms are recorded.
        progress: called with the step and the loss terms at every record.

    Returns:
        The run's snapshots and history.

    Raises:
        UserError: unknown engine, or counts below 1.
    """
    if engine not in ("cpu", "torch"):
        raise UserError(f"engine must be cpu or torch, got {engine!r}")
    if snapshots < 1 or records < 1:
        raise UserError(f"snapshots and records must be at least 1, got {snapshots} and {records}")
    start, rates = config.start(), config.rates()
    result = RunResult(config, [(0, start)])
    driver = _Cpu(start, config) if engine == "cpu" else _Torch(start, config, device)
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
    """The content of ``results.json``: configuration, metrics before and after, and how far the run moved."""
    config = result.config
    finished = result.diverged_at is None
    moved = relative_displacement(result.start, result.end)
    return {
        "config": asdict(config),
        "definition": config.definition,
        "key": config.key,
        "diverged_at": result.diverged_at,
        "seconds": round(result.seconds, 3),
        "relative_displacement": moved if finished else None,
        "hardly_moved": finished and moved < HARDLY_MOVED,
        "note": note(config, moved, result.diverged_at),
        "before": measure(result.start, seed=config.seed, subsample=subsample),
        "after": measure(result.end, seed=config.seed, subsample=subsample) if finished else None,
        "history": result.history,
    }


def relative_displacement(start: Array, end: Array) -> float:
    """Root-mean-square displacement over the root-mean-square radius of the start."""
    return float(np.sqrt(np.square(end - start).sum() / max(np.square(start).sum(), np.finfo(float).tiny)))


def note(config: RunConfig, moved: float, diverged_at: int | None) -> str:
    """One line on what became of the run."""
    if diverged_at is not None:
        return f"diverged at step {diverged_at}: the rate {config.lr:g} is past stability for these weights"
    if moved >= HARDLY_MOVED:
        return f"moved by {moved:.1%} of the root-mean-square radius"
    reach = float(config.rates().sum()) / config.num_samples
    return (
        f"hardly moved ({moved:.2%} of the root-mean-square radius): either the start already minimises the objective, "
        f"or the rate is too small. Gradients are means over {config.num_samples} points: what counts is the sum of "
        f"the rates over N, {reach:.2g}, times the weight of a term; about 3 is needed to converge"
    )


class _Cpu:
    def __init__(self, start: Array, config: RunConfig) -> None:
        self._engine = CpuEngine(start, config.weights)

    def advance(self, rates: Array) -> tuple[Array, int | None]:
        self._engine.advance(rates)
        return self._engine.points, self._engine.diverged_at


class _Torch:
    def __init__(self, start: Array, config: RunConfig, device: str) -> None:
        self._engine = TorchEngine(start[None], [config.weights], device)

    def advance(self, rates: Array) -> tuple[Array, int | None]:
        self._engine.advance(rates[:, None])
        return self._engine.points[0], self._engine.diverged_at[0]


def _marks(steps: int, count: int) -> list[int]:
    return sorted({math.ceil(steps * (i + 1) / count) for i in range(count)})


def _record(result: RunResult, points: Array, step: int, progress: Progress | None) -> None:
    terms = loss_terms(torch.from_numpy(points), result.config.weights)
    result.history.append({"step": step, **terms})
    if progress is not None:
        progress(step, terms)
