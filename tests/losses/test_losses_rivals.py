"""docs/objective.md maps the arguments of other libraries' VICRegLoss to ours: the same numbers come out."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from radial_vicreg.losses import RadialVICRegLoss
from radial_vicreg.losses.vicreg import VARIANCE_EPS

DOCUMENT = Path(__file__).parents[2] / "docs" / "objective.md"
#: Arguments of the same meaning in lightly and in stable-pretraining, by ours.
COLUMNS = {
    "sim_loss_weight": ("lambda_param", "sim_coeff"),
    "var_loss_weight": ("mu_param", "std_coeff"),
    "cov_loss_weight": ("nu_param", "cov_coeff"),
}
SIZES = [(64, 16), (16, 64), (32, 32)]


def _table() -> dict[str, list[str]]:
    """Rows of the table of arguments, by their first cell."""
    lines = [line for line in DOCUMENT.read_text().splitlines() if line.startswith("| ")]
    start = next(number for number, line in enumerate(lines) if "lightly" in line and "stable-pretraining" in line)
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[start:]]
    return {row[0].strip("`"): row[1:] for row in cells if len(row) == len(cells[0])}


def _views(count: int, dim: int) -> Iterator[Tensor]:
    generator = torch.Generator().manual_seed(count)
    z = 0.5 * torch.randn(count, dim, generator=generator, dtype=torch.float64)
    yield z.requires_grad_()
    yield (z.detach() + 0.3 * torch.randn(count, dim, generator=generator, dtype=torch.float64)).requires_grad_()


def _value_and_gradients(loss: nn.Module, count: int, dim: int) -> list[Tensor]:
    views = list(_views(count, dim))
    value = loss(*views)
    return [value.detach(), *torch.autograd.grad(value, views)]


def _equal(theirs: nn.Module, ours: RadialVICRegLoss) -> None:
    for count, dim in SIZES:
        found, expected = (_value_and_gradients(loss, count, dim) for loss in (ours, theirs))
        for mine, other in zip(found, expected, strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-10, atol=1e-13)


def _mapped(similarity: float, variance: float, covariance: float) -> RadialVICRegLoss:
    """Ours with arguments of theirs: both halve the variance, since they take the mean of the two views."""
    return RadialVICRegLoss(
        radial_objective="none",
        sim_loss_weight=similarity,
        var_loss_weight=variance / 2,
        cov_loss_weight=covariance,
    )


@pytest.mark.parametrize("weights", [(25.0, 25.0, 1.0), (10.0, 7.0, 0.5)], ids=["defaults", "others"])
def test_lightly_s_arguments_map_to_ours(weights: tuple[float, float, float]) -> None:
    lightly = pytest.importorskip("lightly.loss")
    theirs = lightly.VICRegLoss(lambda_param=weights[0], mu_param=weights[1], nu_param=weights[2])
    _equal(theirs, _mapped(*weights))


@pytest.mark.parametrize("weights", [(25.0, 25.0, 1.0), (10.0, 7.0, 0.5)], ids=["defaults", "others"])
def test_stable_pretraining_s_arguments_map_to_ours(weights: tuple[float, float, float]) -> None:
    spt = pytest.importorskip("stable_pretraining.losses")
    _equal(spt.VICRegLoss(*weights), _mapped(*weights))


def test_lightly_s_defaults_are_those_of_the_table() -> None:
    lightly = pytest.importorskip("lightly.loss")
    defaults = {name: p.default for name, p in inspect.signature(lightly.VICRegLoss).parameters.items()}
    assert defaults == {
        "lambda_param": 25.0,
        "mu_param": 25.0,
        "nu_param": 1.0,
        "gather_distributed": False,
        "eps": VARIANCE_EPS,
    }


def test_the_table_names_every_argument_with_ours() -> None:
    table = _table()
    ours: dict[str, Any] = dict(inspect.signature(RadialVICRegLoss).parameters)
    for name, (lightly, spt) in COLUMNS.items():
        cells = table[name]
        assert f"`{lightly}`" in cells[0], name
        assert f"`{spt}`" in cells[1], name
        assert float(re.findall(r"[\d.]+", cells[2])[0]) == ours[name].default, name
    gather = table["gather_distributed"]
    assert "false" in gather[0]
    assert "true" in gather[2]
    assert ours["gather_distributed"].default is True
