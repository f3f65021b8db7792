"""Finite losses and gradients at every scale and precision, and through hundreds of steps at the strongest setting."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from objectives import CASES
from torch import Tensor, nn

from radial_vicreg.losses import RadialVICRegLoss

#: Decades on either side of 1 at which embeddings may be.
SCALES = {"float32": 6.0, "bfloat16": 6.0, "float16": 3.0}
DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.gpu),
]


def two_views(shape: tuple[int, int], scale: float, dtype: torch.dtype, device: str) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(shape, generator=generator) * scale
    views = (z, z + 0.1 * scale * torch.randn(shape, generator=generator))
    return [view.to(device, dtype).requires_grad_() for view in views]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CASES)
@settings(max_examples=15)  # also in the slow tests: each run has other ones
@given(
    precision=st.sampled_from([*SCALES]),
    place=st.floats(-1, 1),
    shape=st.sampled_from([(8, 32), (32, 8)]),
    outlier=st.booleans(),
)
def test_every_objective_is_finite_at_every_scale_and_with_an_outlier(
    name: str, device: str, precision: str, place: float, shape: tuple[int, int], outlier: bool
) -> None:
    objective, dtype = RadialVICRegLoss(**CASES[name]), getattr(torch, precision)
    views = two_views(shape, 10.0 ** (place * SCALES[precision]), dtype, device)
    if outlier:
        with torch.no_grad():
            views[0][3, 5] = 1e4
    loss = objective(*views)
    assert bool(loss.isfinite())
    if dtype == torch.float16:
        # In float32, as the loss computes it. The covariance's gradient grows with the cube of the scale: float16
        # cannot hold it at 1e3, and saturating it would hide the overflow from the gradient scaler, which skips it.
        views = [view.detach().float().requires_grad_() for view in views]
        loss = objective(*views)
    loss.backward()
    assert not [name for name, term in objective.terms.items() if not bool(term.isfinite())]
    for view in views:
        assert view.grad is not None
        assert bool(view.grad.isfinite().all())


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_500_steps_at_the_strongest_setting_stay_finite_and_reach_the_sphere(precision: str, device: str) -> None:
    if precision == "float16" and device == "cpu":
        pytest.skip("float16 training needs a GPU")
    torch.manual_seed(0)
    dim, dtype = 64, getattr(torch, precision)
    network = nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, dim)).to(device)
    # The paper's recipe in small: plain steps with momentum for the bias that meets the whole radial gradient.
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1e-3, total_iters=250)
    scaler = torch.amp.GradScaler(device, enabled=precision == "float16")
    objective = RadialVICRegLoss(radial_ce_loss_weight=100.0)
    radii = []
    for _ in range(500):
        x = torch.randn(64, 16, device=device)
        with torch.autocast(device, dtype=dtype, enabled=precision != "float32"):
            z1, z2 = network(x), network(x + 0.1 * torch.randn_like(x))
        loss = objective(z1, z2)
        assert bool(loss.isfinite())
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        radii.append(objective.terms["radius_mean"])
    assert all(bool(parameter.isfinite().all()) for parameter in network.parameters())
    assert float(torch.stack(radii[-50:]).mean()) == pytest.approx((dim - 1) ** 0.5, rel=0.05)
