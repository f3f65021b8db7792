"""What follows from a configuration: processes, rates, and which method goes with which loss and how many views."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from configs import make_config, plain_config

from radial_vicreg import cli
from radial_vicreg.compose import compose, run_config
from radial_vicreg.config import read_config
from radial_vicreg.errors import UserError
from radial_vicreg.names.terms import LOSS_DEFAULTS
from radial_vicreg.runs.identity import config_hash


def test_devices_are_counted_in_every_spelling() -> None:
    for devices, nodes, expected in [
        ([0], 1, 1),
        ([0, 1], 1, 2),
        ([0, 3], 2, 4),
        (2, 1, 2),
        ("1", 1, 1),
        ("4", 2, 8),
        ("0,1,2", 1, 3),
        ("0,", 1, 1),
        ("auto", 1, 1),
        (-1, 1, 1),
        (3, None, 3),
    ]:
        config = make_config(devices=devices, num_nodes=nodes)
        assert config.processes == expected
        assert config.local_processes == expected // (nodes or 1)
        assert config.global_batch == 4 * expected


def test_all_devices_are_the_gpus_unless_the_cpu_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    for accelerator, expected in (("auto", 3), ("gpu", 3), ("cpu", 1)):
        for devices in ("auto", -1):
            assert make_config(devices=devices, accelerator=accelerator).processes == expected


def test_rates_scale_with_batch_devices_and_accumulation() -> None:
    for val_path, accumulate, lr, classifier_lr in [
        ("val", None, 0.6, 0.2),
        (None, None, 0.6, 0.1),
        ("val", 4, 2.4, 0.8),
        (None, 4, 2.4, 0.4),
    ]:
        config = make_config(
            optimizer__batch_size=256, devices=[0, 1], data__val_path=val_path, accumulate_grad_batches=accumulate
        )
        assert config.rates == pytest.approx((lr, classifier_lr))
        assert config.optimizer.lr == 0.3, "the configuration must stay as written"


OWN: dict[str, Any] = {"method": "mine", "loss": {"_target_": "my.Loss", "weight": 1.0}}


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
    assert cli.main(["pretrain", "radialvicreg/method=own"]) == 2
    assert "loss._target_, method must be set, for example loss._target_=VALUE" in capsys.readouterr().err


def test_arguments_and_views_of_a_loss_are_part_of_the_identity_and_the_method_s_name_is_not() -> None:
    first = config_hash(plain_config(**OWN))
    for same in ({"method": "another"}, {"loss_views": "pair"}, {"method_kwargs__sim_loss_weight": 3.0}):
        assert config_hash(plain_config(**{**OWN, **same})) == first
    for other in ({"loss": {"_target_": "my.Loss", "weight": 2.0}}, {"method": "vicreg", "loss": None}):
        assert config_hash(plain_config(**{**OWN, **other})) != first
