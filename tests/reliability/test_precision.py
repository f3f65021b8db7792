"""Finite losses and gradients at every scale and precision, and through hundreds of steps at the strongest setting."""

from __future__ import annotations

import pytest
import torch
from objectives import CASES
from torch import Tensor, nn

from radial_vicreg.losses import RadialVICRegLoss

FULL_RANGE = [10.0**exponent for exponent in (-6, -3, 0, 3, 6)]
SCALES = {
    torch.float32: FULL_RANGE,
    torch.bfloat16: FULL_RANGE,
    torch.float16: [10.0**exponent for exponent in (-3, 0, 3)],
}
DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.gpu),
]


def two_views(shape: tuple[int, int], scale: float, dtype: torch.dtype, device: str) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(shape, generator=generator) * scale
    views = (z, z + 0.1 * scale * torch.randn(shape, generator=generator))
    return [view.to(device, dtype).requires_grad_() for view in views]


def assert_finite(loss: Tensor, views: list[Tensor], objective: RadialVICRegLoss) -> None:
    loss.backward()
    bad = [name for name, term in objective.terms.items() if not bool(term.isfinite())]
    assert not bad
    for view in views:
        assert view.grad is not None
        assert bool(view.grad.isfinite().all())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", [(8, 32), (32, 8)], ids=["fewer_samples_than_d", "more_samples_than_d"])
@pytest.mark.parametrize(("dtype", "scale"), [(dtype, scale) for dtype, scales in SCALES.items() for scale in scales])
@pytest.mark.parametrize("name", CASES)
def test_every_objective_is_finite_at_every_scale(
    name: str, dtype: torch.dtype, scale: float, shape: tuple[int, int], device: str
) -> None:
    views = two_views(shape, scale, dtype, device)
    objective = RadialVICRegLoss(**CASES[name])
    loss = objective(*views)
    assert bool(loss.isfinite())
    if dtype == torch.float16:
        # In float32, as the loss computes it. The covariance's gradient grows with the cube of the scale: float16
        # cannot hold it at 1e3, and saturating it would hide the overflow from the gradient scaler, which skips it.
        views = [view.detach().float().requires_grad_() for view in views]
        loss = objective(*views)
    assert_finite(loss, views, objective)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CASES)
def test_one_outlier_of_ten_thousand_leaves_the_loss_finite(name: str, device: str) -> None:
    views = two_views((16, 32), 1.0, torch.float32, device)
    with torch.no_grad():
        views[0][3, 5] = 1e4
    objective = RadialVICRegLoss(**CASES[name])
    assert_finite(objective(*views), views, objective)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kl", "wasserstein"])
@pytest.mark.parametrize("kind", ["tied radii", "all equal", "all zero"])
def test_degenerate_batches_are_finite_when_compiled(kind: str, name: str) -> None:
    z = two_views((16, 8), 1.0, torch.float32, "cpu")[0].detach()
    if kind == "tied radii":
        z = 3 * z / z.norm(dim=1, keepdim=True)
    elif kind == "all equal":
        z = z[:1].repeat(16, 1)
    else:
        z = torch.zeros_like(z)
    eager, compiled = [[z.clone().requires_grad_() for _ in range(2)] for _ in range(2)]
    objective = RadialVICRegLoss(**CASES[name])
    fast = torch.compile(RadialVICRegLoss(**CASES[name]))
    assert_finite(objective(*eager), eager, objective)
    loss = fast(*compiled)
    loss.backward()
    torch.testing.assert_close(loss, objective.terms["loss"], rtol=1e-4, atol=1e-5)
    for view in compiled:
        assert view.grad is not None
        assert bool(view.grad.isfinite().all())


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
