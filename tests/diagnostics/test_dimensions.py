"""Statistics of single dimensions and of pairs of dimensions, and LiDAR."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.linalg
import torch
from scipy import stats
from torch import Tensor

from radial_vicreg.diagnostics import dimension_statistics, lidar


def normal(rows: int, dim: int, seed: int = 0) -> Tensor:
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed))


def test_a_normal_sample_has_what_the_docstring_says() -> None:
    found = dimension_statistics(normal(2000, 200))
    assert found["failing_dimensions"] == pytest.approx(0.05, abs=0.05)
    assert found["worst_statistic"] == pytest.approx(2 * math.log(200), abs=12)
    assert found["pair_correlation"] == pytest.approx(1, abs=0.03)
    assert found["pair_square_correlation"] == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize(("rows", "dim"), [(50, 5), (30, 80)])
def test_statistics_are_those_of_scipy_and_numpy(rows: int, dim: int) -> None:
    z = normal(rows, dim).double()
    z[:, 3] = (3 * z[:, 3]).exp()
    found, expected = dimension_statistics(z), stats.normaltest(z.numpy())
    assert found["failing_dimensions"] == np.mean(expected.pvalue < 0.05)
    assert (found["worst_dimension"], found["worst_statistic"]) == (3, pytest.approx(expected.statistic[3]))
    for name, of in (("pair_correlation", z), ("pair_square_correlation", (z - z.mean(dim=0)).square())):
        correlations = np.corrcoef(of.numpy().T)[np.triu_indices(dim, 1)]
        assert found[name] == pytest.approx(math.sqrt((correlations**2).mean() * (rows - 1)), rel=1e-4)


def test_dimensions_without_variance_are_excluded() -> None:
    z = normal(100, 4)
    with_constant = torch.cat([torch.full((100, 1), 7.0), z], dim=1)
    found, expected = dimension_statistics(with_constant), dimension_statistics(z)
    assert found.pop("worst_dimension") == expected.pop("worst_dimension") + 1
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    "z", [torch.zeros(100, 3), torch.full((100, 3), 0.1), torch.randn(19, 3)], ids=["zero", "constant", "too few"]
)
def test_without_enough_to_test_there_is_no_number(z: Tensor) -> None:
    assert all(math.isnan(value) for value in dimension_statistics(z).values())


def test_lidar_is_the_rank_of_the_generalised_eigenvalues() -> None:
    images = normal(40, 6).double() * torch.arange(1.0, 7.0)
    views = images + 0.3 * torch.randn(3, 40, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    means = views.mean(dim=0)
    around = (views - means).reshape(-1, 6)
    within = (around.T @ around / (40 * 2)).numpy() + 1e-4 * np.eye(6)
    values = np.clip(scipy.linalg.eigh(np.cov(means.numpy().T), within, eigvals_only=True), 0, None)
    share = values / values.sum()
    assert lidar(views) == pytest.approx(math.exp(-(share * np.log(share)).sum()), rel=1e-6)


@pytest.mark.parametrize("shape", [(10, 3), (1, 10, 3), (4, 1, 3)])
def test_lidar_needs_views_of_images(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"expected shape \(V, N, d\)"):
        lidar(torch.zeros(shape))
