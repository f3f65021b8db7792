"""Rank and number of processes are the trainer's; what a job or a launcher started besides is refused in one line."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from configs import make_config
from helpers import (
    Pretrain,
    assert_same_run,
    finished,
    on_two_nodes,
    one_line,
    only_run,
    read_results,
    started,
    tiny_settings,
    write_images,
)
from lightning.pytorch.utilities import rank_zero_only

from radial_vicreg.errors import UserError
from radial_vicreg.train.processes import check_processes

RunPython = Callable[..., subprocess.CompletedProcess[str]]

#: Ranks that a job or another program has left in the environment: they are no process of the trainer.
ENVIRONMENTS = {
    "slurm": {"SLURM_PROCID": "1", "SLURM_LOCALID": "1", "SLURM_JOB_ID": "1"},
    "torchrun": {"RANK": "3", "LOCAL_RANK": "3"},
}


QUICK = ["host=standalone", "diagnostics.enabled=false", "probes.encoder_knn=false", "max_epochs=1"]


def assert_trained_as_the_first(run: Path, printed: str) -> None:
    assert "host: standalone" in printed
    assert "epoch 1/1" in printed
    with (run / "epochs.csv").open() as stream:
        assert any(row.get("train_loss_epoch") for row in csv.DictReader(stream))


def test_a_rank_that_lightning_has_read_from_the_environment_counts_for_nothing(
    pretrain: Pretrain, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRONMENTS["slurm"].items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(rank_zero_only, "rank", 1)  # what it reads there when it is imported
    done = pretrain(*QUICK)
    assert_trained_as_the_first(done.run, done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ENVIRONMENTS)
def test_one_process_is_the_first_whatever_is_left_finds_its_run_again_and_logs_to_wandb(
    launcher: str, run_settings: list[str], tmp_path: Path, run_python: RunPython
) -> None:
    pytest.importorskip("wandb")
    command = ["-m", "radial_vicreg.cli", *run_settings, *QUICK, "wandb.enabled=true", "wandb.offline=true"]
    environment = {**ENVIRONMENTS[launcher], "WANDB_SILENT": "true"}
    done = run_python(*command, **environment)
    assert done.returncode == 0, done.stderr
    run = only_run(tmp_path / "runs")
    assert_trained_as_the_first(run, done.stdout)
    assert list(run.rglob("offline-run-*/*.wandb"))
    assert run_python(*command, "ckpt=auto", **environment).returncode == 0
    assert only_run(tmp_path / "runs") == run  # and not started anew beside it


#: What torchrun and Slurm set for the first of two processes.
TORCHRUN = {"TORCHELASTIC_RUN_ID": "none", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0"}
SLURM = {"SLURM_NTASKS": "2", "SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "job", "SLURM_PROCID": "0"}
SLURM |= {"SLURM_LOCALID": "0", "SLURM_NODEID": "0"}


@pytest.mark.parametrize(
    ("environment", "overrides", "words"),
    [
        (
            *({}, ["num_nodes=2", "strategy=single_device"]),
            ("strategy=single_device trains with 1 process", "num_nodes=2", "request 2"),
        ),
        ({}, ["strategy=fsdp_cpu_offload"], ("strategy=fsdp_cpu_offload is not supported",)),
        (
            *({}, ["devices=2", "+use_distributed_sampler=false"]),
            ("use_distributed_sampler must not be false with 2 processes", "omit it"),
        ),
        (
            *(TORCHRUN, ["devices=3", "strategy=ddp"]),
            ("torchrun started 2 processes", "devices=3", "request 3", "--nproc_per_node=3"),
        ),
        (
            *(TORCHRUN, ["devices=1", "num_nodes=2"]),
            ("torchrun started 2 processes on this machine", "devices=1", "--nnodes=2 --nproc_per_node=1"),
        ),
        (SLURM, ["devices=2", "strategy=ddp"], ("--ntasks=2", "--nodes=1 --ntasks-per-node=2", "srun")),
        (
            *({**SLURM, "SLURM_NTASKS_PER_NODE": "2"}, ["devices=1"]),
            ("Slurm started 2 processes", "devices=1", "request 1"),
        ),
        (
            *({**SLURM, "SLURM_NTASKS": "1"}, ["devices=2", "strategy=ddp"]),
            ("Slurm started 1 process", "devices=2", "request 2", "--ntasks-per-node=2"),
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_another_number_of_processes_is_one_line_before_anything_is_written_and_of_a_check_too(
    environment: dict[str, str],
    overrides: list[str],
    words: tuple[str, ...],
    pretrain: Pretrain,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    for more in ([], ["--check"]):
        refused = pretrain(*QUICK, *overrides, *more, status=2)
        one_line(refused.stderr, *words)
        assert not list(refused.folder.glob("*"))


@pytest.mark.parametrize("started", [1, 3])
def test_a_trainer_of_fewer_or_more_processes_is_refused(started: int) -> None:
    trainer: Any = SimpleNamespace(world_size=started)
    with pytest.raises(UserError, match=rf"trains with {started} process(es)?, but devices=2 .* request 2"):
        check_processes(make_config(data__train_path="train", devices=2), trainer)


TWO = ["host=standalone", "diagnostics.enabled=false", "optimizer.batch_size=4", "strategy=ddp", "max_epochs=1"]


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("images")
    return write_images(root / "train"), write_images(root / "val", per_class=4)


@pytest.fixture(scope="module")
def by_lightning(images: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two processes that Lightning itself starts."""
    root = tmp_path_factory.mktemp("lightning")
    command = ["-m", "radial_vicreg.cli", "pretrain", *tiny_settings(*images, root), *TWO, "devices=2"]
    assert finished(started([sys.executable, *command], root)).returncode == 0
    return only_run(root / "runs")


@pytest.mark.slow
def test_torchrun_with_matching_devices_trains_the_same_run(
    images: tuple[Path, Path], by_lightning: Path, tmp_path: Path
) -> None:
    launch = [str(Path(sys.executable).with_name("torchrun")), "--standalone", "--nproc_per_node=2"]
    settings = [*tiny_settings(*images, tmp_path), *TWO, "devices=2"]
    done = finished(started([*launch, "-m", "radial_vicreg.cli", "pretrain", *settings], tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("run folder: ") == 1
    run = only_run(tmp_path / "runs")
    assert read_results(run)["processes"] == 2
    assert_same_run(run, by_lightning)


@pytest.mark.slow
def test_processes_of_two_machines_train_the_same_run(
    images: tuple[Path, Path], by_lightning: Path, tmp_path: Path
) -> None:
    settings = [*tiny_settings(*images, tmp_path), *TWO, "devices=1", "num_nodes=2"]
    nodes = on_two_nodes(["-m", "radial_vicreg.cli", "pretrain", *settings], tmp_path)
    assert [node.returncode for node in nodes] == [0, 0], nodes[0].stderr + nodes[1].stderr
    assert "run folder: " not in nodes[1].stdout
    run = only_run(tmp_path / "runs")
    assert read_results(run)["processes"] == 2
    assert_same_run(run, by_lightning)
