"""The numba kernels of :mod:`.engine_cpu`: one gradient step.

Points ``z`` are ``(d, N)``, sorted by radius if the objective needs it; ``order`` (N,) holds their original indices.
numba's disk cache of a function detects changes of the function's own file only. Constants are therefore passed as
arguments, and a change of :mod:`.ordering` requires touching this file too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from radial_vicreg.paper.synthetic.jit import compiled
from radial_vicreg.paper.synthetic.ordering import repair_order
from radial_vicreg.paper.synthetic.settings import OBJECTIVES

KL, WASSERSTEIN, REVERSE_KL, E2MC = range(len(OBJECTIVES))
"""Indices into :data:`~.settings.OBJECTIVES`."""


class Constants(NamedTuple):
    """Constants, the argument ``c`` of every kernel; ``w`` are the weights (:data:`~.settings.Weights`)."""

    min_spacing: float
    min_squared_norm: float
    variance_gamma: float
    variance_eps: float
    hypercovariance_weight: float
    diverged_mean_square: float
    min_bandwidth: float


@compiled
def descend(
    z: Any, order: Any, marginal_order: Any, moments: Any, rates: Any, kind: int, w: Any, c: Any, m: int, q: Any
) -> int:
    """Make ``len(rates)`` steps in place, fewer if the run diverges, and return the number of steps made.

    The arguments hold the complete state between steps, so that splitting a run into calls does not change it.
    ``moments`` are radii, mean and covariance; ``q`` are chi quantiles.
    """
    d, n = z.shape
    radius, mean, covariance = moments
    uses_order = (kind == KL and w.beta2 > 0) or kind == WASSERSTEIN
    slope, padded = np.zeros(n), np.zeros(n + m)
    extra, scratch = np.zeros((d, n)), np.empty((d, n))
    linear, offset = np.empty((d, d)), np.empty(d)
    for step in range(len(rates)):
        _vcreg_map(mean, covariance, n, w, c, linear, offset)
        if kind == KL:
            _kl_slope(radius, slope, padded, m, d, w, c)
        elif kind == WASSERSTEIN:
            _wasserstein_slope(radius, slope, q, w, c)
        elif kind == REVERSE_KL:
            _reverse_kl_slope(radius, slope, q, w, c)
        else:
            _e2mc_gradient(z, marginal_order, extra, scratch, padded, m, w, c)
        if d == 2 and kind != E2MC:
            move_in_plane(z, radius, slope, linear, offset, rates[step], mean, covariance, c.min_squared_norm)
        else:
            move(z, scratch, slope, extra, linear, offset, rates[step])
            measure(z, radius, mean, covariance, c.min_squared_norm)
        square = 0.0
        for j in range(d):
            square += covariance[j, j] + mean[j] * mean[j]
        if not square < c.diverged_mean_square:
            return step
        if uses_order:
            repair_order(radius, z, order)
    return len(rates)


@compiled
def measure(z: Any, radius: Any, mean: Any, covariance: Any, min_squared_norm: float) -> None:
    """Compute radii, mean and unbiased covariance of the points."""
    d, n = z.shape
    for i in range(n):
        radius[i] = 0.0
    for j in range(d):
        for i in range(n):
            radius[i] += z[j, i] * z[j, i]
        mean[j] = z[j].sum() / n
    for i in range(n):
        radius[i] = np.sqrt(max(radius[i], min_squared_norm))
    for j in range(d):
        for k in range(j, d):
            total, a, b = 0.0, mean[j], mean[k]
            for i in range(n):
                total += (z[j, i] - a) * (z[k, i] - b)
            covariance[j, k] = covariance[k, j] = total / (n - 1)


@compiled
def _vcreg_map(mean: Any, covariance: Any, n: int, w: Any, c: Any, linear: Any, offset: Any) -> None:
    """Compute the variance and covariance gradient as an affine map: ``linear @ z_i + offset`` for every point."""
    d = len(mean)
    for j in range(d):
        deviation = np.sqrt(covariance[j, j] + c.variance_eps)
        for k in range(d):
            linear[j, k] = 4 * w.lambda3 * covariance[j, k] / (d * (n - 1))
        linear[j, j] = -w.lambda2 / (d * (n - 1) * deviation) if deviation < c.variance_gamma else 0.0
        offset[j] = 0.0
        for k in range(d):
            offset[j] -= linear[j, k] * mean[k]


@compiled
def _kl_slope(radius: Any, slope: Any, padded: Any, m: int, d: int, w: Any, c: Any) -> None:
    """Compute ``slope[i]``, the derivative for the i-th smallest radius over it; ``padded`` starts with m zeros."""
    n = len(radius)
    pull, smallest = w.beta1 / n, np.sqrt(c.min_squared_norm)
    if w.beta2 == 0:
        for i in range(n):
            slope[i] = pull * (1 - (d - 1) / (radius[i] * radius[i])) if radius[i] > smallest else 0.0
        return
    push, floor = w.beta2 / (n - m), c.min_spacing
    upper, inverse = radius[m:], padded[m:]
    for i in range(n - m):
        spacing = upper[i] - radius[i]
        inverse[i] = push / spacing if spacing > floor else 0.0
    for i in range(n):
        # The losses have no gradient where they clamp the norm.
        reciprocal = 1 / radius[i] if radius[i] > smallest else 0.0
        slope[i] = pull * (1 - (d - 1) * reciprocal * reciprocal) + reciprocal * (inverse[i] - padded[i])


@compiled
def _wasserstein_slope(radius: Any, slope: Any, targets: Any, w: Any, c: Any) -> None:
    """Compute the derivative of mean |r_(i) - q_i| for each radius, over that radius."""
    n = len(radius)
    smallest = np.sqrt(c.min_squared_norm)
    for i in range(n):
        slope[i] = w.gamma * np.sign(radius[i] - targets[i]) / (n * radius[i]) if radius[i] > smallest else 0.0


@compiled
def _reverse_kl_slope(radius: Any, slope: Any, targets: Any, w: Any, c: Any) -> None:
    """Compute the derivative of -mean log density of the targets for each radius, over it; Silverman's bandwidth."""
    n, count = len(radius), len(targets)
    silverman = (3 * n / 4) ** (-1 / 5)
    mean = radius.sum() / n
    square = 0.0
    for i in range(n):
        square += (radius[i] - mean) ** 2
        slope[i] = 0.0
    free_width = silverman * np.sqrt(square / (n - 1))
    width = max(free_width, c.min_bandwidth)
    by_width = 0.0
    share = np.empty(n)
    for k in range(count):
        nearest = np.inf
        for i in range(n):
            nearest = min(nearest, abs(radius[i] - targets[k]) / width)
        total = second = 0.0
        for i in range(n):
            distance = (targets[k] - radius[i]) / width
            share[i] = np.exp(0.5 * (nearest * nearest - distance * distance))
            total += share[i]
            second += share[i] * distance * distance
        for i in range(n):
            slope[i] -= share[i] / total * (targets[k] - radius[i]) / width
        by_width += 1 - second / total
    spread = silverman**2 / (width * (n - 1)) if free_width > c.min_bandwidth else 0.0
    smallest = np.sqrt(c.min_squared_norm)
    for i in range(n):
        pull = w.gamma * (slope[i] + by_width * spread * (radius[i] - mean)) / (count * width)
        slope[i] = pull / radius[i] if radius[i] > smallest else 0.0


