"""Terms of the logs that the loss may not need: they are computed when they are read."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from radial_vicreg.losses._chi import chi_log_normalizer, chi_quantiles
from radial_vicreg.losses.mean import mean_loss_of
from radial_vicreg.losses.radial import MIN_SQUARED_NORM, chi_cross_entropy_of, spacing_entropy_of, wasserstein_of


class LogTerms(NamedTuple):
    """Inputs of the logged terms, all without gradient.

    Attributes:
        squared_norms: squared norms on this rank, shape ``(V, n)``.
        ordered_radii: sorted radii of all ranks, shape ``(N, V)``.
        mean: mean of the global batch, shape ``(V, d)``.
        spacing: spacing m of the entropy.
        normalize: whether the cross-entropy is divided by d.
        centred: whether the norms are those of z minus the batch mean.
    """

    squared_norms: Tensor
    ordered_radii: Tensor
    mean: Tensor
    spacing: int
    normalize: bool
    centred: bool

    def compute(self) -> dict[str, Tensor]:
        """Compute the terms by name; :class:`~radial_vicreg.losses.RadialVICRegLoss` describes each."""
        ordered, dim = self.ordered_radii, self.mean.shape[1]
        count = len(ordered)
        offset = self.mean.square().sum(dim=1)
        # E|z|^2 = (N - 1) / N tr C + |m|^2, of the radii of all ranks.
        scatter = ordered.square().mean(dim=0)
        if not self.centred:
            scatter = (scatter - offset).clamp(min=0)
        entropy = spacing_entropy_of(ordered, self.spacing)
        quantiles = chi_quantiles(count, dim, ordered.dtype, ordered.device)
        # From the sorted radii, since they cover all ranks.
        cross_entropy = chi_cross_entropy_of(ordered.square(), dim, normalize=False)
        return {
            "radial_ce": 2 * chi_cross_entropy_of(self.squared_norms, dim, self.normalize),
            "radial_entropy": 2 * entropy,
            "radial_kl": cross_entropy + chi_log_normalizer(dim) - entropy,
            "w1_chi": wasserstein_of(ordered, quantiles[:, None]),
            "radius_mean": ordered.mean(),
            "radius_std": ordered.std(dim=0).mean(),
            "mean_loss": 2 * mean_loss_of(self.mean),
            "embedding_mean_norm": offset.sqrt().mean(),
            "embedding_mean_share": (offset / (offset + scatter).clamp(min=MIN_SQUARED_NORM)).mean(),
            "embedding_trace": (scatter * (count / ((count - 1) * max(1, dim - 1)))).mean(),
        }
