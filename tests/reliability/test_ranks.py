"""A process's rank is its trainer's, whatever the environment of a job says."""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import only_run, read_results
from lightning.pytorch.utilities import rank_zero_only

from radial_vicreg import cli

RunPython = Callable[..., subprocess.CompletedProcess[str]]

#: `srun -n 4`, one seed a task: three of the four tasks have a rank that is no process of their trainer.
ENVIRONMENTS = {
    "slurm": {"SLURM_PROCID": "1", "SLURM_LOCALID": "1", "SLURM_JOB_ID": "1"},
    "torchrun": {"RANK": "3", "LOCAL_RANK": "3"},
}


@pytest.fixture
def settings(run_settings: list[str]) -> list[str]:
    more = ["host=standalone", "diagnostics.enabled=false", "probes.encoder_knn=false", "max_epochs=1"]
    return [*run_settings, *more]


def assert_trained_as_the_first(tmp_path: Path, printed: str) -> None:
    assert "host: standalone" in printed
    assert "epoch 1/1" in printed
    with (only_run(tmp_path / "runs") / "epochs.csv").open() as stream:
        assert any(row.get("train_loss_epoch") for row in csv.DictReader(stream))


def test_a_rank_that_lightning_has_read_from_the_environment_counts_for_nothing(
    settings: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in ENVIRONMENTS["slurm"].items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(rank_zero_only, "rank", 1)  # what it reads there when it is imported
    assert cli.main(settings) == 0
    assert_trained_as_the_first(tmp_path, capsys.readouterr().out)


@pytest.mark.slow
@pytest.mark.parametrize("environment", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_one_process_is_the_first_whatever_the_environment_says(
    environment: dict[str, str], settings: list[str], tmp_path: Path, run_python: RunPython
) -> None:
    done = run_python("-m", "radial_vicreg.cli", *settings, **environment)
    assert done.returncode == 0, done.stderr
    assert_trained_as_the_first(tmp_path, done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("environment", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_a_process_that_the_environment_calls_another_finds_its_run_again(
    environment: dict[str, str], settings: list[str], tmp_path: Path, run_python: RunPython
) -> None:
    command = ["-m", "radial_vicreg.cli", *settings]
    assert run_python(*command, **environment).returncode == 0
    run = only_run(tmp_path / "runs")
    for ckpt in ("last", "auto"):
        assert run_python(*command, f"ckpt={ckpt}", **environment).returncode == 0
    assert only_run(tmp_path / "runs") == run  # and not started anew beside it
    assert read_results(run)["status"] == "finished"


@pytest.mark.slow
def test_wandb_logs_from_a_process_that_the_environment_calls_another(
    run_settings: list[str], tmp_path: Path, run_python: RunPython
) -> None:
    pytest.importorskip("wandb")
    settings = [*run_settings, "host=standalone", "diagnostics.enabled=false", "max_epochs=1"]
    wandb = ["wandb.enabled=true", "wandb.offline=true"]
    done = run_python("-m", "radial_vicreg.cli", *settings, *wandb, **ENVIRONMENTS["slurm"], WANDB_SILENT="true")
    assert done.returncode == 0, done.stderr
    assert list(only_run(tmp_path / "runs").rglob("offline-run-*/*.wandb"))


@pytest.mark.slow
def test_a_job_of_another_number_of_processes_leaves_no_empty_folder(
    run_settings: list[str], tmp_path: Path, run_python: RunPython
) -> None:
    environment = {"SLURM_NTASKS": "4", "SLURM_NTASKS_PER_NODE": "4", "SLURM_JOB_NAME": "job", "SLURM_JOB_ID": "7"}
    environment |= dict.fromkeys(("SLURM_NODEID", "SLURM_PROCID", "SLURM_LOCALID"), "0")
    done = run_python(
        *("-m", "radial_vicreg.cli", *run_settings, "host=standalone", "devices=2", "strategy=ddp"), **environment
    )
    assert done.returncode == 2
    assert "SLURM" in done.stderr
    assert not (tmp_path / "runs").exists()
