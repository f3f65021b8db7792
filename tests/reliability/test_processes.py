"""Data-loading processes that die, and several training processes that are told to stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
from helpers import AtStep, only_run, results_of

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
@pytest.mark.parametrize("workers", [0, 1])
def test_an_image_that_breaks_during_the_run_is_named_in_one_line(
    workers: int, run_settings: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "train" / "class_0" / "0.png"
    broken.write_bytes(broken.read_bytes()[:100])
    assert cli.main([*run_settings, *ARGUMENTS, f"data.num_workers={workers}"]) == 2
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
if "--whole" not in sys.argv:
    train.build_trainer = build
sys.exit(cli.main([a for a in sys.argv[1:] if a != "--whole"]))
"""


@pytest.mark.slow
def test_sigterm_to_the_first_of_two_processes_stops_both_and_the_run_goes_on(
    run_settings: list[str], tmp_path: Path, run_python: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    script = tmp_path / "terminated.py"
    script.write_text(SIGTERM_TO_BOTH)
    settings = [*run_settings, *ARGUMENTS, "devices=2", "strategy=ddp", "optimizer.batch_size=4", "ckpt=auto"]
    stopped = run_python(str(script), *settings, timeout=240)
    assert stopped.returncode == 143, stopped.stderr
    folder = only_run(tmp_path / "runs")
    assert results_of(folder)["status"] == "interrupted"
    assert "stopped by a signal in epoch 2" in stopped.stderr
    resumed = run_python(str(script), *settings, "--whole", timeout=240, PYTHONWARNINGS="default")
    assert resumed.returncode == 0, resumed.stderr
    assert "sync_dist" not in resumed.stderr  # every term is reduced when it is logged
    assert results_of(folder)["status"] == "finished"


@pytest.mark.slow
def test_two_processes_that_resume_one_run_do_not_overwrite_each_other(
    run_settings: list[str], tmp_path: Path, add_callback: Callable[[pl.Callback], None]
) -> None:
    settings = [*run_settings, *ARGUMENTS, "max_epochs=40"]
    add_callback(AtStep(4, lambda: os.kill(os.getpid(), signal.SIGTERM)))  # in the second epoch
    assert cli.main(settings) == 143
    last = only_run(tmp_path / "runs") / "checkpoints" / "last.ckpt"
    command = [sys.executable, "-m", "radial_vicreg.cli", *settings, f"ckpt='{last}'"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    first, second = (
        subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    )
    try:
        # Whichever comes second is refused while the other trains on; then that one is stopped.
        while (refused := next((p for p in (first, second) if p.poll() is not None), None)) is None:
            try:
                first.wait(0.2)
            except subprocess.TimeoutExpired:
                continue
        other = second if refused is first else first
        assert refused.returncode == 2
        assert refused.stderr is not None
        assert "another process is training in" in refused.stderr.read()
        other.send_signal(signal.SIGTERM)
        assert other.wait(120) == 143
    finally:
        for process in (first, second):
            process.kill()
            process.wait()
