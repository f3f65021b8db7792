"""Every loss against values from an independent float64 program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from radial_vicreg import losses
from radial_vicreg.losses import RadialVICRegLoss
from radial_vicreg.losses._chi import chi_log_normalizer

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}

#: name in the golden file -> value for one view (tensor, case, index of the view)
PER_VIEW = {
    "variance": lambda z, case, i: losses.variance_loss(z),
    "covariance": lambda z, case, i: losses.covariance_loss(z),
    "chi_cross_entropy": lambda z, case, i: losses.chi_cross_entropy(z),
    "m_spacing_entropy": lambda z, case, i: losses.m_spacing_entropy(z.norm(dim=1), case["m"]),
    "w1_to_chi_quantiles": lambda z, case, i: losses.radial_wasserstein_loss(z, "quantiles"),
    "w1_to_given_samples": lambda z, case, i: losses.radial_wasserstein_loss(
        z, torch.tensor(case["chi_samples"][i], dtype=z.dtype)
    ),
    "e2mc_mean_marginal_entropy": lambda z, case, i: losses.marginal_entropy(z),
    "e2mc_hypercovariance": lambda z, case, i: losses.hypercovariance_loss(z),
}


CASES: list[dict[str, Any]] = json.loads((Path(__file__).parents[1] / "golden" / "losses.json").read_text())["cases"]

each_case = pytest.mark.parametrize("golden", CASES, ids=lambda case: case["name"])


def _views(case: dict[str, Any], dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor(case["z1"], dtype=dtype), torch.tensor(case["z2"], dtype=dtype)


@each_case
def test_losses_of_one_view_and_of_a_pair_equal_the_golden_values(golden: dict[str, Any]) -> None:
    expected = golden["expected"]
    for dtype, usual in TOLERANCE.items():
        views = _views(golden, dtype)
        invariance = losses.invariance_loss(*views)
        assert (invariance.dtype, invariance.shape) == (dtype, ())
        assert invariance.item() == pytest.approx(expected["invariance"], rel=usual)
        for name, function in PER_VIEW.items():
            tolerance = usual
            if (name, golden["name"], dtype) == ("e2mc_mean_marginal_entropy", "inflated", torch.float32):
                tolerance = 0.1  # the sigmoid of values near 50 is 1 in float32: spacings are lost there
            for index, z in enumerate(views):
                value = function(z, golden, index)
                assert (value.dtype, value.shape) == (dtype, ()), name
                # Absolute below 1: entropies pass through zero, where a relative error means nothing.
                assert value.item() == pytest.approx(expected[name][index], rel=tolerance, abs=tolerance), name


@each_case
def test_sums_of_the_radial_losses_and_e2mc_equal_those_of_the_golden_values(golden: dict[str, Any]) -> None:
    expected, views = golden["expected"], _views(golden, torch.float64)
    assert chi_log_normalizer(golden["d"]) == pytest.approx(expected["chi_constant"], rel=1e-12)
    for index, z in enumerate(views):
        kl = expected["chi_cross_entropy"][index] + expected["chi_constant"] - expected["m_spacing_entropy"][index]
        assert losses.radial_kl(z, golden["m"]).item() == pytest.approx(kl, rel=1e-10, abs=1e-10)
        e2mc = 0.1 * expected["e2mc_hypercovariance"][index] - expected["e2mc_mean_marginal_entropy"][index]
        assert losses.e2mc_loss(z).item() == pytest.approx(e2mc, rel=1e-10)
    total = sum(losses.radial_gaussianization_loss(z, ce_weight=1.0, ent_weight=0.1, m=golden["m"]) for z in views)
    assert float(total) == pytest.approx(expected["radial_b1_1_b2_0.1"], rel=1e-10)


@each_case
def test_objective_equals_the_golden_composite(golden: dict[str, Any]) -> None:
    expected = golden["expected"]
    vicreg, radial = expected["vicreg_25_25_1"], expected["radial_b1_1_b2_0.1"]
    weights = {"radial_ce_loss_weight": 1.0, "radial_ent_loss_weight": 0.1, "radial_ce_normalize": False}
    for dtype, tolerance in TOLERANCE.items():
        objective = RadialVICRegLoss(**weights, radial_spacing=golden["m"])
        total = objective(*_views(golden, dtype))
        # The composites are sums of terms of either sign: tolerance relative to the larger part.
        near = tolerance * (abs(vicreg) + abs(radial))
        assert total.item() == pytest.approx(expected["radial_vicreg"], abs=near)
        assert objective.terms["vicreg_loss"].item() == pytest.approx(vicreg, abs=near)
        assert objective.terms["radial_loss"].item() == pytest.approx(radial, abs=near)
