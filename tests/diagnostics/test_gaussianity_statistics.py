"""Statistics of embeddings next to the standard normal distribution, of dimensions, and LiDAR."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.linalg
import torch
from scipy import integrate, stats
from torch import Tensor

from radial_vicreg.diagnostics import (
    covariance_spectrum,
    dimension_statistics,
    epps_pulley,
    gaussianity_statistics,
    lidar,
    mean_share,
    normal_statistics,
    radius_statistics,
    random_slices,
    standardise,
    uniformity,
    wasserstein_to_normal,
)
from radial_vicreg.diagnostics.gaussianity import normal_sample


def normal(count: int, dim: int, seed: int = 1) -> Tensor:
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(seed))


def test_epps_pulley_is_the_integral_of_its_definition() -> None:
    x = torch.tensor([-1.3, 0.2, 0.9, 2.4, 2.5]).double()

    def integrand(t: float) -> float:
        empirical = np.mean(np.exp(1j * t * x.numpy()))
        return float(abs(empirical - math.exp(-t * t / 2)) ** 2 * math.exp(-t * t / 2))

    expected = len(x) * integrate.quad(integrand, -3, 3)[0]
    assert float(epps_pulley(x[:, None])) == pytest.approx(expected, rel=2e-3)  # 17 knots


def test_epps_pulley_is_lightly_s_sigreg() -> None:
    lejepa = pytest.importorskip("lightly.loss.lejepa_loss")
    sigreg = lejepa.SIGReg(num_vectors=8)
    z = normal(50, 6) * 1.5 + 0.2
    directions = torch.randn(6, 8, generator=torch.Generator().manual_seed(3))
    sigreg._generate_unit_vectors = lambda *_, **__: directions / directions.norm(dim=0)
    found = epps_pulley(random_slices(z, count=8, seed=3)).mean()
    assert float(found) == pytest.approx(float(sigreg(z)), rel=1e-5)


def test_wasserstein_to_normal_is_zero_on_quantiles_and_the_length_of_a_shift() -> None:
    quantiles = torch.from_numpy(stats.norm.ppf((np.arange(40) + 0.5) / 40)).float()
    x = torch.stack([quantiles, quantiles.flip(0) + 3.0], dim=1)
    assert wasserstein_to_normal(x).tolist() == pytest.approx([0.0, 3.0], abs=1e-5)


def test_uniformity_is_the_mean_over_pairs() -> None:
    z = normal(9, 4)
    unit = (z / z.norm(dim=1, keepdim=True)).double()
    pairs = [(unit[i] - unit[j]).square().sum() for i in range(9) for j in range(i)]
    expected = math.log(sum(math.exp(-2 * float(pair)) for pair in pairs) / len(pairs))
    assert uniformity(3.0 * z) == pytest.approx(expected, rel=1e-5)


def test_the_mean_s_share_tells_an_offset_from_a_spread() -> None:
    offset = torch.zeros(16)
    offset[3] = 4.0  # the squared norm of the normal part is 16, too
    assert mean_share(normal(4000, 16) + offset) == pytest.approx(0.5, abs=0.02)
    assert mean_share(normal(4000, 16)) == pytest.approx(1 / 4000, rel=0.6)


def test_the_spectrum_is_that_of_the_covariance() -> None:
    z = normal(30, 6) @ normal(6, 6, seed=2) + 5.0
    expected = np.sort(np.linalg.eigvalsh(np.cov(z.double().numpy(), rowvar=False)))[::-1]
    assert covariance_spectrum(z).tolist() == pytest.approx(expected.tolist(), rel=1e-4)
    assert covariance_spectrum(normal(4, 6)).shape == (3,)


def test_standardised_dimensions_have_mean_0_and_variance_1_and_constant_ones_are_0() -> None:
    z = normal(50, 3) * torch.tensor([10.0, 0.1, 0.0]) + torch.tensor([100.0, 0.0, 7.0])
    found = standardise(z)
    assert found.mean(dim=0).tolist() == pytest.approx([0.0] * 3, abs=1e-5)
    assert found.std(dim=0, correction=0).tolist() == pytest.approx([1.0, 1.0, 0.0], rel=1e-4)


def test_statistics_of_a_normal_sample_are_those_of_its_reference() -> None:
    found, reference = gaussianity_statistics(normal(600, 32)), normal_statistics(600, 32)
    assert found.keys() == reference.keys()
    for name in ("effective_rank", "uniformity", "radius_mean", "radius_std"):
        assert found[name] == pytest.approx(reference[name], rel=0.05), name
    for name in ("w1_chi", "kl", "sliced_w2", "epps_pulley"):
        for key in (name, f"standardised_{name}"):
            assert found[key] < 2.5 * reference[key], key


def test_the_reference_is_seeded_and_not_made_of_the_slices_own_numbers() -> None:
    assert normal_statistics(40, 8, seed=1) == normal_statistics(40, 8, seed=1)
    assert normal_statistics(40, 8, seed=1) != normal_statistics(40, 8, seed=2)
    assert not torch.equal(normal_sample(8, 256, seed=1), normal(8, 256, seed=1))  # as the directions are drawn


def test_standardising_forgives_the_offset_and_scale_that_the_raw_figures_see() -> None:
    z = normal(800, 24) * 3.0 + 2.0
    found, reference = gaussianity_statistics(z), normal_statistics(800, 24)
    for name in ("w1_chi", "sliced_w2", "epps_pulley"):
        assert found[name] > 10 * reference[name], name
        assert found[f"standardised_{name}"] < 2 * reference[f"standardised_{name}"], name


def test_what_the_radius_monitor_knows_is_part_of_it() -> None:
    z = normal(40, 6)
    found = gaussianity_statistics(z)
    assert {name: found[name] for name in radius_statistics(z)} == radius_statistics(z)


@pytest.mark.parametrize(
    ("z", "constant"),
    [
        (torch.zeros(10, 4), 4),
        (torch.full((10, 4), 3.7), 4),
        (torch.cat([normal(10, 3), torch.full((10, 1), 0.1)], dim=1), 1),
        (normal(2, 1), 0),
        (normal(2, 50), 0),
    ],
    ids=["zeros", "all equal", "one dimension constant", "two numbers", "N < d"],
)
def test_degenerate_embeddings_have_finite_statistics(z: Tensor, constant: int) -> None:
    found = gaussianity_statistics(z)
    assert all(math.isfinite(value) for value in found.values()), found
    assert found["constant_dimensions"] == constant


def test_embeddings_that_are_not_finite_are_refused() -> None:
    with pytest.raises(ValueError, match="1 of 8 values are not finite"):
        gaussianity_statistics(torch.tensor([[1.0, 2.0, 3.0, math.inf], [0.0, 0.0, 0.0, 0.0]]))


# Single dimensions, pairs of dimensions, and LiDAR


def test_a_normal_sample_has_what_the_docstring_says() -> None:
    found = dimension_statistics(normal(2000, 200, seed=0))
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
