"""Losses of Radial-VICReg: plain functions of one view, and :class:`RadialVICRegLoss` that adds them up.

Losses without random numbers work under ``torch.func`` (``grad``, ``hessian``, ``jacrev``, ``vmap``),
``torch.compile(fullgraph=True)`` and ``torch.export``, where non-finite values are not checked: docs/objective.md.
"""

from __future__ import annotations

from radial_vicreg.losses._draws import EXTRA_STATE
from radial_vicreg.losses.e2mc import e2mc_loss, hypercovariance_loss, marginal_entropy
from radial_vicreg.losses.equilibrium import RadialEquilibrium, radial_equilibrium
from radial_vicreg.losses.mean import mean_loss
from radial_vicreg.losses.objective import RadialVICRegLoss
from radial_vicreg.losses.radial import (
    chi_cross_entropy,
    m_spacing_entropy,
    radial_gaussianization_loss,
    radial_kl,
    radial_reverse_kl_loss,
    radial_wasserstein_loss,
)
from radial_vicreg.losses.vicreg import covariance_loss, invariance_loss, variance_loss
from radial_vicreg.names.terms import RADIAL_OBJECTIVES, WASSERSTEIN_TARGETS

__all__ = [
    "EXTRA_STATE",
    "RADIAL_OBJECTIVES",
    "WASSERSTEIN_TARGETS",
    "RadialEquilibrium",
    "RadialVICRegLoss",
    "chi_cross_entropy",
    "covariance_loss",
    "e2mc_loss",
    "hypercovariance_loss",
    "invariance_loss",
    "m_spacing_entropy",
    "marginal_entropy",
    "mean_loss",
    "radial_equilibrium",
    "radial_gaussianization_loss",
    "radial_kl",
    "radial_reverse_kl_loss",
    "radial_wasserstein_loss",
    "variance_loss",
]
