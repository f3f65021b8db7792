"""Linear probe: logistic regression on frozen features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from radial_vicreg.probes.heads import probe_loss
from radial_vicreg.probes.selection import Standardiser, Targets, check_features, headline, hold_out

STRENGTHS = (0.01, 0.1, 1.0)
_ITERATIONS = 500
_TOLERANCE = 1e-7
_SMALLEST_CHANGE = 1e-9  # of the mean loss: below float32, so a line search would only chase rounding


class LinearProbe:
    """Logistic regression on standardised features, to convergence; the regularisation is chosen on held-out data.

    The objective is scikit-learn's: the sum of the losses times ``C`` plus half the squared weights, the intercept
    free; one column for two classes, independent columns for attributes. A fifth of the training set, stratified
    where possible, chooses among ``strengths``; the probe is then fitted on the whole training set. The test set has no
    part in the choice.

    Args:
        strengths: candidates for the inverse regularisation ``C``.
        seed: of the held-out split.

    Attributes:
        C_: the chosen inverse regularisation, after :meth:`fit`.
        chosen_: the same as a dictionary.
        held_out_: each candidate with its figure on the held-out part.
    """

    def __init__(self, strengths: Sequence[float] = STRENGTHS, seed: int = 0) -> None:
        self.strengths = tuple(strengths)
        self.seed = seed

    def fit(self, features: Tensor, labels: Tensor) -> LinearProbe:
        """Chooses the regularisation and fits.

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
        for strength in self.strengths:
            self._solve(x[fit], y[fit], strength)
            self.held_out_.append(
                {"C": strength, "score": headline(self._targets.score(self._scores(x[held]), y[held]))}
            )
        self.C_ = max(self.held_out_, key=lambda entry: entry["score"])["C"]
        self.chosen_ = {"C": self.C_}
        self._solve(x, y, self.C_)
        return self

    def score(self, features: Tensor, labels: Tensor) -> dict[str, Any]:
        """Figures on other images.

        Args:
            features: shape ``(N, F)``.
            labels: shape ``(N,)`` or ``(N, A)``.

        Returns:
            ``top1`` and ``top5`` in percent (100 with fewer than 6 classes), or the multi-label figures.

        Raises:
            UserError: shapes that do not agree, non-finite features, or unknown classes.
        """
        x = check_features(features, labels)
        return self._targets.score(self._scores(x), self._targets.encode(labels))

    def _solve(self, features: Tensor, encoded: Tensor, strength: float) -> None:
        self._standardise = Standardiser(features)
        x = self._standardise(features)
        binary = not self._targets.multi_label and self._targets.outputs == 2
        y = encoded[:, None] if binary else encoded
        columns = 1 if binary else self._targets.outputs
        weight = torch.zeros(columns, x.shape[1], device=x.device, requires_grad=True)
        bias = torch.zeros(columns, device=x.device, requires_grad=True)
        optimizer = torch.optim.LBFGS(
            [weight, bias],
            max_iter=_ITERATIONS,
            tolerance_grad=_TOLERANCE,
            tolerance_change=_SMALLEST_CHANGE,
            history_size=20,
            line_search_fn="strong_wolfe",
        )
        # probe_loss averages over images and, for attributes, over columns; the penalty has to follow.
        share = 1 / (2 * strength * len(x) * (columns if y.ndim == 2 else 1))

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = probe_loss(x @ weight.T + bias, y) + share * weight.square().sum()
            loss.backward()
            return loss

        with torch.enable_grad():
            optimizer.step(closure)
        self._weight, self._bias = weight.detach(), bias.detach()

    def _scores(self, features: Tensor) -> Tensor:
        logits = self._standardise(features) @ self._weight.T + self._bias
        return torch.cat([-logits, logits], dim=1) if self._targets.outputs == 2 and logits.shape[1] == 1 else logits
