from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from radial_vicreg.optim import (
    build_optimizer,
    build_scheduler,
    process_count,
    scaled_lr,
)
from radial_vicreg.schedule import WarmupCosine, warmup_cosine_lr

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
        return [
            {"name": "backbone", "params": list(self.backbone.parameters())},
            {
                "name": "classifier",
                "params": list(self.classifier.parameters()),
                "lr": classifier_lr,
                "weight_decay": 0,
            },
            {"name": "projector", "params": list(self.projector.parameters())},
        ]


def set_gradients(model: Model, step: int) -> None:
    generator = torch.Generator().manual_seed(step)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)


def twins() -> tuple[Model, Model]:
    torch.manual_seed(0)
    ours, theirs = Model().double(), Model().double()
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


# ---- rates ----


@pytest.mark.parametrize(
    ("devices", "nodes", "expected"),
    [
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
        (None, None, 1),
    ],
)
def test_devices_are_counted_in_every_spelling(make_cfg: Any, devices: Any, nodes: Any, expected: int) -> None:
    assert process_count(make_cfg(devices=devices, num_nodes=nodes)) == expected


@pytest.mark.parametrize("devices", [0, [], "two", -3])
def test_devices_that_mean_nothing_are_refused(make_cfg: Any, devices: Any) -> None:
    with pytest.raises(ValueError, match=r"devices="):
        process_count(make_cfg(devices=devices))


@pytest.mark.parametrize(
    ("val_path", "accumulate", "lr", "classifier_lr"),
    [("val", None, 0.6, 0.2), (None, None, 0.6, 0.1), ("val", 4, 2.4, 0.8), (None, 4, 2.4, 0.4)],
)
def test_rates_scale_with_batch_devices_and_accumulation(
    make_cfg: Any, val_path: str | None, accumulate: int | None, lr: float, classifier_lr: float
) -> None:
    cfg = make_cfg(
        optimizer__batch_size=256,
        devices=[0, 1],
        data__val_path=val_path,
        accumulate_grad_batches=accumulate,
    )
    assert scaled_lr(cfg) == pytest.approx((lr, classifier_lr))
    assert cfg.optimizer.lr == 0.3, "the configuration must stay as written"


@pytest.mark.parametrize("key", ["lr", "classifier_lr", "batch_size"])
def test_missing_rate_is_named(make_cfg: Any, key: str) -> None:
    cfg = make_cfg()
    del cfg.optimizer[key]
    with pytest.raises(ValueError, match=f"optimizer.{key} is not set"):
        scaled_lr(cfg)


# ---- optimizers ----


@pytest.mark.parametrize(("name", "kwargs"), [("sgd", {}), ("adam", {}), ("adamw", {}), ("lars", {})])
def test_optimizers_keep_the_classifiers_own_rate_and_decay(make_cfg: Any, name: str, kwargs: dict[str, Any]) -> None:
    cfg = make_cfg(optimizer__name=name, optimizer__kwargs=kwargs)
    optimizer = build_optimizer(cfg, Model().groups(classifier_lr=0.05))
    by_name = {group["name"]: group for group in optimizer.param_groups}
    assert by_name["classifier"]["lr"] == 0.05
    assert by_name["classifier"]["weight_decay"] == 0
    assert by_name["projector"]["lr"] == pytest.approx(0.3 * 4 / 256)
    assert by_name["projector"]["weight_decay"] == 1e-4


def test_sgd_has_solo_learns_momentum_by_default(make_cfg: Any) -> None:
    optimizer = build_optimizer(make_cfg(optimizer__name="sgd", optimizer__kwargs={}), Model().groups(0.1))
    assert optimizer.param_groups[0]["momentum"] == 0.9


def test_named_parameters_are_accepted(make_cfg: Any) -> None:
    model = Model()
    named = [{"name": "backbone", "params": list(model.backbone.named_parameters())}]
    optimizer = build_optimizer(make_cfg(), named)
    count = sum(len(group["params"]) for group in optimizer.param_groups)
    assert count == len(list(model.backbone.parameters()))


@pytest.mark.parametrize("excluded_wd", [False, True])
@pytest.mark.parametrize("excluded", [False, True])
def test_every_parameter_is_optimized_once(make_cfg: Any, excluded: bool, excluded_wd: bool) -> None:
    model = Model()
    cfg = make_cfg(optimizer__exclude_bias_n_norm_wd=excluded_wd)
    cfg.optimizer.kwargs.exclude_bias_n_norm = excluded
    optimizer = build_optimizer(cfg, model.groups(0.1))
    seen = [id(p) for group in optimizer.param_groups for p in group["params"]]
    assert sorted(seen) == sorted(id(p) for p in model.parameters())
    names = [group["name"] for group in optimizer.param_groups]
    assert len(set(names)) == len(names), "Lightning's rate monitor needs unique names"


def test_unknown_optimizer_lists_the_known(make_cfg: Any) -> None:
    with pytest.raises(ValueError, match=r"'lamb'.*sgd, lars, adam, adamw"):
        build_optimizer(make_cfg(optimizer__name="lamb"), Model().groups(0.1))


