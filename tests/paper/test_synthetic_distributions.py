from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from radial_vicreg.paper.synthetic.distributions import DISTRIBUTIONS, ELONGATION, NUM_SLICES, sample

COUNT = 40_000
IDENTITY = sorted(set(DISTRIBUTIONS) - {"stretched_sunshine", "elongated_sunshine"})


def dims(name: str) -> tuple[int, ...]:
    return (2,) if DISTRIBUTIONS[name].plane_only else (2, 3, 5)


@pytest.mark.parametrize("name", sorted(DISTRIBUTIONS))
def test_every_distribution_is_symmetric_about_the_origin_and_most_have_the_identity_as_covariance(name: str) -> None:
    for dim in dims(name):
        points = sample(name, COUNT, dim, alpha=0.4, seed=1)
        assert points.shape == (COUNT, dim)
        assert points.dtype == np.float64
        if name in IDENTITY:
            np.testing.assert_allclose(points.mean(0), 0, atol=5 / np.sqrt(COUNT))
            # Five standard errors; the Student-t with 5 degrees of freedom has the largest fourth moment, 9.
            np.testing.assert_allclose(np.cov(points.T), np.eye(dim), atol=5 * np.sqrt(8 / COUNT))
    points = sample(name, COUNT, 2, alpha=0.5, seed=2)
    for direction in ([1.0, 0.0], [0.6, 0.8]):
        projected = points @ np.array(direction)
        assert stats.ks_2samp(projected[::2], -projected[1::2]).pvalue > 1e-3


def test_x_lies_on_the_diagonals_with_uniform_coordinates() -> None:
    points = sample("x", COUNT, seed=0)
    np.testing.assert_array_equal(np.abs(points[:, 0]), np.abs(points[:, 1]))
    assert stats.kstest(points[:, 0], stats.uniform(-np.sqrt(3), 2 * np.sqrt(3)).cdf).pvalue > 1e-3
    assert stats.kstest(np.linalg.norm(points, axis=1), stats.uniform(0, np.sqrt(6)).cdf).pvalue > 1e-3
    assert 0.48 < np.mean(points[:, 0] * points[:, 1] > 0) < 0.52


def test_sunshine_has_chi_radii_and_every_second_slice_empty() -> None:
    points = sample("sunshine", COUNT, seed=0)
    assert stats.kstest(np.linalg.norm(points, axis=1), stats.chi(2).cdf).pvalue > 1e-3
    angle = np.arctan2(points[:, 1], points[:, 0]) % (2 * np.pi)
    counts = np.bincount((angle / (2 * np.pi / NUM_SLICES)).astype(int), minlength=NUM_SLICES)
    assert counts[::2].sum() == 0
    np.testing.assert_allclose(counts[1::2] / COUNT, 2 / NUM_SLICES, atol=0.01)


def test_the_sunshine_has_a_stretched_and_an_elongated_form() -> None:
    sunshine = sample("sunshine", COUNT, seed=0)
    stretched, elongated = (sample(f"{form}_sunshine", COUNT, seed=0) for form in ("stretched", "elongated"))
    np.testing.assert_allclose(stretched, 1.6 * sunshine, rtol=1e-15)
    np.testing.assert_allclose(np.cov(stretched.T), 2.56 * np.eye(2), atol=0.08)
    np.testing.assert_array_equal(elongated / ELONGATION, sunshine)
    np.testing.assert_allclose(np.cov(elongated.T), np.diag([4, 0.25]), atol=0.15)


def test_bounded_distributions_stay_within_their_radius() -> None:
    for name, radius in (("sphere", 1.0), ("ring", 1.1), ("ball", 2.0)):
        assert np.linalg.norm(sample(name, 1000, 2, seed=0), axis=1).max() <= radius * np.sqrt(2) + 1e-12


def test_mixture_holds_alpha_of_x_and_shares_its_draws_over_alpha() -> None:
    def on_x(points: np.ndarray) -> np.ndarray:
        return np.abs(points[:, 0]) == np.abs(points[:, 1])

    some, more = (sample("mixture", COUNT, alpha=alpha, seed=3) for alpha in (0.25, 0.75))
    assert abs(on_x(some).mean() - 0.25) < 0.01
    assert on_x(more)[on_x(some)].all()
    np.testing.assert_array_equal(some[on_x(some)], more[on_x(some)])
    assert not on_x(sample("mixture", COUNT, alpha=0.0, seed=3)).any()
    assert on_x(sample("mixture", COUNT, alpha=1.0, seed=3)).all()


@pytest.mark.parametrize("name", sorted(DISTRIBUTIONS))
def test_same_seed_same_points(name: str) -> None:
    first, second, other = (sample(name, 20, seed=seed) for seed in (7, 7, 8))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "y"}, "unknown distribution 'y'; choose one of ball"),
        ({"num_samples": 1}, "at least 2, got 1"),
        ({"dim": 0}, "dim of distribution 'x' must be at least 1, got 0"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sample(**{"name": "x", "num_samples": 10, **arguments})
