"""Optimizers and schedules take solo-learn's steps, parameter by parameter."""

from __future__ import annotations

import copy
import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from configs import make_config, solo_form
from helpers import make_solo_vit_small
from torch import nn

from radial_vicreg.errors import UserError
from radial_vicreg.nets.optimizers import build_optimizer, build_scheduler, check_optimizer
from radial_vicreg.nets.schedule import warmup_cosine_lr

STEPS = 30


class Model(nn.Module):
    """One layer of each kind that the rules tell apart, a parameter without dimensions included."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 5))
        self.backbone.register_parameter("scale", nn.Parameter(torch.tensor(0.7)))
        self.classifier = nn.Linear(5, 3)
        self.projector = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Linear(6, 4))

    def groups(self, classifier_lr: float) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = [
            {"name": name, "params": list(getattr(self, name).parameters())}
            for name in ("backbone", "classifier", "projector")
        ]
        found[1] |= {"lr": classifier_lr, "weight_decay": 0}
        return found


def set_gradients(model: Model, step: int) -> None:
    generator = torch.Generator().manual_seed(step)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)


@pytest.mark.parametrize(("excluded", "excluded_wd"), [(False, True), (True, False), (True, True)])
def test_every_parameter_is_optimized_once(excluded: bool, excluded_wd: bool) -> None:
    model = Model()
    config = make_config(optimizer__exclude_bias_n_norm_wd=excluded_wd, optimizer__kwargs__exclude_bias_n_norm=excluded)
    backbone, *others = model.groups(0.1)
    backbone["params"] = list(model.backbone.named_parameters())  # pairs are taken as well
    optimizer = build_optimizer(config, [backbone, *others])
    seen = [id(p) for group in optimizer.param_groups for p in group["params"]]
    assert sorted(seen) == sorted(id(p) for p in model.parameters())
    names = [group["name"] for group in optimizer.param_groups]
    assert len(set(names)) == len(names), "Lightning's rate monitor needs unique names"


def test_an_optimizer_or_an_argument_that_there_is_not_is_named() -> None:
    with pytest.raises(UserError, match=r"'lamb'.*sgd, lars, adam, adamw"):
        build_optimizer(make_config(optimizer__name="lamb"), Model().groups(0.1))
    for name, argument in (("sgd", "weight_decay"), ("adamw", "clip_lr")):  # set elsewhere; of LARS
        config = make_config(optimizer__name=name, optimizer__kwargs={argument: False})
        for build in (check_optimizer, lambda config: build_optimizer(config, Model().groups(0.1))):
            with pytest.raises(UserError, match=rf"optimizer\.kwargs {argument} do not fit optimizer\.name={name}"):
                build(config)


@pytest.mark.solo
@pytest.mark.parametrize(
    ("clipped", "excluded", "excluded_wd", "extra"),
    [  # every two values meet once
        (False, False, False, {}),
        (True, True, False, {}),
        (True, False, True, {"momentum": 0.0}),
        (False, True, True, {"momentum": 0.0}),
        (True, True, True, {"nesterov": True, "eps": 1e-6}),
        (False, False, False, {"nesterov": True, "eps": 1e-6}),
    ],
    ids=str,
)
def test_lars_takes_solo_learns_steps(clipped: bool, excluded: bool, excluded_wd: bool, extra: dict[str, Any]) -> None:
    lars = pytest.importorskip("solo.utils.lars")
    misc = pytest.importorskip("solo.utils.misc")
    kwargs = {"momentum": 0.9, "eta": 0.02, "clip_lr": clipped, "exclude_bias_n_norm": excluded, **extra}
    config = make_config(
        optimizer__batch_size=256, optimizer__kwargs=kwargs, optimizer__exclude_bias_n_norm_wd=excluded_wd
    )
    ours = Model().double()
    theirs = copy.deepcopy(ours)
    optimizer = build_optimizer(config, ours.groups(0.1))
    groups = theirs.groups(0.1)
    if excluded_wd:
        groups = misc.remove_bias_and_norm_from_weight_decay(groups)
    reference = lars.LARS(groups, lr=0.3, weight_decay=1e-4, **kwargs)
    for step in range(STEPS):
        for model, stepper in ((ours, optimizer), (theirs, reference)):
            set_gradients(model, step)
            stepper.step()
    for (name, value), expected in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(value, expected, rtol=1e-10, atol=1e-12, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.solo
@pytest.mark.parametrize(
    ("name", "interval", "warmup_epochs", "min_lr"),
    [
        ("lars", "epoch", 0, 1e-3),
        ("lars", "step", 1.25, 0.0),  # of 3 steps an epoch: 3.75
        ("sgd", "step", 2, 1e-3),  # 6 steps
        ("adam", "step", 0.5, 1e-3),  # 1.5 steps: the ramp overshoots
        ("adamw", "epoch", 1.25, 0.0),
        ("sgd", "step", 0.2, 0.0),  # 0.6 steps: the ramp never starts
        ("lars", "step", 9.9, 1e-3),  # ends within the last step
        ("sgd", "step", 25, 1e-3),  # longer than the training
    ],
)
def test_training_follows_solo_learns_configure_optimizers(
    name: str, interval: str, warmup_epochs: float, min_lr: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups, rates, optimizer and schedule together, through solo-learn's own method class."""
    methods = pytest.importorskip("solo.methods")
    args = pytest.importorskip("solo.args.pretrain")
    make_solo_vit_small(monkeypatch)
    sizes = {"patch_size": 16, "img_size": 32, "depth": 1, "embed_dim": 24, "num_heads": 1}
    overrides = {} if name == "lars" else {"optimizer__kwargs": {}}
    config = make_config(
        backbone={"name": "vit_tiny", "kwargs": sizes},
        optimizer__name=name,
        optimizer__batch_size=64,
        data__dataset="cifar10",
        data__train_path="unused",
        data__val_path="unused",
        max_epochs=10,
        accumulate_grad_batches=2,
        scheduler__warmup_epochs=warmup_epochs,
        scheduler__min_lr=min_lr,
        scheduler__interval=interval,
        **overrides,
    )
    solo = methods.VICReg(args.parse_cfg(solo_form(config)))
    solo.trainer = SimpleNamespace(estimated_stepping_batches=STEPS)
    [reference], [reference_schedule] = solo.configure_optimizers()
    group_of = {id(p): group for group in reference.param_groups for p in group["params"]}

    groups = Model.groups(solo, config.rates.classifier_lr)
    configured = build_scheduler(config, build_optimizer(config, groups), STEPS)
    optimizer, schedule = configured["optimizer"], configured["lr_scheduler"]

    # LARS writes what it excludes in another way; its steps are compared above.
    compared = {"lr"} if name == "lars" else {"lr", "weight_decay", "momentum", "betas", "eps"}
    assert (schedule["interval"], schedule["frequency"]) == (interval, 1)
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(group_of)
    for _ in range(STEPS if interval == "step" else config.max_epochs):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                expected = group_of[id(parameter)]
                for key in expected.keys() & compared:
                    assert group[key] == pytest.approx(expected[key], rel=1e-9, abs=1e-12), key
        optimizer.step()
        reference.step()
        schedule["scheduler"].step()
        reference_schedule["scheduler"].step()


