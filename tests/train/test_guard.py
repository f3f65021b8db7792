"""The guard against NaN."""

from __future__ import annotations

import pytest
import torch

from radial_vicreg.train.guard import FiniteGuard, NonFiniteLossError

NAMES = ["radial_ce", "loss"]
GOOD, BAD = torch.tensor([1.0, 2.0]), torch.tensor([float("nan"), 2.0])


@pytest.mark.parametrize(
    ("checkpoint", "said"),
    [("runs/x/epoch-3.ckpt", "Last good checkpoint: runs/x/epoch-3.ckpt"), (None, "There is no checkpoint yet")],
)
def test_the_first_bad_step_stops_a_run_and_names_step_term_and_last_good_checkpoint(
    checkpoint: str | None, said: str
) -> None:
    guard = FiniteGuard(last_checkpoint=lambda: checkpoint)
    guard.watch(NAMES, GOOD, step=0)
    with pytest.raises(NonFiniteLossError, match=f"not finite at step 1: radial_ce(?s:.*){said}"):
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
