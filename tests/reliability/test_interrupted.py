"""A run that is stopped, finds its disk full or its checkpoint damaged loses nothing that was on the disk."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import lightning.pytorch as pl
import pytest
from helpers import (
    HOSTS,
    HOSTS_SOLO_SLOW,
    RUN_COMMANDS,
    AtStep,
    Pretrain,
    assert_same_run,
    checkpoint_of,
    on_a_mount,
    only_run,
    read_results,
    with_resnet,
)

from radial_vicreg import cli
from radial_vicreg.data.augmentation import MultiCrop
from radial_vicreg.io.locks import HeldLock
from radial_vicreg.train.callbacks.radius_monitor import RadiusMonitor
from radial_vicreg.train.callbacks.stop_on_signal import SIGNALS

STEPS_PER_EPOCH = 3
Add = Callable[[pl.Callback], None]


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    """A fault of the code under test must not leave pytest without Ctrl-C."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, *SIGNALS)}
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs start with it ignored
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and those of nohup with this one
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.mark.slow
@pytest.mark.parametrize("host", HOSTS)
def test_sigterm_stops_cleanly_and_the_run_goes_on_to_the_same_end(
    host: str, pretrain: Pretrain, tmp_path: Path, add_callback: Add
) -> None:
    settings = [f"host={host}", "data.num_workers=2"]
    whole = pretrain(*settings, f"runs_dir={tmp_path / 'whole'}").run
    add_callback(AtStep(STEPS_PER_EPOCH + 2, lambda: os.kill(os.getpid(), signal.SIGTERM)))
    stopped = pretrain(*settings, "ckpt=auto", status=143)
    assert stopped.results["status"] == "interrupted"
    assert "stopped by a signal in epoch 2 at step 5" in stopped.stderr
    assert str(stopped.run / "checkpoints" / "epoch-1.ckpt") in stopped.stderr
    assert_same_run(pretrain(*settings, "ckpt=auto").run, whole)


@pytest.mark.parametrize(
    ("number", "status"),
    [pytest.param(signal.SIGUSR1, 143, marks=pytest.mark.slow), (signal.SIGHUP, 143), (signal.SIGINT, 130)],
    ids=["SIGUSR1", "SIGHUP", "Ctrl-C"],
)
def test_other_signals_stop_a_run_as_well(
    number: signal.Signals, status: int, pretrain: Pretrain, add_callback: Add
) -> None:
    add_callback(AtStep(STEPS_PER_EPOCH + 1, lambda: os.kill(os.getpid(), number)))
    before = signal.getsignal(number)
    stopped = pretrain(status=status)
    assert signal.getsignal(number) == before
    assert stopped.results["status"] == "interrupted"
    assert checkpoint_of(stopped.run)["epoch"] == 0  # the first


@pytest.mark.parametrize("host", HOSTS_SOLO_SLOW)
def test_a_run_under_nohup_outlives_its_terminal(host: str, pretrain: Pretrain, add_callback: Add) -> None:
    add_callback(AtStep(2, lambda: os.kill(os.getpid(), signal.SIGHUP)))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    done = pretrain(f"host={host}", "max_epochs=1", "diagnostics.enabled=false")
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    assert done.results["status"] == "finished"


def test_a_run_that_is_stopped_before_its_first_checkpoint_says_so(pretrain: Pretrain, add_callback: Add) -> None:
    add_callback(AtStep(1, lambda: os.kill(os.getpid(), signal.SIGTERM)))
    assert "before the first checkpoint" in pretrain("diagnostics.enabled=false", status=143).stderr


@pytest.mark.slow
def test_a_damaged_checkpoint_gives_way_to_the_one_before_and_without_any_nothing_is_overwritten(
    pretrain: Pretrain, tmp_path: Path
) -> None:
    settings = ["data.num_workers=2", "checkpoint.frequency=2"]  # the third and last epoch is kept all the same
    folder = pretrain(*settings).run
    expected = Path(shutil.copytree(folder, tmp_path / "whole", symlinks=True))
    checkpoints = folder / "checkpoints"
    assert sorted(file.name for file in checkpoints.iterdir()) == ["epoch-2.ckpt", "epoch-3.ckpt", "last.ckpt"]
    newest = checkpoints / "epoch-3.ckpt"
    newest.write_bytes(newest.read_bytes()[:-1000])
    resumed = pretrain(*settings, "ckpt=last")
    (line,) = (line for line in resumed.stdout.splitlines() if "cannot be read" in line)
    assert str(newest) in line
    assert line.endswith(f"resuming from {checkpoints / 'epoch-2.ckpt'}")
    assert_same_run(folder, expected)

    before = (folder / "results.json").read_bytes()
    for damage, ckpt in ((b"", "last"), (b"no checkpoint", "auto"), (b"", f"'{checkpoints / 'last.ckpt'}'")):
        for file in checkpoints.glob("epoch-*.ckpt"):
            file.write_bytes(damage)
        said = pretrain(*settings, f"ckpt={ckpt}", status=2).stderr
        assert "epoch-3.ckpt" in said or "last.ckpt" in said
        assert "can be read" in said or "cannot be read" in said
    assert (folder / "results.json").read_bytes() == before


