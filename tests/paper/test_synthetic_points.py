"""The distributions of the synthetic experiments, and what is measured of their points."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

from radial_vicreg.paper.synthetic import distances as metrics
from radial_vicreg.paper.synthetic.distributions import DISTRIBUTIONS, ELONGATION, NUM_SLICES, sample

COUNT = 40_000
IDENTITY = sorted(set(DISTRIBUTIONS) - {"stretched_sunshine", "elongated_sunshine"})


def dims(name: str) -> tuple[int, ...]:
    return (2,) if DISTRIBUTIONS[name].plane_only else (2, 3, 5)


@pytest.mark.parametrize("name", sorted(DISTRIBUTIONS))
def test_distributions_are_symmetric_and_most_have_the_identity_as_covariance(name: str) -> None:
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


# ---- metrics


def test_normal_points_score_well_on_everything_and_x_does_not() -> None:
    normal, x = (metrics.measure(sample(name, 4000, seed=1), subsample=800) for name in ("gaussian", "x"))
    for name in ("w2_exact", "w2_sliced", "w1_chi", "radial_kl", "mmd2", "normality_statistic", "angle_statistic"):
        assert normal[name] < x[name], name
    assert normal["normality_p"] > 0.01 > x["normality_p"]
    assert normal["angle_p"] > 0.01 > x["angle_p"]
    assert x["covariance_error"] < 0.1
    assert x["excess_kurtosis"] == pytest.approx(-1.2, abs=0.1)
    json.dumps([normal, x], allow_nan=False)


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_same_seed_same_metrics_in_every_dimension(dim: int) -> None:
    points = sample("laplace", 300, dim, seed=0)
    first, second = (metrics.measure(points, seed=3, subsample=100) for _ in range(2))
    assert first == second
    assert (first["angle_p"] is None) == (dim == 1)


def test_distances_equal_their_closed_forms() -> None:
    points = sample("gaussian", 200, 3, seed=0)
    assert metrics.exact_wasserstein2(points, points + np.array([0.0, 3.0, 4.0])) == pytest.approx(5.0)
    assert metrics.exact_wasserstein2(points, points[::-1]) == pytest.approx(0.0, abs=1e-6)
    # 1-D W2 between N(0, s^2) and N(0, 1) is |s - 1| in every direction.
    assert metrics.sliced_wasserstein2(3 * sample("gaussian", 50_000, 2, seed=0)) == pytest.approx(2.0, rel=0.02)


def test_mmd_of_normal_points_is_unbiased_around_zero() -> None:
    values = [metrics.mmd2_to_normal(sample("gaussian", 100, 3, seed=seed)) for seed in range(100)]
    assert abs(np.mean(values)) < 4 * np.std(values) / np.sqrt(100)
    assert metrics.mmd2_to_normal(sample("gaussian", 100, 3, seed=0) + 1) > 10 * max(values)


@pytest.mark.parametrize("dim", [1, 5])
def test_p_values_of_the_normality_test_are_calibrated(dim: int) -> None:
    p_values = [metrics.normality_test(2 + 3 * sample("gaussian", 150, dim, seed=seed))[1] for seed in range(200)]
    for level in (0.05, 0.25, 0.5):
        assert abs(np.mean(np.array(p_values) < level) - level) < 4 * np.sqrt(level * (1 - level) / 200)


def test_p_values_of_the_angular_test_never_alarm_too_often() -> None:
    p_values = [metrics.angular_uniformity(sample("student_t", 150, 3, seed=seed))[1] for seed in range(40)]
    assert np.mean(np.array(p_values) < 0.05) < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 40)


def test_normality_test_rejects_what_is_not_normal() -> None:
    for name in ("student_t", "ball", "laplace", "sunshine"):
        assert metrics.normality_test(sample(name, 2000, 2, seed=0))[1] < 1e-3, name
    line = np.outer(np.arange(50.0), [1.0, 2.0])  # a singular covariance
    assert metrics.normality_test(line)[1] == 0.0
