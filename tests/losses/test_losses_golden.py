"""Every loss against values from an independent float64 program."""

from __future__ import annotations

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


def _views(case: dict[str, Any], dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor(case["z1"], dtype=dtype), torch.tensor(case["z2"], dtype=dtype)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("name", PER_VIEW)
def test_loss_of_one_view_equals_the_golden_value(name: str, dtype: torch.dtype, golden: dict[str, Any]) -> None:
    for index, z in enumerate(_views(golden, dtype)):
        value = PER_VIEW[name](z, golden, index)
        assert value.dtype == dtype
        assert value.shape == ()
        expected = golden["expected"][name][index]
        tolerance = TOLERANCE[dtype]
        if (name, golden["name"], dtype) == ("e2mc_mean_marginal_entropy", "inflated", torch.float32):
            tolerance = 0.1  # the sigmoid of values near 50 is 1 in float32: spacings are lost there
        # Absolute below 1: entropies pass through zero, where a relative error means nothing.
        assert value.item() == pytest.approx(expected, rel=tolerance, abs=tolerance)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_invariance_equals_the_golden_value(dtype: torch.dtype, golden: dict[str, Any]) -> None:
    value = losses.invariance_loss(*_views(golden, dtype))
    assert value.item() == pytest.approx(golden["expected"]["invariance"], rel=TOLERANCE[dtype])


def test_chi_constant_equals_the_golden_value(golden: dict[str, Any]) -> None:
    assert chi_log_normalizer(golden["d"]) == pytest.approx(golden["expected"]["chi_constant"], rel=1e-12)


def test_radial_kl_is_cross_entropy_plus_constant_minus_entropy(golden: dict[str, Any]) -> None:
    expected = golden["expected"]
    for index, z in enumerate(_views(golden, torch.float64)):
        kl = expected["chi_cross_entropy"][index] + expected["chi_constant"] - expected["m_spacing_entropy"][index]
        assert losses.radial_kl(z, golden["m"]).item() == pytest.approx(kl, rel=1e-10, abs=1e-10)


def test_e2mc_is_weighted_hypercovariance_minus_entropy(golden: dict[str, Any]) -> None:
    expected = golden["expected"]
    for index, z in enumerate(_views(golden, torch.float64)):
        value = 0.1 * expected["e2mc_hypercovariance"][index] - expected["e2mc_mean_marginal_entropy"][index]
        assert losses.e2mc_loss(z).item() == pytest.approx(value, rel=1e-10)


def test_gaussianization_loss_summed_over_views_equals_the_golden_value(golden: dict[str, Any]) -> None:
    value = sum(
        losses.radial_gaussianization_loss(z, ce_weight=1.0, ent_weight=0.1, m=golden["m"])
        for z in _views(golden, torch.float64)
    )
    assert float(value) == pytest.approx(golden["expected"]["radial_b1_1_b2_0.1"], rel=1e-10)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_objective_equals_the_golden_composite(dtype: torch.dtype, golden: dict[str, Any]) -> None:
    objective = RadialVICRegLoss(
        radial_ce_loss_weight=1.0,
        radial_ent_loss_weight=0.1,
        radial_ce_normalize=False,
        radial_spacing=golden["m"],
    )
    total = objective(*_views(golden, dtype))
    expected = golden["expected"]
    # The composites are sums of terms of either sign: tolerance relative to the larger part.
    scale = abs(expected["vicreg_25_25_1"]) + abs(expected["radial_b1_1_b2_0.1"])
    tolerance = TOLERANCE[dtype] * scale
    assert total.item() == pytest.approx(expected["radial_vicreg"], abs=tolerance)
    assert objective.terms["vicreg_loss"].item() == pytest.approx(expected["vicreg_25_25_1"], abs=tolerance)
    assert objective.terms["radial_loss"].item() == pytest.approx(expected["radial_b1_1_b2_0.1"], abs=tolerance)
