"""Make the random numbers of an epoch independent of earlier epochs."""

from __future__ import annotations

import random

import lightning.pytorch as pl
import numpy as np
import torch

_RANK_STRIDE = 1_000_003  # a prime: processes share no seeds within any realistic number of epochs
_NUMPY_LIMIT = 2**32


class EpochSeed(pl.Callback):
    """Seed Python, numpy and torch at every epoch from (seed, epoch, process), so that resuming is exact.

    Args:
        seed: seed of the run.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Seed the three generators."""
        seed = (self.seed + trainer.current_epoch + _RANK_STRIDE * trainer.global_rank) % _NUMPY_LIMIT
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
