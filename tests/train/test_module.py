"""The embedded host's module gives the optimizer solo-learn's parameter groups."""

from __future__ import annotations

from types import SimpleNamespace

from configs import make_config

from radial_vicreg.train.module import PretrainingModule


def test_the_classifier_has_its_own_rate_and_no_decay() -> None:
    config = make_config(optimizer__name="sgd", optimizer__kwargs={}, optimizer__weight_decay=0.01)
    module = PretrainingModule(config, num_classes=3)
    module._trainer = SimpleNamespace(estimated_stepping_batches=10)
    optimizer = module.configure_optimizers()["optimizer"]
    decays = {group["name"]: (group["weight_decay"], group["initial_lr"]) for group in optimizer.param_groups}
    rates = config.rates
    assert decays["classifier"] == (0.0, rates.classifier_lr)
    assert decays["backbone"] == decays["projector"] == (0.01, rates.lr)
