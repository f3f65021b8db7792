"""Which method goes with which loss and with how many views, and what makes two of them one experiment."""

from __future__ import annotations

from typing import Any

import pytest
from configs import plain_config

from radial_vicreg import cli
from radial_vicreg.compose import compose, run_config
from radial_vicreg.config import read_config
from radial_vicreg.errors import UserError
from radial_vicreg.names.terms import LOSS_DEFAULTS
from radial_vicreg.runs.identity import config_hash

OWN: dict[str, Any] = {"method": "mine", "loss": {"_target_": "my.Loss", "weight": 1.0}}
FOLDER = ["radialvicreg/dataset=folder", "data.train_path=images"]


def test_what_does_not_go_together_is_refused() -> None:
    for changes, said in [
        ({"method": "lejepa"}, "method=lejepa needs a loss: radialvicreg/method=lejepa sets one"),
        ({**OWN, "method": "vicreg"}, "method=vicreg has its own loss: .* choose another name"),
        ({**OWN, "method": "kl"}, "method=kl is the name of a radial objective"),
        ({**OWN, "loss": {"weight": 1.0}}, "loss must be a section with _target_, the class of the loss.*got"),
        ({**OWN, "loss": "my.Loss"}, "loss must be a section with _target_.*got 'my.Loss'"),
        ({**OWN, "loss": {"_target_": 3}}, "loss must be a section with _target_"),
        ({**OWN, "loss_views": "three"}, "loss_views must be one of pair, all, got 'three'"),
        ({"loss_views": "all"}, "loss_views applies only to a custom loss: method=vicreg always uses every view"),
        ({**OWN, "method_kwargs__sim_loss_weight": 3.0}, "method_kwargs.sim_loss_weight is not read by loss._target_"),
        ({**OWN, "augmentations__0__num_crops": 3}, "loss_views=pair calls the loss with 2 views.* give 3"),
        ({"augmentations__0__num_crops": 1}, "must give 2 or more crops, got 1: correct num_crops"),
    ]:
        with pytest.raises(UserError, match=said):
            read_config(plain_config(**changes))


def test_small_crops_come_last() -> None:
    content = plain_config()
    small = {**content["augmentations"][0], "crop_size": 16, "num_crops": 4}
    found = read_config({**content, "augmentations": [content["augmentations"][0], small]})
    assert (found.views, found.large_views, found.crop_size) == (6, 2, 32)
    with pytest.raises(UserError, match="from the largest crop_size to the smallest, got 16, 32"):
        read_config({**content, "augmentations": [small, content["augmentations"][0]]})


@pytest.mark.parametrize("method", ["lejepa", "visreg", "barlow", "e2mc", "own"])
def test_a_group_brings_its_loss_and_no_weight_of_ours_and_takes_a_stem(method: str) -> None:
    own = ["method=own", "loss._target_=my.Loss"] if method == "own" else []
    chosen = [f"radialvicreg/method={method}", "method_kwargs.small_image_stem=true", *own]
    config = run_config(compose("radialvicreg", chosen))
    assert config.method == method
    assert config.has_small_stem
    assert config.loss is not None
    assert config.radial_objective == "none"
    assert not LOSS_DEFAULTS.keys() & config.plain()["method_kwargs"].keys()
    assert config.plain()["loss"]["_target_"] == config.loss.target


def test_a_loss_of_one_s_own_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["pretrain", *FOLDER, "radialvicreg/method=own"]) == 2
    assert "loss._target_, method must be set, for example loss._target_=VALUE" in capsys.readouterr().err


def test_arguments_and_views_of_a_loss_are_part_of_the_identity_and_the_method_s_name_is_not() -> None:
    first = config_hash(plain_config(**OWN))
    for same in ({"method": "another"}, {"loss_views": "pair"}, {"method_kwargs__sim_loss_weight": 3.0}):
        assert config_hash(plain_config(**{**OWN, **same})) == first
    for other in ({"loss": {"_target_": "my.Loss", "weight": 2.0}}, {"method": "vicreg", "loss": None}):
        assert config_hash(plain_config(**{**OWN, **other})) != first
