"""The VICReg terms and E2MC against their definitions, and VICReg against solo-learn where it is installed."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from radial_vicreg.losses import (
    RadialVICRegLoss,
    covariance_loss,
    e2mc_loss,
    hypercovariance_loss,
    invariance_loss,
    marginal_entropy,
    variance_loss,
)


@settings(derandomize=True)
@given(seed=st.integers(0, 2**16), count=st.integers(2, 30), dim=st.integers(1, 40))
def test_covariance_equals_the_off_diagonal_sum_of_torch_cov(seed: int, count: int, dim: int) -> None:
    z = torch.randn(count, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    covariance = torch.cov(z.T).reshape(dim, dim)
    expected = (covariance.square().sum() - covariance.diagonal().square().sum()) / dim
    torch.testing.assert_close(covariance_loss(z), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("count", "dim"), [(512, 8), (9, 8)], ids=["many_samples", "barely_more_samples_than_d"])
def test_covariance_of_whitened_data_is_zero_and_not_negative(count: int, dim: int) -> None:
    z = torch.randn(count, dim, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    z = z - z.mean(dim=0)
    z = (z @ torch.linalg.inv(torch.linalg.cholesky(torch.cov(z.T))).T).float()
    assert 0 <= covariance_loss(z).item() < 1e-11


def test_covariance_of_one_varying_dimension_is_zero_and_not_negative() -> None:
    z = torch.zeros(4, 30)
    z[:, 3] = torch.tensor([0.1, 0.7, -1.3, 2.9])
    assert covariance_loss(z).item() == pytest.approx(0, abs=1e-6)
    assert covariance_loss(z).item() >= 0


@pytest.mark.parametrize("shape", [(64, 16), (16, 64)], ids=["tall", "wide"])
def test_covariance_is_not_lost_in_a_large_mean(shape: tuple[int, int]) -> None:
    z = torch.randn(*shape, generator=torch.Generator().manual_seed(0))
    # 100 and quarter steps: the shift itself is exact in float32.
    z = (z * 1024).round() / 1024
    torch.testing.assert_close(covariance_loss(z + 100), covariance_loss(z), rtol=1e-4, atol=0)


def test_variance_is_the_hinge_on_the_unbiased_deviation() -> None:
    z = torch.tensor([[0.0, 0.0], [0.5, 10.0]], dtype=torch.float64)
    first = 1 - math.sqrt(0.125 + 1e-4)
    assert variance_loss(z).item() == pytest.approx(first / 2, rel=1e-12)
    assert variance_loss(z, gamma=0.1).item() == 0


def test_variance_of_a_constant_batch_is_gamma_minus_root_eps() -> None:
    assert variance_loss(torch.ones(4, 3), gamma=2.0, eps=0.25).item() == pytest.approx(1.5)


@pytest.mark.parametrize(("key", "value"), [("gamma", -1.0), ("eps", 0.0), ("eps", float("nan")), ("gamma", "1")])
def test_variance_refuses_wrong_constants(key: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{key}: expected a finite number"):
        variance_loss(torch.ones(4, 3), **{key: value})  # type: ignore[arg-type]


def test_invariance_averages_over_samples_and_dimensions() -> None:
    assert invariance_loss(torch.zeros(4, 3), torch.full((4, 3), 2.0)).item() == 4


def test_views_of_different_precision_are_promoted() -> None:
    assert invariance_loss(torch.zeros(4, 3).half(), torch.ones(4, 3).double()).dtype == torch.float64


def test_e2mc_weighs_its_two_parts_and_refuses_a_negative_weight() -> None:
    z = torch.randn(25, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for weight in (0.0, 3.0):
        expected = weight * hypercovariance_loss(z) - marginal_entropy(z)
        torch.testing.assert_close(e2mc_loss(z, weight), expected, rtol=1e-12, atol=0)
    with pytest.raises(ValueError, match=r"hypercovariance_weight: expected a finite number >= 0, got -0\.1"):
        e2mc_loss(z, -0.1)


@pytest.mark.solo
@pytest.mark.parametrize(
    ("count", "dim", "dtype"),
    [(64, 16, torch.float32), (16, 64, torch.float64), (32, 32, torch.float32)],
    ids=["tall", "wide", "square"],
)
def test_vicreg_equals_solo_learn(count: int, dim: int, dtype: torch.dtype) -> None:
    solo = pytest.importorskip("solo.losses.vicreg")
    generator = torch.Generator().manual_seed(count)
    z1 = torch.randn(count, dim, generator=generator, dtype=torch.float64).to(dtype)
    z2 = (z1 + 0.5 * torch.randn(count, dim, generator=generator, dtype=torch.float64)).to(dtype) * 0.7
    ours = [z.clone().requires_grad_() for z in (z1, z2)]
    theirs = [z.clone().requires_grad_() for z in (z1, z2)]
    value = RadialVICRegLoss(radial_objective="none")(*ours)
    expected = solo.vicreg_loss_func(*theirs, sim_loss_weight=25.0, var_loss_weight=25.0, cov_loss_weight=1.0)
    value.backward()
    expected.backward()
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(value, expected, rtol=tolerance, atol=0)
    for mine, other in zip(ours, theirs, strict=True):
        scale = other.grad.abs().max().item()
        torch.testing.assert_close(mine.grad, other.grad, rtol=tolerance, atol=tolerance * scale)
