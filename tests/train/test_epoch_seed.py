"""Each process of each epoch has random numbers of its own, whatever ran before."""

from __future__ import annotations

import random
from types import SimpleNamespace

import lightning.pytorch as pl
import numpy as np
import torch

from radial_vicreg.train.callbacks.epoch_seed import EpochSeed


def drawn(seed: int, epoch: int, rank: int) -> tuple[float, float, float]:
    trainer = SimpleNamespace(current_epoch=epoch, global_rank=rank)
    EpochSeed(seed).on_train_epoch_start(trainer, pl.LightningModule())
    return random.random(), float(np.random.rand()), float(torch.rand(()))


def test_seed_epoch_and_process_alone_decide_the_random_numbers_of_every_generator() -> None:
    places = [(seed, epoch, rank) for seed in (5, 6) for epoch in (0, 2) for rank in (0, 1, 2)]
    found = [drawn(*place) for place in places]
    assert [drawn(*place) for place in places] == found
    apart = [drawn(*place) for place in ((5, 0, 0), (5, 1, 0), (5, 0, 1), (5, 1, 1))]
    for values in zip(*apart, strict=True):
        assert len(set(values)) == len(apart)
