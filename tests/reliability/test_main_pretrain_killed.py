"""solo-learn's main_pretrain.py, killed and stopped: the rerun leaves complete results."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from helpers import TESTS, first_on_path, read_results, without

from radial_vicreg.runs.identity import config_hash

pytestmark = [pytest.mark.solo, pytest.mark.slow]
FOLDER = Path(__file__).parent
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def arguments(tiny_overrides: list[str]) -> list[str]:
    """Without validation, and without what only ``radial-vicreg pretrain`` reads."""
    kept = without(tiny_overrides, "runs_dir", "max_epochs")
    return ["--config-name", "radialvicreg", *kept, "data.val_path=null", "diagnostics.every_n_epochs=1"]


@pytest.mark.parametrize(
    ("workers", "processes", "validated"),
    [(0, 1, False), (2, 2, True)],
    ids=["no workers or validation", "workers, processes, validation"],
)
def test_a_run_killed_after_a_step_is_resumed_to_the_same_end(
    workers: int,
    processes: int,
    validated: bool,
    arguments: list[str],
    tmp_path: Path,
    kill_and_resume: Callable[..., list[str]],
) -> None:
    """Of the same number of processes; augmentations by torchvision, not by DALI."""
    settings = [*arguments, "max_epochs=3", f"data.num_workers={workers}", "probes.encoder_knn=true"]
    settings.append("method_kwargs.radial_objective=wasserstein")
    if validated:
        settings.append(f"data.val_path={tmp_path / 'val'}")
    if processes > 1:
        settings += [f"num_nodes={processes}", "strategy=ddp", f"optimizer.batch_size={8 // processes}"]
    step = random.Random(repr((workers, processes, validated))).randrange(4, 10)
    (log,) = kill_and_resume(settings, [["step", step]], processes)
    assert "Resuming from previous checkpoint" in log
    if processes > 1:
        check_rates_of_two_nodes(tmp_path / "whole")


def check_rates_of_two_nodes(folder: Path) -> None:
    """On CPUs two processes of the script are two nodes of one device, of 4 images each."""
    (file,) = folder.glob("trained_models/*/*/results.json")
    results, (checkpoint,) = read_results(file.parent), file.parent.glob("*.ckpt")
    assert (results["processes"], results["config"]["optimizer"]["lr"]) == (2, 0.3)
    assert results["config_hash"] == config_hash(results["config"], processes=2)
    (states,) = torch.load(checkpoint, weights_only=True)["optimizer_states"]
    assert states["param_groups"][0]["initial_lr"] == pytest.approx(0.3 * 4 * 2 / 256)


#: Runs the script with a callback that sends signals at the moment that the first argument names.
SIGNAL = """
import multiprocessing, os, signal, subprocess, sys
import lightning.pytorch as pl
import pytest
from helpers import make_solo_vit_small
from killed_runs import run_script
from radial_vicreg.train.step import RadialTraining

where = sys.argv[1]
make_solo_vit_small(pytest.MonkeyPatch())
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup's children start with it ignored

class Terminate(pl.Callback):
    def on_validation_batch_start(self, trainer, *_):
        if trainer.sanity_checking and where == "sanity check":
            os.kill(os.getpid(), signal.SIGTERM)

    def on_train_batch_end(self, trainer, *_):
        if trainer.global_step != 4:
            return
        if where == "hang-up":
            os.kill(os.getpid(), signal.SIGHUP)
        if where == "group":
            os.killpg(0, signal.SIGTERM)
        if where == "workers first":
            workers = [str(worker.pid) for worker in multiprocessing.active_children()]
            # By another process: to a parent's they exit with 0.
            subprocess.run(["kill", "-TERM", *workers])
            subprocess.Popen(["sh", "-c", f"sleep 0.5; kill -TERM {os.getpid()}"])

real = RadialTraining.configure_callbacks
def with_terminate(callbacks):
    # Last when the workers get it, too: then they die before the run can stop in order.
    return [Terminate(), *callbacks] if where == "hang-up" else [*callbacks, Terminate()]

RadialTraining.configure_callbacks = lambda self: with_terminate(real(self))
run_script(sys.argv[2:])
"""


@pytest.fixture
def script(arguments: list[str], tmp_path: Path, run_python: Run) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the script with the small network; it sends itself a signal where it is told to."""

    def run(*settings: str, where: str = "nowhere") -> subprocess.CompletedProcess[str]:
        launcher = tmp_path / "launcher.py"
        launcher.write_text(SIGNAL)
        path = f"{FOLDER}{os.pathsep}{first_on_path(TESTS)}"
        return run_python(str(launcher), where, *arguments, *settings, PYTHONPATH=path)

    return run


def test_a_finished_run_of_an_earlier_version_gets_its_results_when_it_is_run_again(
    script: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """It was killed after its last checkpoint, which holds what the callbacks knew the epoch before."""
    assert (done := script("max_epochs=2")).returncode == 0, done.stderr
    (file,) = tmp_path.glob("trained_models/*/*/results.json")
    (checkpoint,) = file.parent.glob("*.ckpt")
    whole = read_results(file.parent)
    content = torch.load(checkpoint, weights_only=True)
    states = content["callbacks"]
    assert states["RadiusMonitor"].pop("final_radii") is not None
    for name in ("ResultsWriter", "RadiusMonitor"):
        del states[name]["history"][-1]
    torch.save(content, checkpoint)
    late = {**whole, "status": "running", "epochs": 1, "steps": 3, "history": whole["history"][:1]}
    late["radii"] = {**whole["radii"], "final": None}
    file.write_text(json.dumps(late))
    assert (done := script("max_epochs=2")).returncode == 0, done.stderr
    (again,) = tmp_path.glob("trained_models/*/*/results.json")
    found = read_results(again.parent)
    assert [found[key] for key in ("status", "epochs", "steps")] == ["finished", 2, 6]
    assert found["radii"]["final"]["eval"]["w1_chi"] == pytest.approx(whole["radii"]["final"]["eval"]["w1_chi"])
    assert found["loss_terms"] == {}  # nobody knows them any more, and the first epoch's are others


@pytest.mark.parametrize(
    ("where", "name", "workers"), [("hang-up", "SIGHUP", 0), ("group", "SIGTERM", 2), ("workers first", "SIGTERM", 2)]
)
def test_a_signal_is_an_interruption_with_its_reason_and_exit_status(
    where: str, name: str, workers: int, script: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """To the process alone, and to its data-loading processes as well, as Slurm sends it."""
    done = script("max_epochs=2", f"data.num_workers={workers}", where=where)
    assert done.returncode == 143, done.stderr[-4000:]
    (file,) = tmp_path.glob("trained_models/*/*/results.json")
    found = read_results(file.parent)
    assert (found["status"], found["error"], found["epochs"]) == ("interrupted", f"stopped by {name}", 1)
    assert re.search(f"stopped by {name} in epoch 2 at step [45]", done.stderr)
    assert "Traceback" not in done.stderr


def test_sigterm_before_the_first_step_is_no_success_either(
    script: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    settings = [f"data.val_path={tmp_path / 'val'}", "max_epochs=1", "optimizer.batch_size=2"]
    done = script(*settings, where="sanity check")
    assert done.returncode == 143, done.stderr[-4000:]
