"""The VICReg terms and E2MC against their definitions, and VICReg against solo-learn where it is installed."""

from __future__ import annotations

import math

import pytest
import torch

from radial_vicreg.losses import RadialVICRegLoss, covariance_loss, e2mc_loss, variance_loss


@pytest.mark.parametrize(("count", "dim"), [(512, 8), (9, 8)], ids=["many_samples", "barely_more_samples_than_d"])
def test_covariance_of_whitened_data_is_zero_and_not_negative(count: int, dim: int) -> None:
    z = torch.randn(count, dim, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    z = z - z.mean(dim=0)
    z = (z @ torch.linalg.inv(torch.linalg.cholesky(torch.cov(z.T))).T).float()
    assert 0 <= covariance_loss(z).item() < 1e-11


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
    assert variance_loss(torch.ones(4, 3), gamma=2.0, eps=0.25).item() == pytest.approx(1.5)


def test_wrong_constants_are_refused_by_name() -> None:
    z = torch.ones(4, 3)
    for constants in ({"gamma": -1.0}, {"gamma": "1"}, {"eps": 0.0}, {"eps": float("nan")}):
        with pytest.raises(ValueError, match=f"{next(iter(constants))}: expected a finite number"):
            variance_loss(z, **constants)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"hypercovariance_weight: expected a finite number >= 0, got -0\.1"):
        e2mc_loss(z, -0.1)


@pytest.mark.solo
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((64, 16), torch.float32), ((16, 64), torch.float64), ((32, 32), torch.float32)],
    ids=["tall", "wide", "square"],
)
def test_vicreg_equals_solo_learn(shape: tuple[int, int], dtype: torch.dtype) -> None:
    solo = pytest.importorskip("solo.losses.vicreg")
    z1, noise = torch.randn(2, *shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    z2 = 0.7 * (z1 + 0.5 * noise)
    ours, theirs = ([z.to(dtype).clone().requires_grad_() for z in (z1, z2)] for _ in range(2))
    value = RadialVICRegLoss(radial_objective="none")(*ours)
    expected = solo.vicreg_loss_func(*theirs, sim_loss_weight=25.0, var_loss_weight=25.0, cov_loss_weight=1.0)
    value.backward()
    expected.backward()
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(value, expected, rtol=tolerance, atol=0)
    for mine, other in zip(ours, theirs, strict=True):
        scale = other.grad.abs().max().item()
        torch.testing.assert_close(mine.grad, other.grad, rtol=tolerance, atol=tolerance * scale)