def built(steps: float = 60, **settings: Any) -> tuple[torch.optim.Optimizer, Any]:
    """An optimizer and its schedule."""
    config = make_config(**settings)
    optimizer = build_optimizer(config, Model().groups(0.1))
    return optimizer, build_scheduler(config, optimizer, steps)["lr_scheduler"]["scheduler"]  # type: ignore[arg-type]


def test_without_solo_learn_a_schedule_rises_to_its_peak_falls_to_its_minimum_and_stays_there() -> None:
    rates = [warmup_cosine_lr(step, 0.3, 4, 20, 3e-5, 1e-3) for step in range(41)]
    assert rates[0] == 3e-5
    assert rates[:4] == sorted(rates[:4])
    assert max(rates) == rates[4] == 0.3
    assert rates[4:] == sorted(rates[4:], reverse=True)
    assert rates[20:] == [1e-3] * 21


def test_step_schedule_decays_at_the_milestones() -> None:
    optimizer, schedule = built(scheduler__name="step", scheduler__lr_decay_steps=[2, 4])
    rates = []
    for _ in range(5):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert [rate / rates[0] for rate in rates] == pytest.approx([1, 1, 0.1, 0.1, 0.01])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"scheduler__name": "reduce"}, "scheduler.name='reduce'.*warmup_cosine, step, none"),
        ({"scheduler__interval": "batch"}, "scheduler.interval='batch'.*step or epoch"),
        ({"scheduler__name": "step"}, "scheduler.lr_decay_steps is not set"),
        ({"steps": 0}, "positive finite number of steps"),
        ({"steps": math.inf}, "positive finite number of steps"),
    ],
)
def test_wrong_schedule_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        built(**settings)


def test_the_ends_of_a_schedule_grow_with_accumulated_batches_as_its_peak_does() -> None:
    _, schedule = built(accumulate_grad_batches=3, scheduler__min_lr=1e-3, scheduler__warmup_epochs=2)
    assert (schedule.start_lr, schedule.min_lr) == pytest.approx((9e-5, 3e-3))
    assert schedule.base_lrs[0] == pytest.approx(0.3 * 4 / 256 * 3)
