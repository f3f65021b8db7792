"""``kill -9`` at every write of the last epoch: the run is not finished, is not counted, and is resumed to its end."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import HOSTS, TESTS, first_on_path, only_run, read_results, with_resnet, without

from radial_vicreg import cli
from radial_vicreg.report.collect import collect

FOLDER = Path(__file__).parent
KILLED = -9
Run = Callable[..., subprocess.CompletedProcess[str]]

#: A run that dies before the second writing of results.json in its last epoch: the one that says finished.
WITHOUT_THE_WORD = """
import sys
from pathlib import Path
from killed_at_writes import die_before
from radial_vicreg import cli
die_before(Path(sys.argv[1]), "os.rename results.json", 2)
cli.main(sys.argv[2:])
"""


@pytest.mark.slow
@pytest.mark.parametrize("host", HOSTS)
def test_a_run_that_died_after_its_last_checkpoint_is_finished_without_being_trained_anew(
    host: str, tiny_overrides: list[str], tmp_path: Path, run_python: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    network = with_resnet(tiny_overrides) if host == "solo" else tiny_overrides  # nothing is patched in that process
    settings = ["pretrain", *network, f"host={host}", "max_epochs=1", "diagnostics.enabled=false"]
    paths = first_on_path(TESTS), str(FOLDER)
    killed = run_python("-c", WITHOUT_THE_WORD, str(tmp_path), *settings, PYTHONPATH=":".join(paths))
    assert killed.returncode == KILLED, killed.stderr
    folder = only_run(tmp_path / "runs")
    left, checkpoint = read_results(folder), folder / "checkpoints" / "epoch-1.ckpt"
    weights = checkpoint.read_bytes()
    assert (left["status"], left["epochs"], "checkpoint" in left) == ("running", 1, False)
    runs, (problem,) = collect(tmp_path / "runs")
    assert (runs, problem.reason) == ([], "running after 1 of 1 epochs")

    assert cli.main([*settings, "ckpt=auto"]) == 0
    assert "finished: 1 epochs, 3 steps" in capsys.readouterr().out
    named = {"name": "epoch-1.ckpt", "epoch": 1, "step": 3}
    assert read_results(folder) == {**left, "status": "finished", "checkpoint": named}
    assert checkpoint.read_bytes() == weights
    assert not list(folder.rglob("*.tmp"))


def test_a_run_without_checkpoints_is_finished_with_none(tiny_overrides: list[str], tmp_path: Path) -> None:
    quick = ["max_epochs=1", "diagnostics.enabled=false", "checkpoint.enabled=false"]
    assert cli.main(["pretrain", *tiny_overrides, "host=standalone", *quick]) == 0
    results = read_results(only_run(tmp_path / "runs"))
    assert (results["status"], results["checkpoint"]) == ("finished", None)


@pytest.mark.slow
@pytest.mark.parametrize("host", HOSTS)
def test_each_write_of_the_last_epoch(host: str, run_settings: list[str], tmp_path: Path, run_python: Run) -> None:
    more = [f"host={host}", "diagnostics.max_images=4", "probes.frozen_linear=true"]
    said = killed_at_each_write(run_python, tmp_path, *run_settings, *more)
    for name in ("results.json", "epochs.csv", "epoch-3.ckpt", "last.ckpt"):
        assert f"os.rename {name}" in said
    assert "os.remove epoch-1.ckpt" in said


@pytest.mark.solo
@pytest.mark.slow
def test_each_write_of_the_last_epoch_under_solo_learn_s_script(
    tiny_overrides: list[str], tmp_path: Path, run_python: Run
) -> None:
    """Its frequency alone would leave the second epoch without a checkpoint."""
    arguments = ["--config-name", "radialvicreg", *without(tiny_overrides, "runs_dir", "data.val_path")]
    arguments += ["data.val_path=null", "checkpoint.frequency=2"]
    said = killed_at_each_write(run_python, tmp_path, "main_pretrain", *arguments)
    assert "-ep=1.ckpt" in said
    assert "os.remove" in said  # of the checkpoint before


def killed_at_each_write(run_python: Run, folder: Path, program: str, *arguments: str) -> str:
    """Check every attempt; the names of the writes."""
    script, path = str(FOLDER / "killed_at_writes.py"), first_on_path(TESTS)
    done = run_python(script, str(folder), program, *arguments, timeout=3000, PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    attempts = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    for index, attempt in enumerate(attempts, 1):
        outcome = (attempt["killed"], attempt["resumed"], attempt["compared"])
        assert outcome == (KILLED, 0, 0), f"{attempt}\n{(folder / f'{index}.log').read_text()}"
    statuses = [attempt["left"]["status"] for attempt in attempts]
    assert set(statuses) == {"running"}, statuses  # the word is the last write of all
    return " ".join(attempt["write"] for attempt in attempts)
