"""Linear warm-up and cosine decay of the learning rate, as solo-learn schedules them."""

from __future__ import annotations

import math

from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from radial_vicreg.errors import UserError


class WarmupCosine(LRScheduler):
    """Linear warm-up from an absolute rate, then half a cosine: solo-learn's schedule in closed form.

    Args:
        optimizer: its groups' rates are the peaks.
        warmup: length of the warm-up in steps; need not be whole.
        total: length of the training in steps.
        start_lr: rate of every group at step 0.
        min_lr: rate at ``total`` and after it.

    Raises:
        UserError: ``total`` is not a positive finite number, or ``warmup`` is negative.
    """

    def __init__(self, optimizer: Optimizer, warmup: float, total: float, start_lr: float, min_lr: float) -> None:
        """Set every group to its rate at step 0."""
        if not (math.isfinite(total) and total > 0 and warmup >= 0):
            raise UserError(
                f"a schedule needs a positive finite number of steps and warmup >= 0, got {total}, {warmup}"
            )
        self.warmup, self.total, self.start_lr, self.min_lr = warmup, total, start_lr, min_lr
        super().__init__(optimizer)

    def get_lr(self) -> list[float | Tensor]:
        """Return each group's rate at the current step."""
        return [
            warmup_cosine_lr(self.last_epoch, float(base), self.warmup, self.total, self.start_lr, self.min_lr)
            for base in self.base_lrs
        ]


def warmup_cosine_lr(step: int, base_lr: float, warmup: float, total: float, start_lr: float, min_lr: float) -> float:
    """Compute the rate of a group at a step.

    solo-learn defines the schedule by a recursion, whose properties are kept. The ramp has ``warmup - 1`` increments,
    so it reaches ``base_lr`` one step early. If ``warmup`` is not whole, the ramp overshoots (tenfold for 1.1 steps),
    and the cosine descends from the last rate of the ramp, which is ``start_lr`` for a warm-up below 1.

    Args:
        step: optimizer steps (or epochs) already taken.
        base_lr: the group's peak rate.
        warmup: length of the warm-up.
        total: length of the training.
        start_lr: rate at step 0.
        min_lr: rate at ``total`` and after it.

    Returns:
        The learning rate.
    """
    if step == warmup and step > 0:
        return base_lr
    if step == 0 or step < warmup:
        return _ramp(step, base_lr, warmup, start_lr)
    if step >= total:
        return min_lr
    if warmup >= 1 and float(warmup).is_integer():
        anchor, peak = warmup, base_lr
    else:
        anchor = max(math.ceil(warmup) - 1, 0)
        peak = _ramp(anchor, base_lr, warmup, start_lr)

    def height(at: float) -> float:
        return 1 + math.cos(math.pi * (at - warmup) / (total - warmup))

    return min_lr + (peak - min_lr) * height(step) / height(anchor)


def _ramp(step: float, base_lr: float, warmup: float, start_lr: float) -> float:
    return start_lr if step == 0 else start_lr + step * (base_lr - start_lr) / (warmup - 1)
