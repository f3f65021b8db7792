"""What dividing radii and targets by sqrt(d - 1) does to the distances, as the docstrings say."""

from __future__ import annotations

import math

import pytest
import torch

from radial_vicreg.losses import radial_wasserstein_loss
from radial_vicreg.losses.radial import reverse_kl_of

DIM = 32
SCALE = math.sqrt(DIM - 1)


@pytest.fixture
def z() -> torch.Tensor:
    return 0.7 * torch.randn(64, DIM, dtype=torch.float64)


def test_the_wasserstein_distance_is_divided_as_well(z: torch.Tensor) -> None:
    targets = torch.randn(64, DIM, dtype=torch.float64).norm(dim=1)
    divided = radial_wasserstein_loss(z / SCALE, targets / SCALE)
    assert divided.item() == pytest.approx(radial_wasserstein_loss(z, targets).item() / SCALE, rel=1e-12)


@pytest.mark.parametrize("bandwidth", [None, 0.5], ids=["Silverman", "fixed"])
def test_the_reverse_kl_loses_a_constant(z: torch.Tensor, bandwidth: float | None) -> None:
    targets = torch.randn(512, DIM, dtype=torch.float64).norm(dim=1)
    narrower = None if bandwidth is None else bandwidth / SCALE
    whole = reverse_kl_of(z.norm(dim=1), targets, bandwidth)
    divided = reverse_kl_of(z.norm(dim=1) / SCALE, targets / SCALE, narrower)
    assert divided.item() == pytest.approx(whole.item() - 0.5 * math.log(DIM - 1), rel=1e-9)
