"""The fused statistics against the formulas they stand for, first and second derivatives."""

from __future__ import annotations

import functools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from radial_vicreg.losses import _statistics
from radial_vicreg.losses._statistics import view_statistics

batches = pytest.mark.parametrize(
    ("number", "shape"), [(2, (7, 3)), (3, (4, 9)), (2, (5, 5))], ids=["tall", "wide", "square"]
)


def _views(count: int, dim: int, number: int = 2, seed: int = 0) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    first, *others = (torch.randn(count, dim, generator=generator, dtype=torch.float64) for _ in range(number))
    return tuple(z.requires_grad_() for z in (0.6 * first + 0.3, *(1.2 * z for z in others)))


def _total(*views: Tensor, center: bool = False) -> Tensor:
    found = view_statistics(views, gather=False, center=center, differentiable_mean=True)
    parts = found.squared_norms.log(), found.mean.exp()
    return found.invariance + found.variance + found.covariance + sum(part.sum() for part in parts)


@settings(derandomize=True)
@given(
    seed=st.integers(0, 2**16),
    count=st.integers(2, 20),
    dim=st.integers(1, 24),
    number=st.integers(2, 8),
    center=st.booleans(),
    mean=st.floats(-9, 9),
)
def test_values_and_gradients_equal_the_plain_formulas(
    seed: int, count: int, dim: int, number: int, center: bool, mean: float
) -> None:
    views = tuple((z.detach() + mean).requires_grad_() for z in _views(count, dim, number, seed))
    fused = view_statistics(views, gather=False, center=center, differentiable_mean=True)
    plain = _statistics._plain_statistics(views, gather=False, center=center)
    weights = [torch.randn(value.shape, dtype=torch.float64) for value in plain]
    found, expected = (
        torch.autograd.grad([(w * v).sum() for w, v in zip(weights, values, strict=True)], views)
        for values in (fused, plain)
    )
    for mine, reference in zip((*fused, *found), (*plain, *expected), strict=True):
        torch.testing.assert_close(mine, reference, rtol=1e-9, atol=1e-9)


@batches
def test_derivatives_equal_finite_differences(number: int, shape: tuple[int, int]) -> None:
    for center in (False, True):
        total = functools.partial(_total, center=center)
        assert torch.autograd.gradcheck(total, _views(*shape, number), fast_mode=True)
        assert torch.autograd.gradgradcheck(total, _views(*shape, number), fast_mode=True)


@batches
def test_views_without_a_gradient_and_views_of_one_tensor_keep_the_others_gradients(
    number: int, shape: tuple[int, int]
) -> None:
    first, *others = _views(*shape, number)
    every = torch.autograd.grad(_total(first, *others), first)
    twice = torch.autograd.grad(_total(*(z.clone() for z in (first, *others, first))), (first, *others))
    for create_graph in (False, True):
        alone = torch.autograd.grad(_total(first, *(z.detach() for z in others)), first, create_graph=create_graph)
        torch.testing.assert_close(alone, every)
        found = torch.autograd.grad(_total(first, *others, first), (first, *others), create_graph=create_graph)
        torch.testing.assert_close(found, twice)


@batches
def test_the_backward_pass_can_run_again(number: int, shape: tuple[int, int]) -> None:
    views = _views(*shape, number)
    total = _total(*views)
    first = torch.autograd.grad(total, views, retain_graph=True)
    again = torch.autograd.grad(total, views)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


def test_the_mean_carries_no_gradient_unless_asked_for() -> None:
    views = _views(6, 4, 3)
    mean = view_statistics(views, False, False).mean
    assert not mean.requires_grad
    torch.testing.assert_close(mean, torch.stack([view.detach().mean(dim=0) for view in views]))