def test_a_full_disk_leaves_the_previous_checkpoint_and_says_so(
    pretrain: Pretrain, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def full(descriptor: int) -> None:
        if "epoch-2.ckpt" in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr("radial_vicreg.io.files.os.fsync", full)
        stopped = pretrain("max_epochs=2", status=1)
    checkpoints = stopped.run / "checkpoints"
    said = stopped.stderr.splitlines()[-1]
    assert said.startswith(f"radial-vicreg pretrain: no space left to write {checkpoints / 'epoch-2.ckpt'}")
    assert sorted(file.name for file in checkpoints.iterdir()) == ["epoch-1.ckpt", "last.ckpt"]
    assert checkpoint_of(stopped.run)["epoch"] == 0
    pretrain("max_epochs=2", "ckpt=last")


@pytest.mark.slow
def test_a_file_system_that_fills_up_in_the_second_checkpoint(run_settings: list[str], tmp_path: Path) -> None:
    settings = [*with_resnet(run_settings), "host=standalone"]  # a checkpoint fits, two do not
    disk = 'mount -t tmpfs -o size=140m tmpfs "$mount"'
    commands = " ".join([*settings, "runs_dir=$mount"])
    done = on_a_mount(disk, f'{RUN_COMMANDS}cp -r "$mount" copy', tmp_path, commands=commands)
    assert (tmp_path / "statuses").read_text().split() == ["1"], done.stderr
    assert "no space left to write" in (said := done.stderr.splitlines()[-1])
    assert "checkpoints/epoch-2.ckpt" in said
    folder = only_run(tmp_path / "copy")
    assert sorted(file.name for file in (folder / "checkpoints").iterdir()) == ["epoch-1.ckpt", "last.ckpt"]
    assert read_results(folder)["status"] == "failed"
    assert cli.main([*settings, f"ckpt='{folder / 'checkpoints' / 'last.ckpt'}'"]) == 0


def test_a_run_folder_takes_one_process_at_a_time(pretrain: Pretrain, add_callback: Add) -> None:
    settings = ["diagnostics.enabled=false", "max_epochs=2"]
    add_callback(AtStep(STEPS_PER_EPOCH + 1, lambda: os.kill(os.getpid(), signal.SIGTERM)))
    folder = pretrain(*settings, status=143).run
    before = (folder / "results.json").read_bytes()
    with HeldLock(folder / ".lock", f"training in {folder}"):  # as another process holds it
        refused = pretrain(*settings, "ckpt=last", status=2)
        assert f"another process is training in {folder} (process {os.getpid()} on " in refused.stderr
        assert (folder / "results.json").read_bytes() == before
        assert pretrain(*settings, "ckpt=last", "lock=take").results["status"] == "finished"


@pytest.mark.slow
def test_a_killed_worker_is_reported_with_the_cause(pretrain: Pretrain, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by a system that has run out of memory."""
    monkeypatch.setattr(RadiusMonitor, "on_train_start", lambda *_: None)  # it reads in this process
    monkeypatch.setattr(MultiCrop, "__call__", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    said = pretrain("max_epochs=1", "data.num_workers=1", status=1).stderr.splitlines()[-1]
    assert "DataLoader worker" in said
    assert "killed by signal: Killed" in said
    assert "lower data.num_workers" in said


SIGTERM_TO_THE_FIRST = """
import os, signal, sys
import lightning.pytorch as pl
from radial_vicreg import cli

class Terminate(pl.Callback):
    def on_train_batch_end(self, trainer, *_):
        if trainer.global_step == 4 and trainer.is_global_zero:
            os.kill(os.getpid(), signal.SIGTERM)

real = pl.Trainer.fit
def fit(trainer, *arguments, **keywords):
    trainer.callbacks.insert(0, Terminate())
    real(trainer, *arguments, **keywords)
pl.Trainer.fit = fit
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_sigterm_to_the_first_of_two_processes_stops_both(
    run_settings: list[str], tmp_path: Path, run_python: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    script = tmp_path / "terminated.py"
    script.write_text(SIGTERM_TO_THE_FIRST)
    two = ["host=standalone", "max_epochs=2", "devices=2", "strategy=ddp", "optimizer.batch_size=4"]
    stopped = run_python(str(script), *run_settings, *two, timeout=240, PYTHONWARNINGS="default")
    assert stopped.returncode == 143, stopped.stderr
    assert read_results(only_run(tmp_path / "runs"))["status"] == "interrupted"
    assert "stopped by a signal in epoch 2" in stopped.stderr
    assert "sync_dist" not in stopped.stderr  # every term is reduced when it is logged
