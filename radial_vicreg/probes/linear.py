"""Linear probe: logistic regression on frozen features."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from radial_vicreg.config import ProbesConfig
from radial_vicreg.names.probes import HEADLINES, HOST_PROBE
from radial_vicreg.probes.base import Frozen, Online, Probe, Shown
from radial_vicreg.probes.heads import layers, probe_loss
from radial_vicreg.probes.selection import Standardiser

_STRENGTHS = (0.01, 0.1, 1.0)
_ITERATIONS = 500
_TOLERANCE = 1e-7
_SMALLEST_CHANGE = 1e-9  # of the mean loss; a smaller change is rounding in float32


class LinearProbe(Probe):
    """Logistic regression on standardised features, fitted to convergence; the regularisation strength is chosen.

    The objective is scikit-learn's: the sum of the losses times ``C`` plus half the squared weights, without a penalty
    on the intercept; one column for two classes, independent columns for attributes.

    Args:
        strengths: candidates for the inverse regularisation ``C``.
        seed: seed of the held-out split.
    """

    name = "linear"
    label = "linear"
    choice = "C"
    online = (
        Online(
            HOST_PROBE,
            "encoder",
            learns="network",
            columns={"linear (%)": Shown(), "balanced acc. (%)": Shown(HEADLINES[1])},
        ),
        Online(
            "projector_linear",
            "projector",
            learns="batches",
            switch="projector_linear",
            settings=("lr",),
            columns={"projector (%)": Shown()},
        ),
    )
    frozen = Frozen({"frozen linear (%)": "trained", "frozen, untrained (%)": "untrained"})

    def __init__(self, strengths: Sequence[float] = _STRENGTHS, seed: int = 0) -> None:
        super().__init__(strengths, seed)

    @classmethod
    def head(cls, width: int, outputs: int, settings: ProbesConfig) -> nn.Module:
        """Build one linear layer, see :meth:`.Probe.head`."""
        return layers(width, outputs)

    @property
    def C_(self) -> float:  # scikit-learn's name
        """The chosen inverse regularisation, after :meth:`fit`."""
        return self.chosen_["C"]

    def _fit(self, features: Tensor, encoded: Tensor, candidate: float) -> None:
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
        # probe_loss averages over images and, for attributes, over columns, so the penalty is scaled alike.
        share = 1 / (2 * candidate * len(x) * (columns if y.ndim == 2 else 1))

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = probe_loss(x @ weight.T + bias, y) + share * weight.square().sum()
            loss.backward()
            return loss

        with torch.enable_grad():
            optimizer.step(closure)
        self._weight, self._bias = weight.detach(), bias.detach()

    def _figures(self, features: Tensor, encoded: Tensor) -> dict[str, object]:
        return self._targets.score(self._scores(features), encoded)

    def _scores(self, features: Tensor) -> Tensor:
        logits = self._standardise(features) @ self._weight.T + self._bias
        return torch.cat([-logits, logits], dim=1) if self._targets.outputs == 2 and logits.shape[1] == 1 else logits
