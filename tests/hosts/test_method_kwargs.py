"""Checks of ``method_kwargs``."""

from __future__ import annotations

from typing import Any

import pytest

from radial_vicreg.hosts.method_kwargs import DEFAULTS, check_method_kwargs

DIMS = {"proj_hidden_dim": 8, "proj_output_dim": 8}


def test_defaults_are_the_papers() -> None:
    filled = check_method_kwargs(DIMS)
    assert filled == {**DEFAULTS, **DIMS}
    assert filled["sim_loss_weight"] == filled["var_loss_weight"] == 25
    assert filled["cov_loss_weight"] == 1
    assert filled["radial_objective"] == "kl"
    assert filled["radial_ce_loss_weight"] == 100
    assert filled["radial_ent_loss_weight"] == 0
    assert filled["radial_ce_normalize"] is True
    assert filled["radial_center"] is False
    assert filled["small_image_stem"] == "auto"


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"radial_ce_weight": 1}, "radial_ce_weight is not a setting.*did you mean 'radial_ce_loss_weight'"),
        ({"zzz": 1}, "zzz is not a setting of radialvicreg; known keys"),
        ({"proj_output_dim": 0}, "proj_output_dim must be a whole number of 1 or more, got 0"),
        ({"proj_output_dim": None}, "proj_output_dim must be a whole number of 1 or more, got None"),
        ({"proj_hidden_dim": 8.5}, "proj_hidden_dim must be a whole number"),
        ({"proj_hidden_dim": True}, "proj_hidden_dim must be a whole number"),
        ({"radial_objective": "klx"}, "radial_objective.*klx"),
        ({"radial_ce_loss_weight": -1}, "radial_ce_loss_weight.*-1"),
        ({"sim_loss_weight": float("nan")}, "sim_loss_weight"),
        ({"radial_spacing": 0}, "radial_spacing.*0"),
        ({"radial_w1_target": "means"}, "radial_w1_target.*means"),
        ({"small_image_stem": "sometimes"}, "small_image_stem must be auto, true or false, got 'sometimes'"),
    ],
)
def test_errors_name_the_key_and_the_value(kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_method_kwargs({**DIMS, **kwargs})
