"""A run that died after a step and is resumed equals one that was never stopped, bit for bit."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import lightning.pytorch as pl
import pytest
import torch
from helpers import HOSTS_SOLO_SLOW, AtStep, Pretrain, assert_same_run, only_run, read_results

from radial_vicreg.io.files import write_json
from radial_vicreg.runs.checkpoints import find_checkpoint

STEPS_PER_EPOCH = 3
IMAGES = {
    "solo": ["host=solo", "probes.frozen_linear=true"],
    "ram": ["host=standalone", "data.cache=ram"],
    "device": ["host=standalone", "data.format=device"],
}


def random_step(epochs: int, *cell: object) -> int:
    """A step after the first checkpoint: the same one each time the cell is run."""
    return random.Random(repr(cell)).randrange(STEPS_PER_EPOCH + 1, epochs * STEPS_PER_EPOCH + 1)


def break_off() -> None:
    raise ConnectionAbortedError("pulled")  # nobody's wrong input: it keeps its traceback


@pytest.mark.parametrize("host", HOSTS_SOLO_SLOW)
def test_a_run_that_broke_off_after_a_step_is_resumed_to_the_same_end(
    host: str, pretrain: Pretrain, tmp_path: Path, add_callback: Callable[[pl.Callback], None]
) -> None:
    settings = [f"host={host}", "data.num_workers=2", "max_epochs=2", "data.val_path=null"]
    whole = pretrain(*settings, f"runs_dir={tmp_path / 'whole'}").run
    add_callback(AtStep(random_step(2, host), break_off))
    with pytest.raises(ConnectionAbortedError, match="pulled"):
        pretrain(*settings)
    run = only_run(tmp_path / "runs")
    broken = read_results(run)
    assert broken["status"] == "failed"
    assert "pulled" in broken["error"]
    began = "2026-01-01T00:00:00+00:00"
    write_json(run / "results.json", {**broken, "started": began})
    add_seconds(run, 1000.0)
    resumed = pretrain(*settings, "ckpt=last")
    assert_same_run(resumed.run, whole)
    assert resumed.results["started"] == began
    assert resumed.results["seconds"] > 1000  # of all starts together


def add_seconds(run: Path, seconds: float) -> None:
    """Let a checkpoint be one of a run that had taken so much longer until then."""
    checkpoint = find_checkpoint(run)
    content = torch.load(checkpoint, weights_only=True)
    content["callbacks"]["ResultsWriter"]["seconds"] += seconds
    torch.save(content, checkpoint)


@pytest.mark.parametrize("setting", ["+max_steps=5", pytest.param("+overfit_batches=2", marks=pytest.mark.slow)])
def test_a_run_that_would_not_end_alike_is_not_resumed(
    setting: str, pretrain: Pretrain, add_callback: Callable[[pl.Callback], None]
) -> None:
    settings = ["diagnostics.enabled=false", "data.val_path=null", setting]
    add_callback(AtStep(4, break_off))
    with pytest.raises(ConnectionAbortedError, match="pulled"):
        pretrain(*settings)
    refused = pretrain(*settings, "ckpt=auto", status=2).stderr
    assert f"a run with {setting[1:].partition('=')[0]} cannot be resumed" in refused


@pytest.mark.slow
@pytest.mark.parametrize(
    ("images", "workers", "processes"),
    [pytest.param("solo", 0, 2, marks=pytest.mark.solo), ("ram", 2, 2), ("device", 0, 1)],
)
def test_a_run_killed_after_a_step_is_resumed_to_the_same_end(
    images: str, workers: int, processes: int, run_settings: list[str], kill_and_resume: Callable[..., list[str]]
) -> None:
    arguments = [*run_settings, *IMAGES[images], f"data.num_workers={workers}"]
    if processes > 1:
        arguments += [f"devices={processes}", "strategy=ddp", f"optimizer.batch_size={8 // processes}"]
    (log,) = kill_and_resume(arguments, [["step", random_step(3, images, workers, processes)]], processes)
    assert "resuming from" in log  # not begun anew
