"""A single run on one CPU core, with numba kernels that keep the points sorted by radius.

A step changes the radii much less than their spread, so the order after the last step is almost sorted, and an
insertion pass repairs it. Otherwise (rates past stability), a radix sort is used. Points are stored as ``(d, N)`` so
that every loop is contiguous.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from radial_vicreg.errors import UserError
from radial_vicreg.losses._chi import chi_quantiles
from radial_vicreg.losses.e2mc import HYPERCOVARIANCE_WEIGHT
from radial_vicreg.losses.radial import MIN_BANDWIDTH, MIN_SPACING, MIN_SQUARED_NORM
from radial_vicreg.losses.vicreg import VARIANCE_EPS, VARIANCE_GAMMA
from radial_vicreg.names.counts import counted
from radial_vicreg.paper.synthetic import kernels
from radial_vicreg.paper.synthetic.gradient import DIVERGED_MEAN_SQUARE, NUM_TARGETS
from radial_vicreg.paper.synthetic.settings import OBJECTIVES, Objective

Array = NDArray[np.float64]

_CONSTANTS = kernels.Constants(
    min_spacing=MIN_SPACING,
    min_squared_norm=MIN_SQUARED_NORM,
    variance_gamma=VARIANCE_GAMMA,
    variance_eps=VARIANCE_EPS,
    hypercovariance_weight=HYPERCOVARIANCE_WEIGHT,
    diverged_mean_square=DIVERGED_MEAN_SQUARE,
    min_bandwidth=MIN_BANDWIDTH,
)


class CpuEngine:
    """Gradient descent of one set of points on one CPU core, in float64.

    Args:
        points: starting points, shape ``(N, d)``; copied.
        objective: objective to minimise.

    Raises:
        UserError: the points are not 2-D with N >= 2, or not finite.

    Attributes:
        step: number of steps made so far.
        diverged_at: step at which the run diverged, or None. The points of a diverged run no longer change.
    """

    def __init__(self, points: Array, objective: Objective) -> None:
        if points.ndim != 2 or points.shape[0] < 2:
            raise UserError(f"points must have shape (N, d) with N >= 2, got {points.shape}")
        if not np.isfinite(points).all():
            raise UserError(
                f"points must be finite, got {counted(int((~np.isfinite(points)).sum()), 'infinite or NaN value')}"
            )
        n, d = points.shape
        self.step = 0
        self.diverged_at: int | None = None
        self._spacing = objective.spacing(n)
        self._weights = objective.weights
        self._kind = OBJECTIVES.index(objective.objective)
        count = NUM_TARGETS if objective.objective == "reverse_kl" else n
        self._targets = chi_quantiles(count, d, torch.float64, torch.device("cpu")).numpy()
        order = np.argsort(np.linalg.norm(points, axis=1), kind="stable")
        self._order = order
        self._z = np.array(points[order].T, dtype=np.float64, order="C")
        self._marginal_order = np.argsort(self._z, axis=1, kind="stable")
        radius = np.sqrt(np.maximum(np.square(self._z).sum(0), MIN_SQUARED_NORM))
        self._moments = radius, self._z.mean(1), np.cov(self._z).reshape(d, d)

    def advance(self, rates: Array) -> None:
        """Make one step for every rate; stop if the run diverges.

        Args:
            rates: learning rates, shape ``(steps,)``.
        """
        if self.diverged_at is not None:
            return
        rates = np.ascontiguousarray(rates, dtype=np.float64)
        state = self._z, self._order, self._marginal_order, self._moments
        how = self._kind, self._weights, _CONSTANTS, self._spacing, self._targets
        made = kernels.descend(*state, rates, *how)
        self.step += made
        if made < len(rates):
            self.diverged_at = self.step

    @property
    def points(self) -> Array:
        """Points in the order in which they were given, shape ``(N, d)``."""
        points: Array = np.empty_like(self._z.T, order="C")
        points[self._order] = self._z.T
        return points
