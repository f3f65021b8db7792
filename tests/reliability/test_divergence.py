"""A run that diverges stops and names the step, the term and the last checkpoint that is good."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from helpers import HOSTS_SOLO_SLOW, Pretrain, checkpoint_of

from radial_vicreg.train.guard import FiniteGuard, NonFiniteLossError

STEPS_PER_EPOCH = 3
NAMES = ["radial_ce", "loss"]
GOOD, BAD = torch.tensor([1.0, 2.0]), torch.tensor([float("nan"), 2.0])


class Poison(pl.Callback):
    """Puts a NaN into the projector after a training step."""

    def __init__(self, step: int) -> None:
        self.step = step

    @torch.no_grad()
    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: Any, *_: Any) -> None:
        if trainer.global_step == self.step:
            pl_module.projector[-1].bias[0] = torch.nan


@pytest.mark.parametrize("host", HOSTS_SOLO_SLOW)
@pytest.mark.parametrize(
    ("step", "said"),
    [
        pytest.param(STEPS_PER_EPOCH + 1, "not finite at step 4: view 1: 8 of 128 values", id="the loss"),
        pytest.param(2 * STEPS_PER_EPOCH, "weights are not finite after step 6", id="only the weights, after an epoch"),
    ],
)
def test_the_last_good_checkpoint_is_named_and_no_bad_one_written(
    step: int, said: str, host: str, pretrain: Pretrain, add_callback: Callable[[pl.Callback], None]
) -> None:
    add_callback(Poison(step))
    failed = pretrain(f"host={host}", status=1)
    folder, error = failed.run, failed.stderr.splitlines()[-1]
    assert said in error
    assert error.endswith(f"Last good checkpoint: {folder / 'checkpoints' / 'epoch-1.ckpt'}")
    assert failed.results["status"] == "failed"
    weights = checkpoint_of(folder)["state_dict"]
    assert all(bool(value.isfinite().all()) for value in weights.values() if isinstance(value, torch.Tensor))
    assert [path.name for path in (folder / "checkpoints").glob("epoch-*")] == ["epoch-1.ckpt"]


def test_the_first_bad_step_stops_a_run_and_is_named_where_there_is_no_checkpoint_yet() -> None:
    guard = FiniteGuard()
    guard.watch(NAMES, GOOD, step=0)
    with pytest.raises(NonFiniteLossError, match=r"not finite at step 1: radial_ce\..*There is no checkpoint yet"):
        guard.watch(NAMES, BAD, step=1)


def test_a_loss_scaler_may_skip_overflows_but_not_for_ever() -> None:
    guard = FiniteGuard(loss_scaling=True)
    for step in range(16):
        guard.watch(NAMES, BAD, step)
    guard.watch(NAMES, GOOD, 16)  # recovered: counting starts anew
    for step in range(16):
        guard.watch(NAMES, BAD, step)
    with pytest.raises(NonFiniteLossError, match="step 99"):
        guard.watch(NAMES, BAD, 99)


@pytest.mark.gpu
def test_on_a_gpu_a_step_is_judged_one_step_later_or_before_the_checkpoint_of_its_epoch() -> None:
    guard = FiniteGuard()
    guard.watch(NAMES, BAD.cuda(), step=0)
    with pytest.raises(NonFiniteLossError, match="step 0"):
        guard.watch(NAMES, GOOD.cuda(), step=1)
    guard.watch(NAMES, BAD.cuda(), step=7)
    with pytest.raises(NonFiniteLossError, match="step 7"):
        guard.flush()
    guard.flush()  # nothing is waiting any more


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_weights_that_a_finite_loss_left_non_finite_are_found(value: float) -> None:
    weights = [torch.zeros(3, 4), torch.tensor([1.0, value])]
    FiniteGuard().check_weights(weights[:1], step=9)
    with pytest.raises(NonFiniteLossError, match="weights are not finite after step 9"):
        FiniteGuard().check_weights(weights, step=9)
