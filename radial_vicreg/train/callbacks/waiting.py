"""Advice for runs that wait for their images."""

from __future__ import annotations

from collections.abc import Callable

import lightning.pytorch as pl

from radial_vicreg.train.callbacks.cost import StepCost

_LARGE_SHARE = 0.25
_FEWEST_STEPS = 10  # fewer are dominated by the start of the data-loading processes


class WaitingAdvice(pl.Callback):
    """Print once, after an epoch, that the steps wait for images, and which setting is faster.

    Args:
        faster: returns the setting and its effect, or None if there is none; called at most once.
    """

    def __init__(self, faster: Callable[[], str | None]) -> None:
        self._faster = faster
        self._is_done = False

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Print the line if more than a quarter of the steps' time was spent on waiting."""
        cost = next((found for found in trainer.callbacks if isinstance(found, StepCost)), None)  # type: ignore[attr-defined]
        if self._is_done or cost is None or cost.steps < _FEWEST_STEPS or not trainer.is_global_zero:
            return
        self._is_done = True
        share = cost.image_wait_share
        if share is not None and share > _LARGE_SHARE and (advice := self._faster()) is not None:
            print(f"{share:.0%} of the steps' time is spent on waiting for images; {advice}", flush=True)