def test_arguments_of_another_optimizer_are_named(make_cfg: Any) -> None:
    with pytest.raises(ValueError, match=r"clip_lr.*do not fit optimizer.name=adamw"):
        build_optimizer(make_cfg(optimizer__name="adamw"), Model().groups(0.1))


@pytest.mark.solo
@pytest.mark.parametrize("excluded_wd", [False, True])
@pytest.mark.parametrize("excluded", [False, True])
@pytest.mark.parametrize("clipped", [False, True])
@pytest.mark.parametrize("extra", [{}, {"momentum": 0.0}, {"nesterov": True, "eps": 1e-6}], ids=str)
def test_lars_takes_solo_learns_steps(
    make_cfg: Any, clipped: bool, excluded: bool, excluded_wd: bool, extra: dict[str, Any]
) -> None:
    lars = pytest.importorskip("solo.utils.lars")
    misc = pytest.importorskip("solo.utils.misc")
    kwargs = {"momentum": 0.9, "eta": 0.02, "clip_lr": clipped, "exclude_bias_n_norm": excluded, **extra}
    cfg = make_cfg(optimizer__batch_size=256, optimizer__kwargs=kwargs, optimizer__exclude_bias_n_norm_wd=excluded_wd)
    ours, theirs = twins()
    optimizer = build_optimizer(cfg, ours.groups(0.1))
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
@pytest.mark.parametrize("name", ["lars", "sgd", "adam", "adamw"])
@pytest.mark.parametrize("warmup_epochs", [0, 2, 1.25])
@pytest.mark.parametrize("interval", ["step", "epoch"])
def test_training_follows_solo_learns_configure_optimizers(
    make_cfg: Any, name: str, warmup_epochs: float, interval: str
) -> None:
    """Groups, rates, optimizer and schedule together, through solo-learn's own method class."""
    methods = pytest.importorskip("solo.methods")
    args = pytest.importorskip("solo.args.pretrain")
    overrides = {} if name == "lars" else {"optimizer__kwargs": {}}
    cfg = make_cfg(
        optimizer__name=name,
        optimizer__batch_size=64,
        data__dataset="cifar10",
        data__train_path="unused",
        data__val_path="unused",
        max_epochs=10,
        accumulate_grad_batches=2,
        scheduler__warmup_epochs=warmup_epochs,
        scheduler__interval=interval,
        **overrides,
    )
    solo = methods.VICReg(args.parse_cfg(cfg.copy()))
    trainer = SimpleNamespace(estimated_stepping_batches=STEPS)
    solo.trainer = trainer
    [reference], [reference_schedule] = solo.configure_optimizers()
    rate_of = {id(p): group for group in reference.param_groups for p in group["params"]}

    groups = [{"name": "backbone", "params": list(solo.backbone.parameters())}]
    groups.append(
        {
            "name": "classifier",
            "params": list(solo.classifier.parameters()),
            "lr": scaled_lr(cfg).classifier_lr,
            "weight_decay": 0,
        }
    )
    groups.append({"name": "projector", "params": list(solo.projector.parameters())})
    configured = build_scheduler(cfg, build_optimizer(cfg, groups), STEPS)
    optimizer, schedule = configured["optimizer"], configured["lr_scheduler"]

    assert (schedule["interval"], schedule["frequency"]) == (interval, 1)
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(rate_of)
    for _ in range(STEPS if interval == "step" else cfg.max_epochs):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                assert group["lr"] == pytest.approx(rate_of[id(parameter)]["lr"], rel=1e-9, abs=1e-12)
        optimizer.step()
        reference.step()
        schedule["scheduler"].step()
        reference_schedule["scheduler"].step()


# ---- schedules ----


@given(
    total=st.integers(2, 200),
    warmup=st.integers(2, 50),
    base=st.floats(1e-3, 1.0),
    min_lr=st.floats(0.0, 1e-4),
)
@settings(deadline=None, derandomize=True, max_examples=60)
def test_schedule_rises_to_the_peak_and_falls_to_the_minimum(
    total: int, warmup: int, base: float, min_lr: float
) -> None:
    rates = [warmup_cosine_lr(step, base, warmup, total, 3e-5, min_lr) for step in range(total + 1)]
    peak = min(warmup - 1, total)
    assert rates[0] == 3e-5
    assert rates[:peak] == sorted(rates[:peak])
    assert rates[warmup:] == sorted(rates[warmup:], reverse=True)
    if warmup < total:
        assert rates[warmup] == base == pytest.approx(rates[warmup - 1])
        assert rates[total] == pytest.approx(min_lr, abs=1e-12)
    assert all(math.isfinite(rate) and rate <= base * (1 + 1e-9) for rate in rates)


