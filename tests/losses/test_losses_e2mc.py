"""E2MC: entropy of every dimension, covariance between them, both after a sigmoid."""

from __future__ import annotations

import pytest
import torch

from radial_vicreg.losses import (
    covariance_loss,
    e2mc_loss,
    hypercovariance_loss,
    m_spacing_entropy,
    marginal_entropy,
)


@pytest.fixture
def z() -> torch.Tensor:
    return torch.randn(25, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_marginal_entropy_is_the_mean_over_dimensions(z: torch.Tensor) -> None:
    expected = torch.stack([m_spacing_entropy(column) for column in z.sigmoid().T]).mean()
    torch.testing.assert_close(marginal_entropy(z), expected, rtol=1e-12, atol=0)


def test_marginal_entropy_of_logistic_data_approaches_its_largest_value_zero() -> None:
    uniform = torch.rand(20_000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    logistic = marginal_entropy(uniform.logit())
    assert -0.03 < logistic.item() < 0
    assert marginal_entropy(uniform.logit() * 3) < logistic
    assert marginal_entropy(uniform.logit() / 3) < logistic


def test_hypercovariance_is_the_covariance_after_the_sigmoid(z: torch.Tensor) -> None:
    assert torch.equal(hypercovariance_loss(z), covariance_loss(z.sigmoid()))


@pytest.mark.parametrize("weight", [0.0, 0.1, 3.0])
def test_e2mc_weighs_its_two_parts(z: torch.Tensor, weight: float) -> None:
    expected = weight * hypercovariance_loss(z) - marginal_entropy(z)
    torch.testing.assert_close(e2mc_loss(z, weight), expected, rtol=1e-12, atol=0)


def test_negative_weight_is_refused(z: torch.Tensor) -> None:
    with pytest.raises(ValueError, match=r"hypercovariance_weight: expected a finite number >= 0, got -0\.1"):
        e2mc_loss(z, -0.1)
