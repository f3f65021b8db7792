"""What a logger receives: one call for what belongs together, under the names that docs/names.md gives."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import HOSTS_SOLO_SLOW, Pretrain
from lightning.pytorch.loggers.logger import Logger

from radial_vicreg.losses import RadialVICRegLoss
from radial_vicreg.names.terms import ADDED, RADIAL_OBJECTIVES
from radial_vicreg.train import trainer

#: What solo-learn's own VICReg logs.
VICREG = {
    *(f"train_{name}_{kind}" for name in ("vicreg_loss", "class_loss", "acc1", "acc5") for kind in ("step", "epoch")),
    *("val_loss", "val_acc1", "val_acc5"),
}


class Recorder(Logger):
    """Keeps every call."""

    name, version = "recorder", "0"

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[dict[str, float]] = []
        self.steps: list[int | None] = []

    def log_metrics(self, metrics: Any, step: int | None = None) -> None:
        self.calls.append(dict(metrics))
        self.steps.append(step)

    def log_hyperparams(self, *_: Any, **__: Any) -> None:
        """Nothing to keep."""

    @property
    def keys(self) -> set[str]:
        return {key for call in self.calls for key in call}


@pytest.fixture
def record(pretrain: Pretrain, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Recorder]:
    def run(*settings: str) -> Recorder:
        recorder = Recorder()
        monkeypatch.setattr(trainer, "build_loggers", lambda *_: [recorder])
        pretrain(*settings)
        return recorder

    return run


@pytest.mark.parametrize("host", HOSTS_SOLO_SLOW)
def test_a_run_of_one_step_makes_six_calls_with_every_panel_of_solo_learns_vicreg(
    host: str, record: Callable[..., Recorder]
) -> None:
    """Radii before and after, rates, the step, the validation, the epoch."""
    recorder = record(f"host={host}", "max_epochs=1", "optimizer.batch_size=24")
    assert len(recorder.calls) == 6
    radii = [call for call in recorder.calls if any(key.startswith("radius_") for key in call)]
    assert [len(call) for call in radii] == [14, 14]
    assert not any(key.endswith("/count") for key in recorder.keys)
    assert recorder.keys >= VICREG


@pytest.mark.parametrize(
    ("host", "settings", "steps"),
    [
        ("standalone", ["log_every_n_steps=2"], [1, 3, 5]),
        pytest.param("standalone", ["log_every_n_steps=0"], [], marks=pytest.mark.slow),
        # An epoch has two steps, of two batches and of one.
        ("standalone", ["log_every_n_steps=50", "accumulate_grad_batches=2"], [1, 3]),
        pytest.param("solo", ["log_every_n_steps=50"], [2, 5], marks=[pytest.mark.solo, pytest.mark.slow]),
    ],
    ids=["2", "0", "50 of two", "50 of three"],
)
def test_values_of_a_step_are_logged_so_often(
    host: str, settings: list[str], steps: list[int], record: Callable[..., Recorder]
) -> None:
    recorder = record(f"host={host}", "diagnostics.enabled=false", "data.val_path=null", *settings)
    calls = zip(recorder.steps, recorder.calls, strict=True)
    logged = {
        step: call for step, call in calls if any(key.startswith("train_") and key.endswith("_step") for key in call)
    }
    assert list(logged) == steps  # counted from 0
    for call in logged.values():
        assert call.keys() >= {key for key in VICREG if key.endswith("_step")} | {"train_loss_step"}


@pytest.mark.parametrize("host", HOSTS_SOLO_SLOW)
def test_an_epoch_that_max_steps_cuts_has_its_means(host: str, record: Callable[..., Recorder]) -> None:
    recorder = record(f"host={host}", "+max_steps=4", "diagnostics.enabled=false", "data.val_path=null")
    assert [step for step, call in zip(recorder.steps, recorder.calls, strict=True) if "train_loss_epoch" in call] == [
        2,
        3,
    ]


def test_the_names_in_the_docs_are_those_that_are_logged(
    record: Callable[..., Recorder], pytestconfig: pytest.Config
) -> None:
    logged = record("host=standalone", "max_epochs=1", "method_kwargs.e2mc_loss_weight=1").keys
    for objective in RADIAL_OBJECTIVES:
        loss = RadialVICRegLoss(radial_objective=objective, **{term.weight.name: 1.0 for term in ADDED})
        loss(torch.randn(8, 4), torch.randn(8, 4))
        logged |= {f"train_{term}_{kind}" for term in loss.terms for kind in ("step", "epoch")}
    text = (pytestconfig.rootpath / "docs" / "names.md").read_text()
    named = set(re.findall(r"`((?:train_|val_|radius_(?:eval|batch)/)\w+)`", text)) - {"val_path", "train_path"}
    named -= {"val_balanced_accuracy", "val_attribute_acc"}  # of CelebA; tested there
    assert {"train_vicreg_loss_epoch", "train_radial_w1_epoch", "val_acc1"} <= named
    assert named <= logged, f"not logged: {sorted(named - logged)}"
