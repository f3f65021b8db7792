"""MLP probe: two layers on frozen features (the paper's table 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from radial_vicreg.config import ProbesConfig
from radial_vicreg.probes.base import Online, Probe, Shown
from radial_vicreg.probes.heads import layers, probe_loss
from radial_vicreg.probes.selection import Standardiser
from radial_vicreg.runtime.random_state import own_random_numbers

_DEFAULTS = ProbesConfig()
_RATES = (1e-4, 3e-4, 1e-3, 3e-3)
_BATCH_SIZE = 256
_EPOCHS = 30
_FEWEST_STEPS = 500  # 30 epochs of a very small training set are too few
_WEIGHT_DECAY = 1e-4


class MLPProbe(Probe):
    """Two layers with a ReLU on standardised features; the learning rate is chosen.

    The optimizer is AdamW with a cosine schedule to 0, batches of 256, 30 epochs (at least 500 steps).

    Args:
        rates: candidates for the learning rate.
        hidden_dim: width of the hidden layer.
        seed: seed of the held-out split, the initial weights and the order of the batches.
    """

    name = "mlp"
    label = "MLP"
    choice = "lr"
    online = (
        Online(
            "mlp",
            "encoder",
            learns="batches",
            switch="encoder_mlp",
            settings=("lr", "mlp_hidden_dim"),
            columns={"MLP (%)": Shown()},
        ),
    )

    def __init__(
        self, rates: Sequence[float] = _RATES, hidden_dim: int = _DEFAULTS.mlp_hidden_dim, seed: int = 0
    ) -> None:
        super().__init__(rates, seed)
        self.hidden_dim = hidden_dim

    @classmethod
    def head(cls, width: int, outputs: int, settings: ProbesConfig) -> nn.Module:
        """Build two layers, see :meth:`.Probe.head`."""
        return layers(width, settings.mlp_hidden_dim, outputs)

    def _fit(self, features: Tensor, encoded: Tensor, candidate: float) -> None:
        self._standardise = Standardiser(features)
        x = self._standardise(features)
        with own_random_numbers(self.seed), torch.enable_grad():
            head = layers(x.shape[1], self.hidden_dim, self._targets.outputs).to(x.device)
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

    def _figures(self, features: Tensor, encoded: Tensor) -> dict[str, object]:
        return self._targets.score(self._scores(features), encoded)

    @torch.no_grad()
    def _scores(self, features: Tensor) -> Tensor:
        scores: Tensor = self._head(self._standardise(features))
        return scores
