r"""The Radial-VCReg objective on free points, and its analytic gradient.

One view, no invariance (equations 1 and 6 of the paper with :math:`\lambda_1 = 0`):

.. math:: L(Z) = \lambda_2 v(Z) + \lambda_3 c(Z) + \text{radial}(Z)

with the radial part ``kl`` :math:`\beta_1 CE - \beta_2 H`, or :math:`\gamma` times the Wasserstein, reverse-KL or
E2MC loss. The gradient in this module is batched PyTorch without autograd; :mod:`.engine_cpu` computes the same
gradient point by point. The tests compare both with autograd of :mod:`radial_vicreg.losses`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from radial_vicreg import losses
from radial_vicreg.losses._chi import chi_quantiles
from radial_vicreg.losses.e2mc import HYPERCOVARIANCE_WEIGHT
from radial_vicreg.losses.radial import (
    MIN_BANDWIDTH,
    MIN_SPACING,
    MIN_SQUARED_NORM,
    REVERSE_KL_TARGETS,
    reverse_kl_of,
)
from radial_vicreg.losses.vicreg import VARIANCE_EPS, VARIANCE_GAMMA
from radial_vicreg.paper.synthetic.settings import Objective, Weights

NUM_TARGETS = REVERSE_KL_TARGETS
"""Number of chi quantiles at which the reverse KL is evaluated; without random samples, a run is deterministic."""
DIVERGED_MEAN_SQUARE = 1e12
"""A run counts as diverged if its mean squared radius is larger than this (a radius of 10^6) or NaN."""
_TARGETS_AT_ONCE = 64
"""Number of chi quantiles that the batched gradient compares with all points at once: 64 x B x N numbers of memory."""


def stack_weights(objectives: Sequence[Objective], like: Tensor) -> Any:
    """Stack the :data:`~.settings.Weights` of objectives as ``(B, 1)`` tensors with dtype and device of ``like``."""
    return Weights(*like.new_tensor([objective.weights for objective in objectives]).T[:, :, None])


def gradient(z: Tensor, kind: str, weights: Any, m: int) -> Tensor:
    """Compute the analytic gradient of the objective for a batch of runs.

    Args:
        z: points, shape ``(B, N, d)``, float32 or float64.
        kind: one of :data:`~.settings.OBJECTIVES`.
        weights: :data:`~.settings.Weights`, each ``(B, 1)``.
        m: entropy spacing.

    Returns:
        Gradient of each run's loss, shape ``(B, N, d)``.
    """
    total = _vcreg_gradient(z, weights)
    gamma: Tensor = weights.gamma
    if kind == "e2mc":
        return total + gamma[:, :, None] * _e2mc_gradient(z, m)
    count, dim = z.shape[1:]
    radii = z.square().sum(-1).clamp_min(MIN_SQUARED_NORM).sqrt()
    # The losses have no gradient where they clamp the norm.
    reciprocal = torch.where(radii > math.sqrt(MIN_SQUARED_NORM), 1 / radii, 0)
    if kind == "reverse_kl":
        slope = gamma * _reverse_kl_slope(radii, dim)
    else:
        ordered, order = torch.sort(radii, dim=1, stable=True)
        if kind == "kl":
            slope = weights.beta1 * (ordered - (dim - 1) / ordered) / count
            slope = slope - weights.beta2 * _entropy_slope(ordered, m)
        else:
            slope = gamma * torch.sign(ordered - chi_quantiles(count, dim, z.dtype, z.device)) / count
        slope = torch.empty_like(slope).scatter_(1, order, slope)
    pull: Tensor = slope * reciprocal
    return total + pull[:, :, None] * z


def loss_terms(z: Tensor, objective: Objective) -> dict[str, float]:
    """Compute every unweighted term of the objective at ``z`` (N, d), and the weighted total as ``loss``."""
    with torch.no_grad():
        terms = {
            "loss": total_loss(z, objective),
            "variance": losses.variance_loss(z),
            "covariance": losses.covariance_loss(z),
        }
        if objective.objective == "kl":
            terms["cross_entropy"] = losses.chi_cross_entropy(z)
            terms["entropy"] = losses.m_spacing_entropy(z.norm(dim=1), objective.spacing(len(z)))
        else:
            terms[objective.objective] = _alternative(z, objective.objective)
    return {name: float(value) for name, value in terms.items()}


def total_loss(z: Tensor, objective: Objective) -> Tensor:
    """Compute the objective at ``z`` (N, d) with :mod:`radial_vicreg.losses`, a differentiable reference."""
    total = objective.lambda2 * losses.variance_loss(z)
    total = total + objective.lambda3 * losses.covariance_loss(z)
    if objective.objective != "kl":
        return total + objective.gamma * _alternative(z, objective.objective)
    m = objective.spacing(len(z))
    return total + losses.radial_gaussianization_loss(z, objective.beta1, objective.beta2, m)


def _alternative(z: Tensor, kind: str) -> Tensor:
    if kind == "wasserstein":
        return losses.radial_wasserstein_loss(z, target="quantiles")
    if kind == "e2mc":
        return losses.e2mc_loss(z)
    radii = z.square().sum(1).clamp(min=MIN_SQUARED_NORM).sqrt()
    return reverse_kl_of(radii, chi_quantiles(NUM_TARGETS, z.shape[1], z.dtype, z.device))


def _vcreg_gradient(z: Tensor, weights: Any) -> Tensor:
    count, dim = z.shape[1:]
    centred = z - z.mean(1, keepdim=True)
    covariance = centred.mT @ centred / (count - 1)
    deviation = (covariance.diagonal(dim1=1, dim2=2) + VARIANCE_EPS).sqrt()
    stretch = torch.where(deviation < VARIANCE_GAMMA, -weights.lambda2 / (dim * (count - 1) * deviation), 0)
    off_diagonal = covariance - torch.diag_embed(covariance.diagonal(dim1=1, dim2=2))
    linear: Tensor = 4 * weights.lambda3[:, :, None] / (dim * (count - 1)) * off_diagonal + torch.diag_embed(stretch)
    return centred @ linear


def _entropy_slope(ordered: Tensor, m: int) -> Tensor:
    """Compute the derivative of the m-spacing entropy for each value of ``ordered``, sorted along dimension 1."""
    count = ordered.shape[1]
    spacing = ordered[:, m:] - ordered[:, :-m]
    inverse = torch.where(spacing > MIN_SPACING, 1 / spacing, 0) / (count - m)
    nothing = torch.zeros_like(ordered[:, :m])
    return torch.cat([nothing, inverse], 1) - torch.cat([inverse, nothing], 1)


def _reverse_kl_slope(radii: Tensor, dim: int) -> Tensor:
    count = radii.shape[1]
    silverman: float = (3 * count / 4) ** (-1 / 5)
    free_width = silverman * radii.var(1, keepdim=True).sqrt()
    width = free_width.clamp_min(MIN_BANDWIDTH)
    direct, by_width = torch.zeros_like(radii), torch.zeros_like(width)
    for targets in chi_quantiles(NUM_TARGETS, dim, radii.dtype, radii.device).split(_TARGETS_AT_ONCE):
        distance = (targets[None, :, None] - radii[:, None, :]) / width[:, :, None]
        share = torch.softmax(-0.5 * distance.square(), dim=2)
        direct -= (share * distance).sum(1)
        by_width += (1 - (share * distance.square()).sum(2)).sum(1, keepdim=True)
    # The bandwidth is Silverman's, so it depends on every radius.
    spread = torch.where(free_width > MIN_BANDWIDTH, silverman**2 * (radii - radii.mean(1, keepdim=True)), 0)
    return (direct + by_width * spread / (width * (count - 1))) / (NUM_TARGETS * width)


def _e2mc_gradient(z: Tensor, m: int) -> Tensor:
    count, dim = z.shape[1:]
    squashed = z.sigmoid()
    ordered, order = torch.sort(squashed, dim=1, stable=True)
    slope = -torch.empty_like(z).scatter_(1, order, _entropy_slope(ordered, m)) / dim
    centred = squashed - squashed.mean(1, keepdim=True)
    covariance = centred.mT @ centred / (count - 1)
    covariance = covariance - torch.diag_embed(covariance.diagonal(dim1=1, dim2=2))
    slope = slope + HYPERCOVARIANCE_WEIGHT * 4 / (dim * (count - 1)) * (centred @ covariance)
    return slope * squashed * (1 - squashed)