@pytest.mark.solo
@pytest.mark.parametrize(
    ("steps", "epochs", "warmup_epochs"),
    [
        (1000, 100, 10),  # the usual case
        (195 * 4, 4, 1),
        (97, 10, 2),  # 19.4 steps
        (33, 20, 1),  # 1.65 steps: the ramp overshoots
        (30, 20, 0.5),  # 0.75 steps: the ramp never starts
        (30, 30, 1),  # one step
        (60, 20, 0),  # none
        (40, 10, 25),  # longer than the training
        (40, 10, 10),  # exactly as long
        (41, 10, 9.9),  # ends within the last step
    ],
)
@pytest.mark.parametrize("min_lr", [0.0, 1e-3])
def test_schedule_equals_solo_learns(
    make_cfg: Any, steps: int, epochs: int, warmup_epochs: float, min_lr: float
) -> None:
    solo = pytest.importorskip("solo.utils.lr_scheduler")
    cfg = make_cfg(
        max_epochs=epochs,
        optimizer__batch_size=256,
        scheduler__warmup_epochs=warmup_epochs,
        scheduler__min_lr=min_lr,
    )
    ours = build_optimizer(cfg, Model().groups(classifier_lr=0.1))
    schedule = build_scheduler(cfg, ours, steps)["lr_scheduler"]["scheduler"]
    theirs = torch.optim.SGD(Model().groups(classifier_lr=0.1), lr=0.3)
    reference = solo.LinearWarmupCosineAnnealingLR(
        theirs,
        warmup_epochs=warmup_epochs * (steps / epochs),
        max_epochs=steps,
        warmup_start_lr=3e-5 if warmup_epochs > 0 else 0.3,
        eta_min=min_lr,
    )
    for step in range(steps):
        ours_by_name = {group["name"].removesuffix("_not_adapted"): group["lr"] for group in ours.param_groups}
        for group in theirs.param_groups:
            expected = group["lr"]
            assert ours_by_name[group["name"]] == pytest.approx(expected, rel=1e-9, abs=1e-12), (
                step,
                group["name"],
            )
        for optimizer, stepper in ((ours, schedule), (theirs, reference)):
            optimizer.step()
            stepper.step()


def test_schedule_resumes_where_it_stopped(make_cfg: Any) -> None:
    def build() -> tuple[torch.optim.Optimizer, WarmupCosine]:
        optimizer = build_optimizer(make_cfg(), Model().groups(0.1))
        return optimizer, build_scheduler(make_cfg(), optimizer, 60)["lr_scheduler"]["scheduler"]

    def advance(optimizer: torch.optim.Optimizer, schedule: WarmupCosine, steps: int) -> list[list[float]]:
        rates = []
        for _ in range(steps):
            optimizer.step()
            schedule.step()
            rates.append([group["lr"] for group in optimizer.param_groups])
        return rates

    optimizer, schedule = build()
    whole = advance(optimizer, schedule, 50)
    optimizer, schedule = build()
    advance(optimizer, schedule, 20)
    states = optimizer.state_dict(), schedule.state_dict()
    optimizer, schedule = build()
    optimizer.load_state_dict(states[0])
    schedule.load_state_dict(states[1])
    assert advance(optimizer, schedule, 30) == whole[20:]


def test_step_schedule_decays_at_the_milestones(make_cfg: Any) -> None:
    cfg = make_cfg(scheduler__name="step", scheduler__lr_decay_steps=[2, 4])
    optimizer = build_optimizer(cfg, Model().groups(0.1))
    configured = build_scheduler(cfg, optimizer, 60)["lr_scheduler"]
    assert configured["interval"] == "epoch"
    rates = []
    for _ in range(5):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        configured["scheduler"].step()
    assert [rate / rates[0] for rate in rates] == pytest.approx([1, 1, 0.1, 0.1, 0.01])


def test_no_schedule_leaves_the_rates_alone(make_cfg: Any) -> None:
    cfg = make_cfg(scheduler__name="none")
    optimizer = build_optimizer(cfg, Model().groups(0.1))
    assert build_scheduler(cfg, optimizer, 60) == {"optimizer": optimizer}


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"scheduler__name": "reduce"}, "scheduler.name='reduce'.*warmup_cosine, step, none"),
        ({"scheduler__interval": "batch"}, "scheduler.interval='batch'.*step or epoch"),
        ({"scheduler__name": "step"}, "scheduler.lr_decay_steps is not set"),
        ({"scheduler__warmup_epochs": -1}, "warmup >= 0"),
    ],
)
def test_wrong_schedule_settings_are_named(make_cfg: Any, settings_: dict[str, Any], message: str) -> None:
    cfg = make_cfg(**settings_)
    with pytest.raises(ValueError, match=message):
        build_scheduler(cfg, build_optimizer(cfg, Model().groups(0.1)), 60)


@pytest.mark.parametrize("steps", [0, math.inf])
def test_training_without_an_end_has_no_cosine(make_cfg: Any, steps: float) -> None:
    optimizer = build_optimizer(make_cfg(), Model().groups(0.1))
    with pytest.raises(ValueError, match=r"positive finite number of steps"):
        build_scheduler(make_cfg(), optimizer, steps)  # type: ignore[arg-type]
