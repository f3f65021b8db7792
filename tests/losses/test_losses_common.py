"""What holds for every loss: gradients, dtypes, scales, degenerate batches, refused input."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from objectives import CASES
from torch import Tensor

from radial_vicreg import losses
from radial_vicreg.losses import RadialVICRegLoss


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(3)


#: Every function of one view, with its draws fixed so that it is a function of ``z`` alone.
ONE_VIEW: dict[str, Callable[[Tensor], Tensor]] = {
    "variance": losses.variance_loss,
    "covariance": losses.covariance_loss,
    "chi_cross_entropy": losses.chi_cross_entropy,
    "chi_cross_entropy_per_dimension": lambda z: losses.chi_cross_entropy(z, normalize=True),
    "gaussianization": lambda z: losses.radial_gaussianization_loss(z, 1.5, 0.3),
    "radial_kl": losses.radial_kl,
    "wasserstein_quantiles": lambda z: losses.radial_wasserstein_loss(z, "quantiles"),
    "wasserstein_samples": lambda z: losses.radial_wasserstein_loss(z, "samples", _generator()),
    "reverse_kl": lambda z: losses.radial_reverse_kl_loss(z, num_targets=32, generator=_generator()),
    "reverse_kl_fixed_bandwidth": lambda z: losses.radial_reverse_kl_loss(z, 0.5, 32, _generator()),
    "marginal_entropy": losses.marginal_entropy,
    "hypercovariance": losses.hypercovariance_loss,
    "e2mc": losses.e2mc_loss,
    "mean": losses.mean_loss,
}
#: ... and those that depend on ``z`` through its radii only.
RADIAL = [
    name for name in ONE_VIEW if name.split("_")[0] in ("chi", "gaussianization", "radial", "wasserstein", "reverse")
]

every_loss = pytest.mark.parametrize("name", ONE_VIEW)
radial_losses = pytest.mark.parametrize("name", RADIAL)


def _random(count: int, dim: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


@every_loss
@pytest.mark.parametrize("shape", [(7, 3), (4, 9), (6, 1)], ids=["tall", "wide", "one_dim"])
def test_gradient_equals_finite_differences(name: str, shape: tuple[int, int]) -> None:
    z = (0.8 * _random(*shape, seed=1)).requires_grad_()
    assert torch.autograd.gradcheck(ONE_VIEW[name], (z,), eps=1e-7, atol=1e-5)


@pytest.mark.parametrize("shape", [(7, 3), (4, 9)], ids=["tall", "wide"])
def test_invariance_gradient_equals_finite_differences(shape: tuple[int, int]) -> None:
    pair = (_random(*shape, seed=1).requires_grad_(), _random(*shape, seed=2).requires_grad_())
    assert torch.autograd.gradcheck(losses.invariance_loss, pair)


def test_entropy_gradient_equals_finite_differences() -> None:
    radii = _random(9, 4).norm(dim=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda r: losses.m_spacing_entropy(r, 2), (radii,))


@every_loss
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_computed_in_float32(name: str, dtype: torch.dtype) -> None:
    z = _random(16, 6, dtype=dtype)
    value = ONE_VIEW[name](z)
    assert value.dtype == torch.float32
    assert torch.equal(value, ONE_VIEW[name](z.float()))


@every_loss
def test_autocast_does_not_change_the_value(name: str) -> None:
    z = _random(12, 30, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = ONE_VIEW[name](z)
    assert torch.equal(value, ONE_VIEW[name](z))


@pytest.mark.parametrize("name", CASES)
def test_objective_under_autocast_equals_float32(name: str) -> None:
    pair = _random(12, 30, dtype=torch.float32), _random(12, 30, 1, dtype=torch.float32)
    objective = RadialVICRegLoss(**CASES[name]).eval()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = objective(*pair)
    assert value.dtype == torch.float32
    assert torch.equal(value, objective(*pair))


def _assert_finite_with_gradient(function: Callable[[Tensor], Tensor], z: Tensor) -> None:
    z = z.clone().requires_grad_()
    value = function(z)
    value.backward()
    assert torch.isfinite(value), f"value {value.item()}"
    assert z.grad is not None
    assert torch.isfinite(z.grad).all(), "gradient is not finite"


@every_loss
@pytest.mark.parametrize("exponent", [-6, -3, 3, 6])
@pytest.mark.parametrize("shape", [(64, 16), (16, 64), (32, 1)], ids=["tall", "wide", "one_dim"])
def test_scales_from_1e_minus_6_to_1e6_are_finite_in_float32(name: str, exponent: int, shape: tuple[int, int]) -> None:
    _assert_finite_with_gradient(ONE_VIEW[name], _random(*shape, dtype=torch.float32) * 10.0**exponent)


@every_loss
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_degenerate_batches_give_finite_values_and_gradients(name: str, degenerate: Tensor, dtype: torch.dtype) -> None:
    _assert_finite_with_gradient(ONE_VIEW[name], degenerate.to(dtype))


@pytest.mark.parametrize("name", CASES)
def test_objective_on_degenerate_batches_is_finite(name: str, degenerate: Tensor) -> None:
    objective = RadialVICRegLoss(**CASES[name])
    _assert_finite_with_gradient(lambda z: objective(z, z * 0.5), degenerate)
    assert all(torch.isfinite(term) for term in objective.terms.values()), objective.terms


@every_loss
@settings(derandomize=True)
@given(seed=st.integers(0, 2**16), count=st.integers(2, 20), dim=st.integers(1, 24))
def test_order_of_samples_does_not_matter(name: str, seed: int, count: int, dim: int) -> None:
    z = _random(count, dim, seed)
    shuffled = z[torch.randperm(count, generator=torch.Generator().manual_seed(seed))]
    torch.testing.assert_close(ONE_VIEW[name](shuffled), ONE_VIEW[name](z), rtol=1e-9, atol=1e-9)


@radial_losses
@settings(derandomize=True)
@given(seed=st.integers(0, 2**16), count=st.integers(2, 20), dim=st.integers(1, 24))
def test_rotation_does_not_change_radial_losses(name: str, seed: int, count: int, dim: int) -> None:
    z = _random(count, dim, seed)
    rotation = torch.linalg.qr(_random(dim, dim, seed + 1)).Q
    # m-spacings of two nearly equal radii amplify the rounding of the rotation.
    torch.testing.assert_close(ONE_VIEW[name](z @ rotation), ONE_VIEW[name](z), rtol=1e-7, atol=1e-7)


@every_loss
@pytest.mark.parametrize(
    ("z", "message"),
    [
        (torch.zeros(4), r"z: expected shape \(N, d\), got \(4,\)"),
        (torch.zeros(2, 3, 4), r"z: expected shape \(N, d\), got \(2, 3, 4\)"),
        (torch.zeros(1, 3), r"z: at least 2 samples are needed, got shape \(1, 3\)"),
        (torch.zeros(3, 0), r"z: at least 1 dimension is needed"),
        (
            torch.zeros(3, 2, dtype=torch.int64),
            "z: expected float16, bfloat16, float32 or float64, got torch.int64",
        ),
        (torch.zeros(3, 2, dtype=torch.complex64), "got torch.complex64"),
        ([[1.0, 2.0], [3.0, 4.0]], r"z: expected a torch.Tensor of shape \(N, d\), got list"),
        (torch.tensor([[1.0, float("nan")], [float("inf"), 2.0]]), "z: 2 of 4 values are not finite"),
    ],
    ids=["1-D", "3-D", "one_sample", "no_dimension", "integer", "complex", "list", "not_finite"],
)
def test_wrong_input_is_refused_with_words(name: str, z: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ONE_VIEW[name](z)


def test_views_of_different_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"z1 and z2 must have one shape.*\(4, 3\) and \(4, 2\)"):
        losses.invariance_loss(torch.zeros(4, 3), torch.zeros(4, 2))


def test_non_finite_view_is_named_by_the_invariance() -> None:
    with pytest.raises(ValueError, match="z2: 3 of 12 values are not finite"):
        losses.invariance_loss(torch.zeros(4, 3), torch.zeros(4, 3).index_fill(0, torch.tensor([1]), torch.inf))
