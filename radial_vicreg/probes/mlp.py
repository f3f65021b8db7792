"""MLP probe: two layers on frozen features (the paper's table 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from radial_vicreg.probes.heads import MLP_HIDDEN_DIM, build_head, probe_loss
from radial_vicreg.probes.selection import Standardiser, Targets, check_features, headline, hold_out

RATES = (1e-4, 3e-4, 1e-3, 3e-3)
_BATCH_SIZE = 256
_EPOCHS = 30
_FEWEST_STEPS = 500  # 30 epochs of a very small training set would be too few
_WEIGHT_DECAY = 1e-4


class MLPProbe:
    """Two layers with a ReLU on standardised features; the rate is chosen on held-out data.

    AdamW with a cosine to 0, batches of 256, 30 epochs (at least 500 steps). A fifth of the training set chooses among
    ``rates``; the probe is then trained again on all of it.

    Args:
        rates: candidates for the learning rate.
        hidden_dim: width of the hidden layer.
        seed: of the held-out split, the initial weights and the order of the batches.

    Attributes:
        chosen_: ``lr``, after :meth:`fit`.
        held_out_: each candidate with its figure on the held-out part.
    """

    def __init__(self, rates: Sequence[float] = RATES, hidden_dim: int = MLP_HIDDEN_DIM, seed: int = 0) -> None:
        self.rates = tuple(rates)
        self.hidden_dim = hidden_dim
        self.seed = seed

    def fit(self, features: Tensor, labels: Tensor) -> MLPProbe:
        """Chooses the rate and trains.

        Args:
            features: shape ``(N, F)``, floating point.
            labels: classes ``(N,)``, integers, or attributes ``(N, A)`` of zeros and ones.

        Returns:
            The probe itself.

        Raises:
            UserError: shapes that do not agree, fewer than two classes, or non-finite features.
        """
        x = check_features(features, labels)
        self._targets = Targets(labels)
        y = self._targets.encode(labels)
        fit, held = hold_out(y, self.seed)
        self.held_out_: list[dict[str, float]] = []
        for rate in self.rates:
            self._train(x[fit], y[fit], rate)
            figures = self._targets.score(self._scores(x[held]), y[held])
            self.held_out_.append({"lr": rate, "score": headline(figures)})
        self.chosen_ = {"lr": max(self.held_out_, key=lambda entry: entry["score"])["lr"]}
        self._train(x, y, self.chosen_["lr"])
        return self

    def score(self, features: Tensor, labels: Tensor) -> dict[str, Any]:
        """Figures on other images, as :meth:`radial_vicreg.probes.linear.LinearProbe.score`."""
        x = check_features(features, labels)
        return self._targets.score(self._scores(x), self._targets.encode(labels))

    def _train(self, features: Tensor, y: Tensor, rate: float) -> None:
        self._standardise = Standardiser(features)
        x = self._standardise(features)
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.manual_seed(self.seed)
            head = build_head("mlp", x.shape[1], self._targets.outputs, self.hidden_dim).to(x.device)
            optimizer = torch.optim.AdamW(head.parameters(), lr=rate, weight_decay=_WEIGHT_DECAY)
            a_epoch = math.ceil(len(x) / _BATCH_SIZE)
            total = max(_EPOCHS * a_epoch, _FEWEST_STEPS)
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, total)
            for step in range(total):
                if step % a_epoch == 0:
                    batches = torch.randperm(len(x)).to(x.device).split(_BATCH_SIZE)
                chosen = batches[step % a_epoch]
                optimizer.zero_grad()
                probe_loss(head(x[chosen]), y[chosen]).backward()
                optimizer.step()
                schedule.step()
        self._head = head.eval()

    @torch.no_grad()
    def _scores(self, features: Tensor) -> Tensor:
        scores: Tensor = self._head(self._standardise(features))
        return scores
