"""Learning-rate schedules are solo-learn's, step by step."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from configs import make_config
from torch import nn

from radial_vicreg.errors import UserError
from radial_vicreg.nets.optimizers import build_optimizer, build_scheduler
from radial_vicreg.nets.schedule import warmup_cosine_lr


def groups() -> list[dict[str, Any]]:
    """A layer of the configuration's rate, and one with a rate of its own."""
    return [
        {"name": "backbone", "params": list(nn.Linear(3, 2).parameters())},
        {"name": "classifier", "params": list(nn.Linear(2, 2).parameters()), "lr": 0.1, "weight_decay": 0},
    ]


def built(steps: float = 60, **settings: Any) -> tuple[torch.optim.Optimizer, Any]:
    """An optimizer and its schedule."""
    config = make_config(**settings)
    optimizer = build_optimizer(config, groups())
    return optimizer, build_scheduler(config, optimizer, steps)["lr_scheduler"]["scheduler"]  # type: ignore[arg-type]


def advance(optimizer: torch.optim.Optimizer, schedule: Any, steps: int) -> list[list[float]]:
    """Rates of the groups before each of some steps."""
    rates = []
    for _ in range(steps):
        rates.append([group["lr"] for group in optimizer.param_groups])
        optimizer.step()
        schedule.step()
    return rates


@pytest.mark.solo
@pytest.mark.parametrize(
    ("steps", "epochs", "warmup_epochs", "min_lr"),
    [
        (200, 100, 10, 0.0),  # the usual case
        (97, 10, 2, 1e-3),  # 19.4 steps
        (33, 20, 1, 1e-3),  # 1.65 steps: the ramp overshoots
        (30, 20, 0.5, 0.0),  # 0.75 steps: the ramp never starts
        (60, 20, 0, 1e-3),  # none
        (40, 10, 25, 1e-3),  # longer than the training
        (41, 10, 9.9, 1e-3),  # ends within the last step
    ],
)
def test_schedule_equals_solo_learns(steps: int, epochs: int, warmup_epochs: float, min_lr: float) -> None:
    solo = pytest.importorskip("solo.utils.lr_scheduler")
    ours = built(
        steps,
        max_epochs=epochs,
        optimizer__batch_size=256,
        scheduler__warmup_epochs=warmup_epochs,
        scheduler__min_lr=min_lr,
    )
    places = [group["name"].removesuffix("_not_adapted") for group in ours[0].param_groups]
    reference = torch.optim.SGD(groups(), lr=0.3)
    schedule = solo.LinearWarmupCosineAnnealingLR(
        reference,
        warmup_epochs=warmup_epochs * (steps / epochs),
        max_epochs=steps,
        warmup_start_lr=3e-5 if warmup_epochs > 0 else 0.3,
        eta_min=min_lr,
    )
    found, expected = advance(*ours, steps), advance(reference, schedule, steps)
    for place, group in enumerate(reference.param_groups):
        of_group = [rates[places.index(group["name"])] for rates in found]
        assert of_group == pytest.approx([rates[place] for rates in expected], rel=1e-9, abs=1e-12), group["name"]


def test_without_solo_learn_a_schedule_rises_to_its_peak_falls_to_its_minimum_and_stays_there() -> None:
    rates = [warmup_cosine_lr(step, 0.3, 4, 20, 3e-5, 1e-3) for step in range(41)]
    assert rates[0] == 3e-5
    assert rates[:4] == sorted(rates[:4])
    assert max(rates) == rates[4] == 0.3
    assert rates[4:] == sorted(rates[4:], reverse=True)
    assert rates[20:] == [1e-3] * 21


def test_step_schedule_decays_at_the_milestones() -> None:
    config = make_config(scheduler__name="step", scheduler__lr_decay_steps=[2, 4])
    optimizer = build_optimizer(config, groups())
    configured = build_scheduler(config, optimizer, 60)["lr_scheduler"]
    assert configured["interval"] == "epoch"
    rates = [first for first, *_ in advance(optimizer, configured["scheduler"], 5)]
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
