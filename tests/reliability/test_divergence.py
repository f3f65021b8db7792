"""A run that diverges stops and names the step, the term and the last checkpoint that is good."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from helpers import HOSTS_SOLO_SLOW, checkpoint_of, only_run, results_of

from radial_vicreg import cli

STEPS_PER_EPOCH = 3


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
    step: int,
    said: str,
    host: str,
    run_settings: list[str],
    tmp_path: Path,
    add_callback: Callable[[pl.Callback], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    add_callback(Poison(step))
    assert cli.main([*run_settings, f"host={host}"]) == 1
    folder = only_run(tmp_path / "runs")
    error = capsys.readouterr().err.splitlines()[-1]
    assert said in error
    assert error.endswith(f"Last good checkpoint: {folder / 'checkpoints' / 'epoch-1.ckpt'}")
    assert results_of(folder)["status"] == "failed"
    weights = checkpoint_of(folder)["state_dict"]
    assert all(bool(value.isfinite().all()) for value in weights.values() if isinstance(value, torch.Tensor))
    assert [path.name for path in (folder / "checkpoints").glob("epoch-*")] == ["epoch-1.ckpt"]
