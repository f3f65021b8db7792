"""Killed before any write of its last epoch, a run is not finished, is not counted, and is resumed to its end."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import HOSTS, TESTS, Pretrain, first_on_path, without

FOLDER = Path(__file__).parent
Run = Callable[..., subprocess.CompletedProcess[str]]


def test_a_run_without_checkpoints_is_finished_with_none(pretrain: Pretrain) -> None:
    results = pretrain("max_epochs=1", "diagnostics.enabled=false", "checkpoint.enabled=false").results
    assert (results["status"], results["checkpoint"]) == ("finished", None)


@pytest.mark.slow
@pytest.mark.parametrize("host", HOSTS)
def test_each_write_of_the_last_epoch(host: str, run_settings: list[str], tmp_path: Path, run_python: Run) -> None:
    left = left_before_each_write(run_python, tmp_path, *run_settings, f"host={host}", "diagnostics.max_images=4")
    for name in ("radii.png", "results.json", "epochs.csv", "epoch-3.ckpt", "last.ckpt"):
        assert f"os.rename {name}" in left
    assert left["os.remove epoch-1.ckpt"]["opened"] == 3
    # The last write of all is the word: without it, the run is complete but for that.
    reasons = ["running after 3 of 3 epochs"]
    assert left["os.rename results.json"] == {"status": "running", "epochs": 3, "opened": 3, "reasons": reasons}


@pytest.mark.solo
@pytest.mark.slow
def test_each_write_of_the_last_epoch_under_solo_learn_s_script(
    tiny_overrides: list[str], tmp_path: Path, run_python: Run
) -> None:
    """Its frequency alone would leave the second epoch without a checkpoint."""
    arguments = ["--config-name", "radialvicreg", *without(tiny_overrides, "runs_dir", "data.val_path")]
    arguments += ["data.val_path=null", "checkpoint.frequency=2"]
    left = " ".join(left_before_each_write(run_python, tmp_path, *arguments))
    assert "-ep=1.ckpt" in left
    assert "os.remove" in left  # of the checkpoint before


def left_before_each_write(run_python: Run, folder: Path, *arguments: str) -> dict[str, Any]:
    """Check that each is resumed to the same end; what was left before each write, of two of one name the last."""
    script, path = str(FOLDER / "killed_at_writes.py"), first_on_path(TESTS)
    done = run_python(script, str(folder), *arguments, timeout=3000, PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    for line in lines:
        assert line["resumed"] == 0, f"{line['write']}: {line['left']}\n{line['said']}"
        assert line["left"]["status"] == "running", line
    return {line["write"]: line["left"] for line in lines}
