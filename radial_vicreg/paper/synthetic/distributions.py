"""Distributions of the starting points: the X, the sunshine, their mixtures and a few reference distributions.

Every sampler returns ``(num_samples, dim)`` float64 points from a seeded generator. All distributions have mean zero
and, except for the two scaled sunshines, identity covariance, so that whitening leaves them unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from radial_vicreg.errors import UserError

Array = NDArray[np.float64]

NUM_SLICES = 16
"""Pie slices of the sunshine distribution (the authors' script)."""
_STRETCH = 1.6
"""Scale of both axes of the stretched sunshine (the authors' script): its covariance is 2.56 I."""
ELONGATION = np.array([2.0, 0.5])
"""Axis scales of the elongated sunshine: variances of 4 and 1/4, so that the variance term has an effect."""
_STUDENT_DEGREES = 5.0
"""Degrees of freedom of the Student-t: heavy tails with a finite fourth moment."""
_RING_WIDTH = 0.1
"""Half-width of the ring relative to its radius: thin, but with a continuous radius."""


def sample(
    name: str, num_samples: int, dim: int = 2, *, alpha: float = 1.0, seed: int | np.random.Generator = 0
) -> Array:
    """Sample the starting points of a run.

    Args:
        name: a key of :data:`DISTRIBUTIONS`.
        num_samples: number of points N, at least 2.
        dim: dimension d; 2 for the sunshine distributions, at least 1 otherwise.
        alpha: probability of the X component, used by ``mixture`` only.
        seed: seed or generator. Mixtures with the same seed share their random numbers over alpha, so that a
            comparison over alpha is paired.

    Returns:
        Points of shape ``(num_samples, dim)``, float64.

    Raises:
        UserError: the name is unknown, there are fewer than 2 points, the distribution does not support the dimension,
            or alpha is outside [0, 1].
    """
    if name not in DISTRIBUTIONS:
        raise UserError(f"unknown distribution {name!r}; choose one of {', '.join(sorted(DISTRIBUTIONS))}")
    if num_samples < 2:
        raise UserError(f"num_samples must be at least 2, got {num_samples}")
    if not 0.0 <= alpha <= 1.0:
        raise UserError(f"alpha is the share of X in the mixture and must lie in [0, 1], got {alpha}")
    distribution = DISTRIBUTIONS[name]
    if dim < 1 or (distribution.plane_only and dim != 2):
        allowed = "2" if distribution.plane_only else "at least 1"
        raise UserError(f"dim of distribution {name!r} must be {allowed}, got {dim}")
    return distribution.draw(np.random.default_rng(seed), num_samples, dim, alpha)


def _x(rng: np.random.Generator, n: int, d: int, alpha: float) -> Array:
    # (t, t) and (t, -t) with t uniform on [-sqrt 3, sqrt 3]; t absorbs the first sign.
    t = rng.uniform(-np.sqrt(3.0), np.sqrt(3.0), size=(n, 1))
    signs = rng.choice([-1.0, 1.0], size=(n, d))
    signs[:, 0] = 1.0
    points: Array = t * signs
    return points


def _gaussian(rng: np.random.Generator, n: int, d: int, alpha: float) -> Array:
    return rng.standard_normal((n, d))


def _mixture(rng: np.random.Generator, n: int, d: int, alpha: float) -> Array:
    """Sample from alpha X + (1 - alpha) N(0, I)."""
    # All three arrays are sampled for any alpha, so that runs that differ only in alpha share them.
    from_x = rng.random((n, 1)) < alpha
    return np.where(from_x, _x(rng, n, d, alpha), _gaussian(rng, n, d, alpha))


def _sunshine(rng: np.random.Generator, n: int, d: int, alpha: float) -> Array:
    """Sample from a Gaussian whose even pie slices are rotated onto the odd ones."""
    points = _gaussian(rng, n, d, alpha)
    radius = np.linalg.norm(points, axis=1)
    angle = np.arctan2(points[:, 1], points[:, 0]) % (2 * np.pi)
    width = 2 * np.pi / NUM_SLICES
    even = np.floor(angle / width).astype(int) % 2 == 0
    angle = np.where(even, angle - width, angle)
    turned: Array = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return turned


def _stretched_sunshine(rng: np.random.Generator, n: int, d: int, alpha: float) -> Array:
    points: Array = _sunshine(rng, n, d, alpha) * _STRETCH
    return points


def _elongated_sunshine(rng: np.random.Generator, n: int, d: int, alpha: float) -> Array:
    points: Array = _sunshine(rng, n, d, alpha) * ELONGATION
    return points


def _directions(rng: np.random.Generator, n: int, d: int) -> Array:
    points = rng.standard_normal((n, d))
    directions: Array = points / np.linalg.norm(points, axis=1, keepdims=True)
    return directions


def _sphere(rng: np.random.Generator, n: int, d: int, alpha: float) -> Array:
    """Sample from the sphere of radius sqrt d; the distribution of the radius is a single atom."""
    points: Array = np.sqrt(d) * _directions(rng, n, d)
    return points


def _ring(rng: np.random.Generator, n: int, d: int, alpha: float) -> Array:
    """Sample from a thin shell of radius sqrt d, with the radius uniform within 10 %."""
    radius = rng.uniform(1 - _RING_WIDTH, 1 + _RING_WIDTH, size=(n, 1))
    second_moment = 1 + _RING_WIDTH**2 / 3
    points: Array = radius * np.sqrt(d / second_moment) * _directions(rng, n, d)
    return points


def _ball(rng: np.random.Generator, n: int, d: int, alpha: float) -> Array:
    """Sample uniformly from the ball of radius sqrt(d + 2)."""
    radius = rng.random((n, 1)) ** (1 / d)
    points: Array = np.sqrt(d + 2) * radius * _directions(rng, n, d)
    return points


def _student_t(rng: np.random.Generator, n: int, d: int, alpha: float) -> Array:
    """Sample from Student's t with 5 degrees of freedom, scaled to identity covariance."""
    scale = np.sqrt(rng.chisquare(_STUDENT_DEGREES, size=(n, 1)) / (_STUDENT_DEGREES - 2))
    return rng.standard_normal((n, d)) / scale


def _laplace(rng: np.random.Generator, n: int, d: int, alpha: float) -> Array:
    # Elliptical Laplace: a Gaussian scale mixture whose variance is exponential.
    return np.sqrt(rng.exponential(size=(n, 1))) * rng.standard_normal((n, d))


@dataclass(frozen=True)
class Distribution:
    """A sampler with its properties.

    Attributes:
        draw: ``(generator, num_samples, dim, alpha) -> (num_samples, dim)``.
        plane_only: whether the distribution is defined for dim = 2 only.
        definition: version of the definition, increased when the name gets another meaning. It is part of a run's key
            and results, so that results under different definitions are never mixed.
        formerly: current name of the former definition.
    """

    draw: Callable[[np.random.Generator, int, int, float], Array]
    plane_only: bool = False
    definition: int = 1
    formerly: str | None = None


DISTRIBUTIONS: dict[str, Distribution] = {
    "x": Distribution(_x),
    "mixture": Distribution(_mixture),
    "sunshine": Distribution(_sunshine, plane_only=True),
    # Its first definition had the scales (2, 1/2).
    "stretched_sunshine": Distribution(
        _stretched_sunshine, plane_only=True, definition=2, formerly="elongated_sunshine"
    ),
    "elongated_sunshine": Distribution(_elongated_sunshine, plane_only=True),
    "gaussian": Distribution(_gaussian),
    "ring": Distribution(_ring),
    "sphere": Distribution(_sphere),
    "ball": Distribution(_ball),
    "student_t": Distribution(_student_t),
    "laplace": Distribution(_laplace),
}
"""Starting distributions by name; docs/synthetic.md describes them."""
