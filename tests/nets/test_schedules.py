"""Learning-rate schedules are solo-learn's, step by step."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from configs import make_config
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from radial_vicreg.errors import UserError
from radial_vicreg.nets.optimizers import build_optimizer, build_scheduler
from radial_vicreg.nets.schedule import WarmupCosine, warmup_cosine_lr


def groups() -> list[dict[str, Any]]:
    """A layer of the configuration's rate, and one with a rate of its own."""
    return [
        {"name": "backbone", "params": list(nn.Linear(3, 2).parameters())},
        {"name": "classifier", "params": list(nn.Linear(2, 2).parameters()), "lr": 0.1, "weight_decay": 0},
    ]


@given(
    total=st.integers(2, 200),
    warmup=st.integers(2, 50),
    base=st.floats(1e-3, 1.0),
    min_lr=st.floats(0.0, 1e-4),
)
@settings(derandomize=True)
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
    ("steps", "epochs", "warmup_epochs", "min_lr"),
    [
        (200, 100, 10, 0.0),  # the usual case
        (97, 10, 2, 1e-3),  # 19.4 steps
        (33, 20, 1, 1e-3),  # 1.65 steps: the ramp overshoots
        (30, 20, 0.5, 0.0),  # 0.75 steps: the ramp never starts
        (30, 30, 1, 1e-3),  # one step
        (60, 20, 0, 1e-3),  # none
        (40, 10, 25, 1e-3),  # longer than the training
        (40, 10, 10, 0.0),  # exactly as long
        (41, 10, 9.9, 1e-3),  # ends within the last step
    ],
)
def test_schedule_equals_solo_learns(steps: int, epochs: int, warmup_epochs: float, min_lr: float) -> None:
    solo = pytest.importorskip("solo.utils.lr_scheduler")
    config = make_config(
        max_epochs=epochs,
        optimizer__batch_size=256,
        scheduler__warmup_epochs=warmup_epochs,
        scheduler__min_lr=min_lr,
    )
    ours = build_optimizer(config, groups())
    schedule = build_scheduler(config, ours, steps)["lr_scheduler"]["scheduler"]
    theirs = torch.optim.SGD(groups(), lr=0.3)
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


def test_schedule_resumes_where_it_stopped() -> None:
    def build() -> tuple[torch.optim.Optimizer, WarmupCosine]:
        optimizer = build_optimizer(make_config(), groups())
        return optimizer, build_scheduler(make_config(), optimizer, 60)["lr_scheduler"]["scheduler"]

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


def test_step_schedule_decays_at_the_milestones() -> None:
    config = make_config(scheduler__name="step", scheduler__lr_decay_steps=[2, 4])
    optimizer = build_optimizer(config, groups())
    configured = build_scheduler(config, optimizer, 60)["lr_scheduler"]
    assert configured["interval"] == "epoch"
    rates = []
    for _ in range(5):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        configured["scheduler"].step()
    assert [rate / rates[0] for rate in rates] == pytest.approx([1, 1, 0.1, 0.1, 0.01])


def test_no_schedule_leaves_the_rates_alone() -> None:
    config = make_config(scheduler__name="none")
    optimizer = build_optimizer(config, groups())
    assert build_scheduler(config, optimizer, 60) == {"optimizer": optimizer}


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"scheduler__name": "reduce"}, "scheduler.name='reduce'.*warmup_cosine, step, none"),
        ({"scheduler__interval": "batch"}, "scheduler.interval='batch'.*step or epoch"),
        ({"scheduler__name": "step"}, "scheduler.lr_decay_steps is not set"),
    ],
)
def test_wrong_schedule_settings_are_named(settings_: dict[str, Any], message: str) -> None:
    config = make_config(**settings_)
    with pytest.raises(UserError, match=message):
        build_scheduler(config, build_optimizer(config, groups()), 60)


@pytest.mark.parametrize("steps", [0, math.inf])
def test_training_without_an_end_has_no_cosine(steps: float) -> None:
    optimizer = build_optimizer(make_config(), groups())
    with pytest.raises(UserError, match=r"positive finite number of steps"):
        build_scheduler(make_config(), optimizer, steps)  # type: ignore[arg-type]


def test_after_its_end_a_schedule_stays_at_its_minimum() -> None:
    assert [warmup_cosine_lr(step, 0.3, 2, 20, 3e-5, 1e-3) for step in (20, 21, 25, 40)] == [1e-3] * 4


def test_a_warm_up_of_negative_length_is_refused() -> None:
    optimizer = build_optimizer(make_config(), groups())
    with pytest.raises(UserError, match=r"warmup >= 0, got 60, -1$"):
        WarmupCosine(optimizer, warmup=-1, total=60, start_lr=3e-5, min_lr=0.0)


def test_the_ends_of_a_schedule_grow_with_accumulated_batches_as_its_peak_does() -> None:
    config = make_config(accumulate_grad_batches=3, scheduler__min_lr=1e-3, scheduler__warmup_epochs=2)
    schedule = build_scheduler(config, build_optimizer(config, groups()), 60)["lr_scheduler"]["scheduler"]
    assert (schedule.start_lr, schedule.min_lr) == pytest.approx((9e-5, 3e-3))
    assert schedule.base_lrs[0] == pytest.approx(0.3 * 4 / 256 * 3)
