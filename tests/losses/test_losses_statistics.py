"""The fused statistics against the formulas they stand for, first and second derivatives."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from radial_vicreg.losses import _statistics
from radial_vicreg.losses._statistics import view_statistics

SHAPES = [(7, 3), (4, 9), (5, 5)]
shapes = pytest.mark.parametrize("shape", SHAPES, ids=["tall", "wide", "square"])
centred = pytest.mark.parametrize("center", [False, True], ids=["plain", "centred"])


def _views(count: int, dim: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    z1, z2 = (torch.randn(count, dim, generator=generator, dtype=torch.float64) for _ in range(2))
    return (0.6 * z1 + 0.3).requires_grad_(), (1.2 * z2).requires_grad_()


@settings(derandomize=True)
@given(
    seed=st.integers(0, 2**16),
    count=st.integers(2, 20),
    dim=st.integers(1, 24),
    center=st.booleans(),
    mean=st.floats(-9, 9),
)
def test_values_and_gradients_equal_the_plain_formulas(
    seed: int, count: int, dim: int, center: bool, mean: float
) -> None:
    views = tuple((z.detach() + mean).requires_grad_() for z in _views(count, dim, seed))
    fused = view_statistics(*views, gather=False, center=center)[:4]
    plain = _statistics._plain_statistics(*views, gather=False, center=center)
    weights = [torch.randn(value.shape, dtype=torch.float64) for value in plain]
    found, expected = (
        torch.autograd.grad([(w * v).sum() for w, v in zip(weights, values, strict=True)], views)
        for values in (fused, plain)
    )
    for mine, reference in zip((*fused, *found), (*plain, *expected), strict=True):
        torch.testing.assert_close(mine, reference, rtol=1e-9, atol=1e-9)


@shapes
@centred
def test_second_derivatives_equal_finite_differences(shape: tuple[int, int], center: bool) -> None:
    def total(z1: Tensor, z2: Tensor) -> Tensor:
        found = view_statistics(z1, z2, gather=False, center=center)
        return found.invariance + found.variance + found.covariance + found.squared_norms.log().sum()

    assert torch.autograd.gradgradcheck(total, _views(*shape))


@shapes
def test_one_view_may_be_without_gradient(shape: tuple[int, int]) -> None:
    z1, z2 = _views(*shape)
    both = torch.autograd.grad(view_statistics(z1, z2, False, False).covariance, z1)
    alone = torch.autograd.grad(view_statistics(z1, z2.detach(), False, False).covariance, z1, create_graph=True)
    torch.testing.assert_close(alone[0], both[0])


@shapes
def test_the_backward_pass_can_run_again(shape: tuple[int, int]) -> None:
    z1, z2 = _views(*shape)
    found = view_statistics(z1, z2, False, False)
    total = found.invariance + found.variance + found.covariance + found.squared_norms.sum()
    first = torch.autograd.grad(total, (z1, z2), retain_graph=True)
    again = torch.autograd.grad(total, (z1, z2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


def test_the_mean_carries_no_gradient() -> None:
    views = _views(6, 4)
    mean = view_statistics(*views, False, False).mean
    assert not mean.requires_grad
    torch.testing.assert_close(mean, torch.stack([view.detach().mean(dim=0) for view in views]))
