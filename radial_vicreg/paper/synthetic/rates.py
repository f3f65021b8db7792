"""Learning rates of a run, one per step."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from radial_vicreg.errors import UserError

_SCHEDULES = ("cosine", "linear", "constant")


def learning_rates(
    steps: int, lr: float, *, schedule: str = "cosine", warmup_steps: int = 100, final_lr: float = 1e-6
) -> NDArray[np.float64]:
    """Warm up linearly to ``lr``, then decay to ``final_lr`` (appendix C; warm-up and final rate are the authors').

    Args:
        steps: number of steps, at least 1.
        lr: peak rate.
        schedule: ``cosine``, ``linear`` or ``constant`` after the warm-up.
        warmup_steps: number of warm-up steps; at most ``steps`` are used.
        final_lr: rate of the last step; at most ``lr`` is used.

    Returns:
        Rates, shape ``(steps,)``, float64.

    Raises:
        UserError: a value is out of range.
    """
    if steps < 1 or warmup_steps < 0:
        raise UserError(f"steps must be at least 1 and warmup_steps at least 0, got {steps} and {warmup_steps}")
    if not (math.isfinite(lr) and lr > 0 and math.isfinite(final_lr) and final_lr >= 0):
        raise UserError(f"lr must be positive and final_lr at least 0, both finite, got {lr} and {final_lr}")
    if schedule not in _SCHEDULES:
        raise UserError(f"schedule must be one of {', '.join(_SCHEDULES)}, got {schedule!r}")
    warmup = min(warmup_steps, steps)
    progress = np.arange(steps - warmup) / max(steps - warmup - 1, 1)
    shape = {"cosine": (1 + np.cos(np.pi * progress)) / 2, "linear": 1 - progress, "constant": np.ones_like(progress)}
    final = min(final_lr, lr)
    decay = final + (lr - final) * shape[schedule]
    return np.concatenate([lr * np.arange(1, warmup + 1) / warmup if warmup else [], decay])
