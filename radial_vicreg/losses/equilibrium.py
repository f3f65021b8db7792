r"""Radii at the minimum of the radial term alone, :math:`\beta_1` CE :math:`-\,\beta_2` entropy.

The term is convex in the sorted radii, and its entropy couples each radius only to the one m ranks above. It separates
into m chains, one for each rank modulo m, and chains of equal length have the same minimum. There are at most two
lengths, and their minima interlace: sorted together, they are the minimum of the whole term. This leaves two small
problems with a tridiagonal Hessian for a batch of any size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solveh_banded
from scipy.stats import chi

from radial_vicreg.losses._checks import checked_choice, checked_flag, checked_integer, checked_number, checked_spacing
from radial_vicreg.names.terms import RADIAL_OBJECTIVES

Radii = NDArray[np.float64]

#: Largest number of radii that is computed; mean, deviation and distance hardly change beyond it.
MOST_SAMPLES = 1024
_MOST_STEPS = 500
_TOLERANCE = 1e-11  # of Newton's last step, relative to the largest radius
_SUFFICIENT_DECREASE = 1e-4


@dataclass(frozen=True)
class RadialEquilibrium:
    """Radii at the minimum of the radial term.

    Attributes:
        mean: mean of the radii.
        std: standard deviation of the radii (unbiased, as ``radius_std`` of the objective).
        w1: Wasserstein-1 distance of the radii to chi(d), as ``w1_chi`` of the objective.
    """

    mean: float
    std: float
    w1: float


def radial_equilibrium(
    dim: int,
    ce_weight: float = 1.0,
    ent_weight: float = 1.0,
    count: int = 256,
    m: int | None = None,
    normalize_ce: bool = False,
    objective: str = "kl",
) -> RadialEquilibrium | None:
    r"""Describe the radii that minimise the radial term alone: mean, deviation and distance to chi(d).

    A run is pulled towards these radii but ends elsewhere: VICReg's terms act as well, and a network cannot set radii
    one by one.

    Args:
        dim: :math:`d`.
        ce_weight: :math:`\beta_1`.
        ent_weight: :math:`\beta_2`.
        count: samples of the global batch; above ``MOST_SAMPLES``, that many are used, with m reduced in proportion.
        m: spacing of the entropy within ``1..count-1``; by default ``round(sqrt(count))``.
        normalize_ce: whether the cross-entropy is divided by ``dim``.
        objective: the radial objective.

    Returns:
        The equilibrium; its values are infinite when only the entropy has a weight, since it is unbounded. None for an
        objective other than ``"kl"`` and if both weights are 0.

    Raises:
        ValueError: an argument is out of range; the message names it.

    Examples:
        The cross-entropy alone pulls every radius to the mode, 22.6 for d = 512; the entropy spreads them:

        >>> from radial_vicreg.losses import radial_equilibrium
        >>> found = radial_equilibrium(512, ce_weight=100.0, ent_weight=0.0, normalize_ce=True)
        >>> round(found.mean, 2), round(found.std, 2), round(found.w1, 2)
        (22.61, 0.0, 0.56)
        >>> found = radial_equilibrium(512, ce_weight=1.0, ent_weight=0.1)
        >>> round(found.mean, 2), round(found.std, 2), round(found.w1, 2)
        (22.61, 0.22, 0.38)
    """
    dim, count = checked_integer("dim", dim, minimum=1), checked_integer("count", count, minimum=2)
    ce_weight, ent_weight = checked_number("ce_weight", ce_weight), checked_number("ent_weight", ent_weight)
    m = checked_spacing(m, count)
    scale = dim if checked_flag("normalize_ce", normalize_ce) else 1
    if checked_choice("objective", objective, RADIAL_OBJECTIVES) != "kl" or ce_weight == ent_weight == 0:
        return None
    if ce_weight == 0:
        return RadialEquilibrium(math.inf, math.inf, math.inf)
    if count > MOST_SAMPLES:
        m, count = max(1, round(m * MOST_SAMPLES / count)), MOST_SAMPLES
    return _summary(dim, ent_weight * scale / ce_weight, count, m)


def equilibrium_radii(dim: int, ratio: float, count: int, m: int) -> Radii:
    r"""Find the radii that minimise :math:`\frac1N\sum_i\tfrac12r_i^2-(d-1)\log r_i` minus ``ratio`` times the entropy.

    Args:
        dim: d.
        ratio: weight of the entropy divided by that of the cross-entropy, 1/d included.
        count: N.
        m: spacing within ``1..N-1``.

    Returns:
        Ascending radii, shape ``(N,)``.
    """
    repulsion = ratio * count / (count - m)
    shorter, longer_chains = divmod(count, m)
    # Rank i belongs to chain i mod m, so the first chains may have one radius more.
    chains = [
        np.tile(_chain_minimum(dim, length, repulsion), copies)
        for length, copies in ((shorter + 1, longer_chains), (shorter, m - longer_chains))
    ]
    return np.sort(np.concatenate(chains))


@lru_cache(maxsize=256)
def _summary(dim: int, ratio: float, count: int, m: int) -> RadialEquilibrium:
    radii = equilibrium_radii(dim, ratio, count, m)
    target = chi.ppf((np.arange(count) + 0.5) / count, dim)
    return RadialEquilibrium(float(radii.mean()), float(radii.std(ddof=1)), float(np.abs(radii - target).mean()))


def _chain_minimum(dim: int, length: int, repulsion: float) -> Radii:
    """Find the ascending radii of one chain."""
    if repulsion == 0:
        return np.full(length, math.sqrt(dim - 1))
    if dim == 1 and length == 1:
        return np.zeros(1)
    if dim == 1:
        # Without the logarithm the lowest radius ends at 0; it then repels the next one as the logarithm would.
        outward = np.zeros(length - 1)
        outward[0] = repulsion
        return np.concatenate(([0.0], _newton(outward, repulsion)))
    return _newton(np.full(length, dim - 1.0), repulsion)


def _newton(outward: Radii, repulsion: float) -> Radii:
    r"""Minimise :math:`\sum_t\tfrac12x_t^2-p_t\log x_t-q\sum_t\log(x_{t+1}-x_t)` by Newton's method."""
    length = len(outward)
    if length == 1:
        return np.sqrt(outward)
    # The exact root mean square at the minimum. Near the mode, the variance is half the repulsion.
    root_mean_square = math.sqrt(outward.mean() + repulsion * (length - 1) / length)
    half_width = min(math.sqrt(1.5 * repulsion), 0.9 * root_mean_square)
    x: Radii = root_mean_square + half_width * np.linspace(-1, 1, length)
    value = _energy(x, outward, repulsion)
    for _ in range(_MOST_STEPS):
        force = repulsion / np.diff(x)
        gradient = x - outward / x
        gradient[:-1] += force
        gradient[1:] -= force
        stiffness = force**2 / repulsion
        bands = np.zeros((2, length))
        bands[1] = 1 + outward / x**2
        bands[1, :-1] += stiffness
        bands[1, 1:] += stiffness
        bands[0, 1:] = -stiffness
        step = -solveh_banded(bands, gradient)
        slope, share = float(gradient @ step), 1.0
        while (found := _energy(x + share * step, outward, repulsion)) > value + _SUFFICIENT_DECREASE * share * slope:
            share /= 2
            if share * np.abs(step).max() <= _TOLERANCE * x[-1]:
                return x  # no decrease remains that a float can represent
        x, value = x + share * step, found
        if np.abs(step).max() <= _TOLERANCE * x[-1]:
            return x
    raise ArithmeticError(f"no equilibrium after {_MOST_STEPS} steps for repulsion {repulsion:g}, {length} radii")


def _energy(x: Radii, outward: Radii, repulsion: float) -> float:
    """Compute the function that :func:`_newton` minimises; infinite outside its domain."""
    spacings = np.diff(x)
    if x[0] <= 0 or (spacings <= 0).any():
        return math.inf
    return float((x**2 / 2 - outward * np.log(x)).sum() - repulsion * np.log(spacings).sum())
