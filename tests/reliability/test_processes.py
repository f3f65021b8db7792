"""Data-loading processes that die, and several training processes that are told to stop."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import only_run, results_of

from radial_vicreg import cli

ARGUMENTS = ["host=standalone", "max_epochs=2"]


def killed_in_worker(path: str | Path) -> Any:
    """Reads no image, but is killed, as by a system that has run out of memory."""
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_killed_worker_is_reported_with_the_cause(
    run_settings: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from radial_vicreg.data.augmentation import MultiCrop
    from radial_vicreg.train.callbacks.radius_monitor import RadiusMonitor

    monkeypatch.setattr(RadiusMonitor, "on_train_start", lambda *_: None)  # it reads in this process
    monkeypatch.setattr(MultiCrop, "__call__", lambda _, image: killed_in_worker(""))
    assert cli.main([*run_settings, *ARGUMENTS, "data.num_workers=1"]) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert "DataLoader worker" in said
    assert "killed by signal: Killed" in said
    assert "lower data.num_workers" in said


@pytest.mark.slow
def test_an_image_that_breaks_during_the_run_is_named_in_one_line(
    run_settings: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "train" / "class_0" / "0.png"
    broken.write_bytes(broken.read_bytes()[:100])
    assert cli.main([*run_settings, *ARGUMENTS, "data.num_workers=1"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[-1].startswith(f"radial-vicreg pretrain: error: cannot read the image {broken}")
    assert not any("Traceback" in line for line in said)


SIGTERM_TO_BOTH = """
import os, signal, sys
import lightning.pytorch as pl
from radial_vicreg import cli
from radial_vicreg.train import run as train

class Terminate(pl.Callback):
    def on_train_batch_end(self, trainer, *_):
        if trainer.global_step == 4 and trainer.is_global_zero:
            os.kill(os.getpid(), signal.SIGTERM)

real = train.build_trainer
def build(*arguments, **keywords):
    trainer = real(*arguments, **keywords)
    trainer.callbacks.insert(0, Terminate())
    return trainer
train.build_trainer = build
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_sigterm_to_the_first_of_two_processes_stops_both(
    run_settings: list[str], tmp_path: Path, run_python: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    script = tmp_path / "terminated.py"
    script.write_text(SIGTERM_TO_BOTH)
    settings = [*run_settings, *ARGUMENTS, "devices=2", "strategy=ddp", "optimizer.batch_size=4"]
    stopped = run_python(str(script), *settings, timeout=240, PYTHONWARNINGS="default")
    assert stopped.returncode == 143, stopped.stderr
    assert results_of(only_run(tmp_path / "runs"))["status"] == "interrupted"
    assert "stopped by a signal in epoch 2" in stopped.stderr
    assert "sync_dist" not in stopped.stderr  # every term is reduced when it is logged
