"""Distances, moments and tests of points against N(0, I). Memory is bounded for any number of points.

Exact transport, MMD and the normality test compare pairs of points, so they use a subsample of fixed size, which
depends on the seed only. All other metrics use all points.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.stats
import torch
from numpy.typing import NDArray

from radial_vicreg import losses
from radial_vicreg.errors import MissingPackageError
from radial_vicreg.paper.synthetic.settings import SUBSAMPLE

Array = NDArray[np.float64]

_NUM_PROJECTIONS = 64
"""Number of directions of the sliced distance."""
_NUM_ANGLE_PROJECTIONS = 16
"""Number of directions of the angular test, over which its p-value is Bonferroni-corrected."""
_OFF_DIAGONAL_DEGREES = 10.0
"""A point counts as off the X if its angle to every diagonal is larger."""
_REFERENCE_SEED = 20_251
"""Offset that keeps the reference sample apart from the starting points of the same seed."""


def measure(points: Array, *, seed: int = 0, subsample: int = SUBSAMPLE) -> dict[str, float | None]:
    """Compute all metrics of a set of points.

    Args:
        points: shape ``(N, d)``, finite.
        seed: seed of the subsample and of the reference sample. Sets of equal N measured with the same seed use the
            same indices and the same reference, so their differences are paired.
        subsample: points used by the pairwise metrics (``w2_exact``, ``mmd2``, ``normality_*``).

    Returns:
        JSON-ready values: ``w2_exact`` (Wasserstein-2 to a normal sample, exact transport, subsample), ``w2_sliced``
        (to exact normal quantiles, all points), ``w1_chi`` (radii), ``radial_kl`` (nats, biased upwards),
        ``mmd2`` (against N(0, I) in closed form, subsample), ``mean_norm``, ``covariance_error`` (Frobenius norm to
        I), ``skewness`` and ``excess_kurtosis`` (largest in absolute value over the axes), ``e2mc``,
        ``marginal_entropy``, ``hypercovariance``, ``normality_statistic`` and ``normality_p`` (Henze-Zirkler),
        ``angle_statistic`` and ``angle_p`` (uniform directions; None for d = 1) and ``off_diagonal_share`` (of the
        points, those that are off the X; 0.78 for uniform directions in the plane).
    """
    rng = np.random.default_rng([_REFERENCE_SEED, seed])
    size = min(subsample, len(points))
    some = points[rng.permutation(len(points))[:size]]
    reference = rng.standard_normal((size, points.shape[1]))
    z = torch.from_numpy(np.ascontiguousarray(points))
    statistic, p_value = normality_test(some)
    angle_statistic, angle_p = angular_uniformity(points)
    axis_moments = scipy.stats.skew(points, axis=0), scipy.stats.kurtosis(points, axis=0)
    return {
        "w2_exact": exact_wasserstein2(some, reference),
        "w2_sliced": sliced_wasserstein2(points),
        "w1_chi": float(losses.radial_wasserstein_loss(z, target="quantiles")),
        "radial_kl": float(losses.radial_kl(z)),
        "mmd2": mmd2_to_normal(some),
        "mean_norm": float(np.linalg.norm(points.mean(0))),
        "covariance_error": float(np.linalg.norm(np.atleast_2d(np.cov(points.T)) - np.eye(points.shape[1]))),
        "skewness": float(max(axis_moments[0], key=abs)),
        "excess_kurtosis": float(max(axis_moments[1], key=abs)),
        "e2mc": float(losses.e2mc_loss(z)),
        "marginal_entropy": float(losses.marginal_entropy(z)),
        "hypercovariance": float(losses.hypercovariance_loss(z)),
        "normality_statistic": statistic,
        "normality_p": p_value,
        "angle_statistic": angle_statistic,
        "angle_p": angle_p,
        "off_diagonal_share": off_diagonal_share(points),
    }


def exact_wasserstein2(first: Array, second: Array) -> float:
    """Compute the Wasserstein-2 distance of two samples of shape ``(n, d)`` by exact transport; n x n memory."""
    try:
        import ot
    except ImportError as error:  # pragma: no cover - depends on the environment
        raise MissingPackageError("exact transport needs POT: pip install 'radial-vicreg[synthetic]'") from error
    cost = ot.dist(first, second, metric="sqeuclidean")
    uniform: list[float] = []  # POT's spelling of equal weights
    return math.sqrt(max(float(ot.emd2(uniform, uniform, cost, numItermax=1_000_000)), 0.0))


def normal_floor(size: int, dim: int, seed: int = 0) -> float:
    """Compute :func:`exact_wasserstein2` between two samples of N(0, I): the value of a perfect run at this size."""
    first, second = np.random.default_rng([_REFERENCE_SEED + 1, seed]).standard_normal((2, size, dim))
    return exact_wasserstein2(first, second)


def sliced_wasserstein2(points: Array) -> float:
    """Compute the root mean square over directions of the 1-D Wasserstein-2 distances to exact normal quantiles."""
    quantiles = scipy.stats.norm.ppf((np.arange(len(points)) + 0.5) / len(points))
    squares = [
        np.square(np.sort(points @ direction) - quantiles).mean()
        for direction in _directions(_NUM_PROJECTIONS, points.shape[1])
    ]
    return math.sqrt(float(np.mean(squares)))


def mmd2_to_normal(points: Array) -> float:
    """Compute the unbiased squared MMD to N(0, I): Gaussian kernel of squared width d, closed form for the normal.

    The value is around zero for normal points and may be negative.
    """
    n, d = points.shape
    width2 = float(d)
    kernel = np.exp(-_squared_distances(points) / (2 * width2))
    among = (kernel.sum() - n) / (n * (n - 1))
    norms = np.square(points).sum(1)
    across = (width2 / (width2 + 1)) ** (d / 2) * np.exp(-norms / (2 * (width2 + 1))).mean()
    return float(among - 2 * across + (width2 / (width2 + 2)) ** (d / 2))


def normality_test(points: Array) -> tuple[float, float]:
    """Run the Henze-Zirkler test of multivariate normality (any mean and covariance) with its lognormal approximation.

    Args:
        points: shape ``(n, d)``; n x n memory.

    Returns:
        Statistic and p-value; p = 0 when the covariance is singular.
    """
    n, d = points.shape
    covariance = np.atleast_2d(np.cov(points.T, bias=True))
    values, vectors = np.linalg.eigh(covariance)
    if values[0] <= values[-1] * n * np.finfo(float).eps:
        return 4.0 * n, 0.0
    whitened = (points - points.mean(0)) @ vectors / np.sqrt(values)
    b2 = 0.5 * (n * (2 * d + 1) / 4) ** (2 / (d + 4))
    among = np.exp(-0.5 * b2 * _squared_distances(whitened)).sum() / n
    norms = np.square(whitened).sum(1)
    across = 2 * (1 + b2) ** (-d / 2) * np.exp(-b2 / (2 * (1 + b2)) * norms).sum()
    statistic = float(among - across + n * (1 + 2 * b2) ** (-d / 2))
    mean, variance = _henze_zirkler_moments(b2, d)
    log_variance = math.log1p(variance / mean**2)
    law = scipy.stats.lognorm(math.sqrt(log_variance), scale=mean * math.exp(-log_variance / 2))
    return statistic, float(law.sf(statistic))


def angular_uniformity(points: Array) -> tuple[float, float] | tuple[None, None]:
    """Test whether the directions are uniform on the sphere: Kolmogorov-Smirnov along fixed directions.

    Returns:
        The largest statistic and its Bonferroni-corrected p-value; None, None for d = 1.
    """
    d = points.shape[1]
    if d == 1:
        return None, None
    norms = np.linalg.norm(points, axis=1, keepdims=True)
    angles = (points / np.where(norms > 0, norms, 1))[norms[:, 0] > 0]
    law = scipy.stats.beta((d - 1) / 2, (d - 1) / 2, loc=-1, scale=2)
    tests = [
        scipy.stats.kstest(np.clip(angles @ direction, -1, 1), law.cdf, method="asymp")
        for direction in _directions(_NUM_ANGLE_PROJECTIONS, d)
    ]
    worst = min(tests, key=lambda test: test.pvalue)
    return float(worst.statistic), float(min(1.0, worst.pvalue * len(tests)))


def off_diagonal_share(points: Array) -> float:
    """Return the share of points beyond :data:`_OFF_DIAGONAL_DEGREES` from every diagonal; the origin is on all."""
    norms = np.linalg.norm(points, axis=1)
    along = np.abs(points).sum(1) / math.sqrt(points.shape[1])  # the projection on the nearest diagonal
    return float(np.mean(along < math.cos(math.radians(_OFF_DIAGONAL_DEGREES)) * norms))


def _directions(count: int, dim: int) -> Array:
    if dim == 2:
        angles = np.pi * np.arange(count) / count
        circle: Array = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        return circle
    draws = np.random.default_rng(_REFERENCE_SEED).standard_normal((count, dim))
    directions: Array = draws / np.linalg.norm(draws, axis=1, keepdims=True)
    return directions


def _squared_distances(points: Array) -> Array:
    norms = np.square(points).sum(1)
    distances: Array = np.maximum(norms[:, None] + norms[None, :] - 2 * points @ points.T, 0)
    return distances


def _henze_zirkler_moments(b2: float, d: int) -> tuple[float, float]:
    """Compute mean and variance of the statistic under normality (Henze and Zirkler, 1990)."""
    a = 1 + 2 * b2
    w = (1 + b2) * (1 + 3 * b2)
    mean = 1 - a ** (-d / 2) * (1 + d * b2 / a + d * (d + 2) * b2**2 / (2 * a**2))
    variance = (
        2 * (1 + 4 * b2) ** (-d / 2)
        + 2 * a**-d * (1 + 2 * d * b2**2 / a**2 + 3 * d * (d + 2) * b2**4 / (4 * a**4))
        - 4 * w ** (-d / 2) * (1 + 3 * d * b2**2 / (2 * w) + d * (d + 2) * b2**4 / (2 * w**2))
    )
    return mean, variance
