"""MLP probe: two layers on frozen features (the paper's table 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from radial_vicreg.probes.base import Probe
from radial_vicreg.probes.heads import MLP_HIDDEN_DIM, build_head, probe_loss
from radial_vicreg.probes.selection import Standardiser
from radial_vicreg.random_state import own_random_numbers

RATES = (1e-4, 3e-4, 1e-3, 3e-3)
_BATCH_SIZE = 256
_EPOCHS = 30
_FEWEST_STEPS = 500  # 30 epochs of a very small training set would be too few
_WEIGHT_DECAY = 1e-4


class MLPProbe(Probe):
    """Two layers with a ReLU on standardised features; the rate is chosen.

    AdamW with a cosine to 0, batches of 256, 30 epochs (at least 500 steps).

    Args:
        rates: candidates for the learning rate.
        hidden_dim: width of the hidden layer.
        seed: of the held-out split, the initial weights and the order of the batches.
    """

    choice = "lr"

    def __init__(self, rates: Sequence[float] = RATES, hidden_dim: int = MLP_HIDDEN_DIM, seed: int = 0) -> None:
        super().__init__(rates, seed)
        self.hidden_dim = hidden_dim

    def _fit(self, features: Tensor, encoded: Tensor, candidate: float) -> None:
        self._standardise = Standardiser(features)
        x = self._standardise(features)
        with own_random_numbers(self.seed), torch.enable_grad():
            head = build_head("mlp", x.shape[1], self._targets.outputs, self.hidden_dim).to(x.device)
            optimizer = torch.optim.AdamW(head.parameters(), lr=candidate, weight_decay=_WEIGHT_DECAY)
            a_epoch = math.ceil(len(x) / _BATCH_SIZE)
            total = max(_EPOCHS * a_epoch, _FEWEST_STEPS)
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, total)
            for step in range(total):
                if step % a_epoch == 0:
                    batches = torch.randperm(len(x)).to(x.device).split(_BATCH_SIZE)
                chosen = batches[step % a_epoch]
                optimizer.zero_grad()
                probe_loss(head(x[chosen]), encoded[chosen]).backward()
                optimizer.step()
                schedule.step()
        self._head = head.eval()

    def _figures(self, features: Tensor, encoded: Tensor) -> dict[str, Any]:
        return self._targets.score(self._scores(features), encoded)

    @torch.no_grad()
    def _scores(self, features: Tensor) -> Tensor:
        scores: Tensor = self._head(self._standardise(features))
        return scores
