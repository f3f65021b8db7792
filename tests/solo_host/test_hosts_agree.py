"""One configuration is one run on either host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from helpers import RESNET
from hosts_fixtures import MakeConfig
from torch.utils.data import DataLoader

pytestmark = pytest.mark.solo
pytest.importorskip("solo.methods", reason="solo-learn is not installed")

from solo.backbones import vit_tiny  # noqa: E402
from solo.methods.base import BaseMethod  # noqa: E402

from radial_vicreg.config import RunConfig  # noqa: E402
from radial_vicreg.data.build import open_data  # noqa: E402
from radial_vicreg.solo.data import solo_config  # noqa: E402
from radial_vicreg.solo.method import RadialVICReg  # noqa: E402
from radial_vicreg.train.module import PretrainingModule  # noqa: E402
from radial_vicreg.train.run import prepare  # noqa: E402


def build(host: str, config: RunConfig) -> pl.LightningModule:
    data = open_data(config)
    if host == "solo":
        return RadialVICReg(solo_config(config, data), own=config)
    return PretrainingModule(config, data.num_classes)


class Record(pl.Callback):
    """Keeps the total of every step, and what an epoch has logged."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.logged: dict[str, float] = {}

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: Any, outputs: Any, *args: Any) -> None:
        self.losses.append(float(outputs["loss"]))

    def on_fit_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self.logged = {name: float(value) for name, value in trainer.callback_metrics.items()}


SETTINGS = {
    "a small vit": ["radialvicreg/optimizer=adamw", "radialvicreg/augmentation=cifar_multicrop"],
    "resnet, lars and wasserstein": [
        *(*RESNET, "radialvicreg/optimizer=lars"),
        "method_kwargs.radial_objective=wasserstein",
    ],
    "vit": ["radialvicreg/optimizer=adamw", "~backbone.kwargs", "+backbone.kwargs={patch_size:16,img_size:32}"],
}


@pytest.mark.parametrize(
    "setting", [name if "small" in name else pytest.param(name, marks=pytest.mark.slow) for name in SETTINGS]
)
def test_twenty_steps_on_both_hosts_give_the_same_losses_and_weights(
    setting: str,
    tiny_config: MakeConfig,
    fixed_loader: Callable[..., DataLoader],
    quiet_trainer: Callable[..., pl.Trainer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if setting == "vit":
        monkeypatch.setitem(BaseMethod._BACKBONES, "vit_tiny", vit_tiny)  # solo-learn's own, of its usual size
    config = prepare(tiny_config(*SETTINGS[setting], "optimizer.batch_size=8"))
    loader = fixed_loader(dtype=torch.float64, small=4 if "small" in setting else 0)
    val_loader = [[views[0], labels] for _, views, labels in list(loader)[:2]]
    val_loader = DataLoader(val_loader, batch_size=None)  # type: ignore[arg-type]
    found = {}
    for host in ("solo", "standalone"):
        pl.seed_everything(1, verbose=False)
        # float64: differences of rounding would grow over the steps and hide differences of rule.
        model = build(host, config)
        record = Record()
        trainer = quiet_trainer(max_epochs=2, precision="64-true", callbacks=[record], num_sanity_val_steps=0)
        trainer.fit(model, loader, val_loader)
        found[host] = (record, model.state_dict())
    (solo, solo_weights), (standalone, standalone_weights) = found["solo"], found["standalone"]
    assert len(solo.losses) == 20
    assert standalone.losses == pytest.approx(solo.losses, rel=1e-5)
    assert solo.logged.keys() >= {"val_loss", "train_vicreg_loss_epoch", "train_w1_chi_epoch", "train_class_loss_epoch"}
    assert standalone.logged == pytest.approx(solo.logged, rel=1e-5)
    assert standalone_weights.keys() == solo_weights.keys()
    for name, weight in solo_weights.items():
        if isinstance(weight, torch.Tensor) and weight.is_floating_point():
            assert torch.allclose(weight, standalone_weights[name], rtol=1e-5, atol=1e-7), name
