from __future__ import annotations

import json

import numpy as np
import pytest

from radial_vicreg.paper.synthetic import distances as metrics
from radial_vicreg.paper.synthetic.distributions import sample


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
    p_values = [metrics.angular_uniformity(sample("student_t", 150, 3, seed=seed))[1] for seed in range(80)]
    assert np.mean(np.array(p_values) < 0.05) < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 80)


def test_normality_test_rejects_what_is_not_normal() -> None:
    for name in ("student_t", "ball", "laplace", "sunshine"):
        assert metrics.normality_test(sample(name, 2000, 2, seed=0))[1] < 1e-3, name
    line = np.outer(np.arange(50.0), [1.0, 2.0])  # a singular covariance
    assert metrics.normality_test(line)[1] == 0.0


def test_points_off_the_diagonals_are_counted() -> None:
    for name, share in (("x", 0.0), ("gaussian", 1 - 20 / 90)):
        assert metrics.off_diagonal_share(sample(name, 20_000, seed=0)) == pytest.approx(share, abs=0.015)
