"""Random one-dimensional slices of embeddings, each compared to the standard normal distribution."""

from __future__ import annotations

import math

import torch
from torch import Tensor

SLICES = 256
"""Number of slices, as in the LeJEPA paper's minimal example."""

_LAST_KNOT, _KNOTS = 3.0, 17  # of the integral, from the same example


def random_slices(z: Tensor, count: int = SLICES, seed: int = 0) -> Tensor:
    """Project embeddings onto random unit vectors, the same ones for the same dimension and seed.

    Args:
        z: embeddings, shape ``(N, d)``.
        count: number of slices S.
        seed: seed of the directions.

    Returns:
        Shape ``(N, S)``; independent standard normal rows have standard normal slices.

    Examples:
        >>> import torch
        >>> from radial_vicreg.diagnostics import random_slices
        >>> z = torch.eye(3)
        >>> x = random_slices(z, count=5)
        >>> tuple(x.shape), bool((x == random_slices(z, count=5)).all())
        ((3, 5), True)
    """
    directions = torch.randn(z.shape[1], count, generator=torch.Generator().manual_seed(seed))
    directions /= directions.norm(dim=0)
    return z @ directions.to(z)


def wasserstein_to_normal(x: Tensor) -> Tensor:
    r"""Compute the Wasserstein-2 distance of each slice to :math:`\mathcal N(0, 1)`.

    :math:`\big(\frac1N\sum_i(x_{(i)}-q_i)^2\big)^{1/2}` with the normal quantiles :math:`q_i` at ``(i - 1/2) / N``.
    The root mean square over random slices is the sliced W2 distance of the embeddings to :math:`\mathcal N(0, I)`
    (Bonneel, Rabin, Peyré and Pfister: Sliced and Radon Wasserstein Barycenters of Measures, 2015).

    Args:
        x: slices, shape ``(N, S)``.

    Returns:
        Shape ``(S,)``, in units of ``x``.

    Examples:
        One slice that is a shifted normal sample, one that is a point:

        >>> import torch
        >>> from radial_vicreg.diagnostics import wasserstein_to_normal
        >>> normal = torch.special.ndtri((torch.arange(1000) + 0.5) / 1000)
        >>> x = torch.stack([normal + 0.5, torch.zeros(1000)], dim=1)
        >>> [round(distance, 2) for distance in wasserstein_to_normal(x).tolist()]
        [0.5, 1.0]
    """
    count = len(x)
    quantiles = torch.special.ndtri((torch.arange(count, dtype=torch.float64) + 0.5) / count).to(x)
    squared: Tensor = (x.sort(dim=0).values - quantiles[:, None]).square().mean(dim=0)
    return squared.sqrt()


def epps_pulley(x: Tensor) -> Tensor:
    r"""Compute the Epps-Pulley statistic of each slice against :math:`\mathcal N(0, 1)`; SIGReg is its mean.

    :math:`N\int_{-3}^{3}\big|\hat\varphi(t)-e^{-t^2/2}\big|^2e^{-t^2/2}\,dt`, where :math:`\hat\varphi` is the
    empirical characteristic function; computed by the trapezoidal rule with 17 knots on [0, 3] and doubled, since the
    integrand is even (Epps and Pulley: A Test for Normality Based on the Empirical Characteristic Function, Biometrika
    1983; Balestriero and LeCun: LeJEPA, arXiv 2511.08544, 2025).

    Args:
        x: slices, shape ``(N, S)``.

    Returns:
        Shape ``(S,)``. Its expectation over normal samples is 1.05 for every N.

    Examples:
        >>> import torch
        >>> from radial_vicreg.diagnostics import epps_pulley
        >>> normal = torch.special.ndtri((torch.arange(1000) + 0.5) / 1000)
        >>> x = torch.stack([normal, normal + 0.5], dim=1)
        >>> [round(statistic) for statistic in epps_pulley(x).tolist()]
        [0, 118]
    """
    knots = torch.linspace(0.0, _LAST_KNOT, _KNOTS).to(x)
    normal = (-knots.square() / 2).exp()  # its characteristic function, and the weight
    # One knot at a time: N x S x 17 numbers would be hundreds of megabytes.
    real = torch.stack([(t * x).cos().mean(dim=0) for t in knots])
    imaginary = torch.stack([(t * x).sin().mean(dim=0) for t in knots])
    errors = (real - normal[:, None]).square() + imaginary.square()
    return 2 * len(x) * torch.trapezoid(errors * normal[:, None], knots, dim=0)


def sliced_statistics(z: Tensor, seed: int = 0) -> tuple[dict[str, float], Tensor]:
    """Compute ``sliced_w2`` and ``epps_pulley`` over :data:`SLICES` random slices of embeddings ``(N, d)``.

    Returns:
        Both, and the Epps-Pulley statistic of each slice, whose mean ``epps_pulley`` is.
    """
    x = random_slices(z, seed=seed)
    of_slices = epps_pulley(x)
    return {
        "sliced_w2": math.sqrt(float(wasserstein_to_normal(x).square().mean())),
        "epps_pulley": float(of_slices.mean()),
    }, of_slices