@compiled
def _e2mc_gradient(z: Any, order: Any, out: Any, squashed: Any, padded: Any, m: int, w: Any, c: Any) -> None:
    """Add the gradients of -marginal entropy and hypercovariance at sigmoid(z); ``order[j]`` last sorted row j."""
    d, n = z.shape
    push = w.gamma / (d * (n - m))
    mean, values, inverse = np.empty(d), np.empty(n), padded[m:]
    for j in range(d):
        for i in range(n):
            squashed[j, i] = 1 / (1 + np.exp(-z[j, i]))
        mean[j] = squashed[j].sum() / n
        for i in range(n):
            values[i] = squashed[j, order[j, i]]
        repair_order(values, z[:0], order[j])
        for i in range(n - m):
            spacing = values[i + m] - values[i]
            inverse[i] = push / spacing if spacing > c.min_spacing else 0.0
        for i in range(n):
            out[j, order[j, i]] = inverse[i] - padded[i]
    scale = w.gamma * c.hypercovariance_weight * 4 / (d * (n - 1))
    for j in range(d):
        for k in range(d):
            covariance = 0.0
            for i in range(n):
                covariance += (squashed[j, i] - mean[j]) * (squashed[k, i] - mean[k]) / (n - 1)
            for i in range(n if k != j else 0):
                out[j, i] += scale * covariance * (squashed[k, i] - mean[k])
        for i in range(n):
            out[j, i] *= squashed[j, i] * (1 - squashed[j, i])


@compiled
def move(z: Any, new: Any, slope: Any, extra: Any, linear: Any, offset: Any, rate: float) -> None:
    """Make one gradient step in any dimension; ``extra`` (d, N) is the gradient that is neither radial nor affine."""
    d, n = z.shape
    for j in range(d):
        for i in range(n):
            new[j, i] = z[j, i] * (1 - rate * slope[i]) - rate * (offset[j] + extra[j, i])
        for k in range(d):
            factor = rate * linear[j, k]
            for i in range(n):
                new[j, i] -= factor * z[k, i]
    for j in range(d):
        for i in range(n):
            z[j, i] = new[j, i]


@compiled
def move_in_plane(
    z: Any, radius: Any, slope: Any, linear: Any, offset: Any, rate: float, mean: Any, covariance: Any, floor: float
) -> None:
    """Do :func:`move` and :func:`measure` in one pass for d = 2, which halves the time of the step."""
    n = z.shape[1]
    x, y = z[0], z[1]
    xx, xy, yy = 1 - rate * linear[0, 0], rate * linear[0, 1], 1 - rate * linear[1, 1]
    x0, y0 = rate * offset[0], rate * offset[1]
    # Sums are taken about the last mean, which is close, to avoid cancellation.
    a, b = mean[0], mean[1]
    sum_x = sum_y = sum_xx = sum_xy = sum_yy = 0.0
    for i in range(n):
        shrink = rate * slope[i]
        u = x[i] * (xx - shrink) - xy * y[i] - x0
        v = y[i] * (yy - shrink) - xy * x[i] - y0
        x[i], y[i] = u, v
        radius[i] = np.sqrt(max(u * u + v * v, floor))
        u -= a
        v -= b
        sum_x += u
        sum_y += v
        sum_xx += u * u
        sum_xy += u * v
        sum_yy += v * v
    mean[0], mean[1] = a + sum_x / n, b + sum_y / n
    covariance[0, 0] = (sum_xx - sum_x * sum_x / n) / (n - 1)
    covariance[1, 1] = (sum_yy - sum_y * sum_y / n) / (n - 1)
    covariance[0, 1] = covariance[1, 0] = (sum_xy - sum_x * sum_y / n) / (n - 1)
