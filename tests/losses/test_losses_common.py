"""What holds for every loss: derivatives, dtypes, scales, degenerate batches, refused input."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from objectives import CASES, FUNCTIONS
from torch import Tensor

from radial_vicreg import losses
from radial_vicreg.losses import RadialVICRegLoss

#: Every objective, as a function of three views in one tensor; in evaluation mode its draws stand still.
OBJECTIVES = {f"objective {name}": RadialVICRegLoss(**arguments).eval() for name, arguments in CASES.items()}
EVERY = {**FUNCTIONS, **OBJECTIVES}

functions = pytest.mark.parametrize("name", FUNCTIONS)
every_loss = pytest.mark.parametrize("name", EVERY)

#: Batches that a network really produces when it collapses, and the smallest legal ones.
DEGENERATE = {
    "all zero": torch.zeros(8, 5),
    "all equal": torch.full((8, 5), 0.3),
    "rank one": torch.linspace(-1, 1, 8)[:, None] * torch.tensor([1.0, -2.0, 0.5, 3.0, 0.1]),
    "one zero row": torch.cat((torch.zeros(1, 5), torch.arange(35.0).reshape(7, 5) / 35)),
    "tied radii": torch.eye(5).repeat(2, 1),
    "one dimension": torch.linspace(-2, 2, 9)[:, None],
    "two samples": torch.tensor([[1.0, 2.0, 3.0], [-1.0, 0.5, 2.0]]),
    "wide": torch.linspace(-3, 3, 4 * 40).sin().reshape(4, 40),
    "saturated sigmoid": torch.tensor([[1e6, -1e6], [1e6, -1e6], [-1e6, 1e6], [0.0, 0.0]]),
}


def _random(name: str, count: int, dim: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """What a loss takes: a view, or three of them."""
    shape = (3, count, dim) if name in OBJECTIVES else (count, dim)
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


@every_loss
def test_derivatives_equal_finite_differences(name: str) -> None:
    for shape in ((5, 3), (3, 5), (6, 1)):
        z = (0.8 * _random(name, *shape, seed=1)).requires_grad_()
        assert torch.autograd.gradcheck(EVERY[name], (z,), eps=1e-7, atol=1e-4, rtol=1e-3, fast_mode=True), shape
        assert torch.autograd.gradgradcheck(EVERY[name], (z,), eps=1e-7, atol=1e-4, rtol=1e-3, fast_mode=True), shape


@every_loss
def test_half_precision_and_autocast_are_computed_in_float32(name: str) -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        z = _random(name, 12, 30, dtype=dtype)
        expected = EVERY[name](z.float())
        with torch.autocast("cpu", dtype=torch.bfloat16):
            under_autocast = EVERY[name](z)
        for value in (EVERY[name](z), under_autocast):
            assert value.dtype == torch.float32
            assert torch.equal(value, expected)


def _assert_finite_with_gradient(function: Callable[[Tensor], Tensor], z: Tensor) -> None:
    z = z.clone().requires_grad_()
    value = function(z)
    value.backward()
    assert torch.isfinite(value), f"value {value.item()}"
    assert z.grad is not None
    assert torch.isfinite(z.grad).all(), "gradient is not finite"


@functions
@settings(derandomize=True, max_examples=25)
@given(seed=st.integers(0, 2**16), count=st.integers(2, 64), dim=st.integers(1, 64), exponent=st.floats(-6, 6))
def test_scales_from_1e_minus_6_to_1e6_are_finite_in_float32(
    name: str, seed: int, count: int, dim: int, exponent: float
) -> None:
    _assert_finite_with_gradient(FUNCTIONS[name], _random(name, count, dim, seed, torch.float32) * 10.0**exponent)


@every_loss
def test_degenerate_batches_give_finite_values_and_gradients(name: str) -> None:
    scales = torch.tensor([1.0, 0.5, -2.0])[:, None, None] if name in OBJECTIVES else 1.0
    for kind, z in DEGENERATE.items():
        for dtype in (torch.float32, torch.float64):
            _assert_finite_with_gradient(EVERY[name], (scales * z).to(dtype))
            terms = OBJECTIVES[name].terms if name in OBJECTIVES else {}
            assert all(torch.isfinite(term) for term in terms.values()), (kind, dtype, terms)


#: Input that no function of one view takes, by the error it raises.
WRONG = {
    r"z: expected shape \(N, d\), got \(4,\)": torch.zeros(4),
    r"z: at least 2 samples are needed, got shape \(1, 3\)": torch.zeros(1, 3),
    r"z: at least 1 dimension is needed": torch.zeros(3, 0),
    r"z: expected float16, bfloat16, float32 or float64, got torch.int64": torch.zeros(3, 2, dtype=torch.int64),
    r"z: expected a torch.Tensor of shape \(N, d\), got list": [[1.0, 2.0], [3.0, 4.0]],
    r"z: expected values, got a tensor on the meta device": torch.empty(12, 5, device="meta"),
    r"z: 2 of 4 values are not finite": torch.tensor([[1.0, torch.nan], [torch.inf, 2.0]]),
}


@functions
def test_wrong_input_is_refused_with_words(name: str) -> None:
    for message, z in WRONG.items():
        with pytest.raises(ValueError, match=message):
            FUNCTIONS[name](z)  # type: ignore[arg-type]


def test_wrong_pairs_are_refused_with_words() -> None:
    good = torch.zeros(4, 3)
    for message, other in {
        r"z1 and z2 must have one shape.*\(4, 3\) and \(4, 2\)": torch.zeros(4, 2),
        "z2: 3 of 12 values are not finite": good.index_fill(0, torch.tensor([1]), torch.inf),
        "z2: expected values, got a tensor on the meta device": good.to("meta"),
    }.items():
        with pytest.raises(ValueError, match=message):
            losses.invariance_loss(good, other)
