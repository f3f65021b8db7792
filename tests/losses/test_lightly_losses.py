"""The adapters around lightly's classes: the same numbers, with named terms."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from torch import Tensor

from radial_vicreg.lightly_losses import BarlowTwinsLoss, LeJEPALoss, VISRegLoss

lightly = pytest.importorskip("lightly.loss")


@pytest.fixture
def views() -> Tensor:
    return torch.randn(5, 16, 8, requires_grad=True)


def seeded(loss: Any, *views: Tensor, **named: Tensor) -> Any:
    torch.manual_seed(3)
    return loss(*views, **named)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (LeJEPALoss(num_slices=32), lightly.LeJEPALoss(sigreg_num_vectors=32)),
        (VISRegLoss(num_slices=32), lightly.VISRegLoss(num_slices=32)),
    ],
    ids=["LeJEPA", "VISReg"],
)
def test_global_and_local_views_give_lightly_s_loss(ours: Any, theirs: Any, views: Tensor) -> None:
    found = seeded(ours, *views)["loss"]
    expected = seeded(theirs, global_proj=views[:2], local_proj=views[2:])
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)
    torch.testing.assert_close(torch.autograd.grad(found, views), torch.autograd.grad(expected, views))


def test_two_views_need_no_local_ones(views: Tensor) -> None:
    z1, z2 = views[:2]
    lejepa = seeded(LeJEPALoss(num_slices=32, lambda_param=0.25), z1, z2)
    assert float(lejepa["invariance"]) == pytest.approx(float((z1 - z2).square().mean()) / 4)
    assert float(lejepa["loss"]) == pytest.approx(float(0.25 * lejepa["sigreg"] + 0.75 * lejepa["invariance"]))
    visreg = seeded(VISRegLoss(num_slices=32, lambda_param=0.25), z1, z2)
    regulariser = visreg["scale"] + visreg["shape"] + visreg["center"]
    assert float(visreg["loss"]) == pytest.approx(float(0.25 * regulariser + 0.75 * visreg["invariance"]))
    assert float(visreg["invariance"]) == pytest.approx(float(lejepa["invariance"]))


def test_barlow_twins_is_lightly_s(views: Tensor) -> None:
    assert torch.equal(BarlowTwinsLoss()(views[0], views[1]), lightly.BarlowTwinsLoss()(views[0], views[1]))


@pytest.mark.parametrize(
    ("ours", "theirs", "names"),
    [
        (LeJEPALoss, lightly.LeJEPALoss, {"num_slices": "sigreg_num_vectors", "lambda_param": "lambda_param"}),
        (VISRegLoss, lightly.VISRegLoss, {"num_slices": "num_slices", "lambda_param": "lambda_param"}),
        (BarlowTwinsLoss, lightly.BarlowTwinsLoss, {"lambda_param": "lambda_param"}),
    ],
)
def test_defaults_are_those_of_each_paper_as_lightly_has_them(ours: Any, theirs: Any, names: dict[str, str]) -> None:
    own, other = (inspect.signature(loss).parameters for loss in (ours, theirs))
    assert [own[name].default for name in names] == [other[name].default for name in names.values()]


@pytest.mark.parametrize("loss", [LeJEPALoss, VISRegLoss])
def test_the_number_of_global_views_is_checked(loss: Any) -> None:
    for count in (0, 1.5, True):
        with pytest.raises(ValueError, match="global_views must be an integer of 1 or more, got"):
            loss(global_views=count)
