"""docs/objective.md maps the arguments of other libraries' VICRegLoss to ours: the same numbers come out."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from radial_vicreg.losses import RadialVICRegLoss
from radial_vicreg.losses.vicreg import VARIANCE_EPS

DOCUMENT = Path(__file__).parents[2] / "docs" / "objective.md"
#: Arguments of the same meaning by ours.
LIGHTLY = {"sim_loss_weight": "lambda_param", "var_loss_weight": "mu_param", "cov_loss_weight": "nu_param"}
STABLE_PRETRAINING = {"sim_loss_weight": "sim_coeff", "var_loss_weight": "std_coeff", "cov_loss_weight": "cov_coeff"}


def _value_and_gradients(loss: nn.Module, shape: tuple[int, int]) -> list[Tensor]:
    first, noise = torch.randn(2, *shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    views = [z.requires_grad_() for z in (0.5 * first, 0.5 * first + 0.3 * noise)]
    value = loss(*views)
    return [value.detach(), *torch.autograd.grad(value, views)]


@pytest.mark.parametrize("weights", [(25.0, 25.0, 1.0), (10.0, 7.0, 0.5)], ids=["defaults", "others"])
@pytest.mark.parametrize(
    ("library", "names"), [("lightly.loss", LIGHTLY), ("stable_pretraining.losses", STABLE_PRETRAINING)]
)
def test_the_arguments_of_a_library_map_to_ours(
    library: str, names: dict[str, str], weights: tuple[float, float, float]
) -> None:
    pytest.importorskip(library)
    theirs = importlib.import_module(library).VICRegLoss(**dict(zip(names.values(), weights, strict=True)))
    ours = dict(zip(names, weights, strict=True))
    ours["var_loss_weight"] /= 2  # theirs is the mean of the two views
    loss = RadialVICRegLoss(radial_objective="none", **ours)
    for shape in ((64, 16), (16, 64), (32, 32)):
        found, expected = (_value_and_gradients(each, shape) for each in (loss, theirs))
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-13)


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


def test_lightly_s_defaults_are_those_of_the_table() -> None:
    lightly = pytest.importorskip("lightly.loss")
    defaults = {name: p.default for name, p in inspect.signature(lightly.VICRegLoss).parameters.items()}
    weights = dict(zip(LIGHTLY.values(), (25.0, 25.0, 1.0), strict=True))
    assert defaults == {**weights, "gather_distributed": False, "eps": VARIANCE_EPS}


def test_the_table_names_every_argument_with_ours() -> None:
    rows = [line.strip("|").split("|") for line in DOCUMENT.read_text().splitlines() if line.startswith("| `")]
    table = {row[0].strip(" `"): row[1:] for row in rows if len(row) == 4 and row[0].strip(" `").islower()}
    ours: dict[str, Any] = dict(inspect.signature(RadialVICRegLoss).parameters)
    for name in LIGHTLY:
        lightly, stable_pretraining, default = table[name]
        assert f"`{LIGHTLY[name]}`" in lightly, name
        assert f"`{STABLE_PRETRAINING[name]}`" in stable_pretraining, name
        assert float(re.findall(r"[\d.]+", default)[0]) == ours[name].default, name
    assert "true" in table["gather_distributed"][2]
    assert ours["gather_distributed"].default is True
