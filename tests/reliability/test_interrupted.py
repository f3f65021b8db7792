"""A run that is stopped, finds its disk full or its checkpoint damaged loses nothing that was on the disk."""

from __future__ import annotations

import errno
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import lightning.pytorch as pl
import pytest
from helpers import (
    HOSTS,
    HOSTS_SOLO_SLOW,
    RUN_COMMANDS,
    AtStep,
    assert_same_run,
    checkpoint_of,
    on_a_mount,
    only_run,
    results_of,
    with_resnet,
)

from radial_vicreg import cli
from radial_vicreg.io.locks import HeldLock
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
    host: str, run_settings: list[str], tmp_path: Path, add_callback: Add, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = [*run_settings, f"host={host}", "data.num_workers=2"]
    assert cli.main([*settings, f"runs_dir={tmp_path / 'whole'}"]) == 0
    add_callback(AtStep(STEPS_PER_EPOCH + 2, lambda: os.kill(os.getpid(), signal.SIGTERM)))
    assert cli.main([*settings, "ckpt=auto"]) == 143
    folder = only_run(tmp_path / "runs")
    assert results_of(folder)["status"] == "interrupted"
    assert "stopped by a signal in epoch 2 at step 5" in (said := capsys.readouterr().err)
    assert str(folder / "checkpoints" / "epoch-1.ckpt") in said
    assert cli.main([*settings, "ckpt=auto"]) == 0
    assert_same_run(folder, only_run(tmp_path / "whole"))


@pytest.mark.parametrize(
    ("number", "status"),
    [pytest.param(signal.SIGUSR1, 143, marks=pytest.mark.slow), (signal.SIGHUP, 143), (signal.SIGINT, 130)],
    ids=["SIGUSR1", "SIGHUP", "Ctrl-C"],
)
def test_other_signals_stop_a_run_as_well(
    number: signal.Signals, status: int, run_settings: list[str], tmp_path: Path, add_callback: Add
) -> None:
    add_callback(AtStep(STEPS_PER_EPOCH + 1, lambda: os.kill(os.getpid(), number)))
    before = signal.getsignal(number)
    assert cli.main([*run_settings, "host=standalone"]) == status
    assert signal.getsignal(number) == before
    folder = only_run(tmp_path / "runs")
    assert results_of(folder)["status"] == "interrupted"
    assert checkpoint_of(folder)["epoch"] == 0  # the first


@pytest.mark.parametrize("host", HOSTS_SOLO_SLOW)
def test_a_run_under_nohup_outlives_its_terminal(
    host: str, run_settings: list[str], tmp_path: Path, add_callback: Add
) -> None:
    add_callback(AtStep(STEPS_PER_EPOCH + 1, lambda: os.kill(os.getpid(), signal.SIGHUP)))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    assert cli.main([*run_settings, f"host={host}", "max_epochs=2"]) == 0
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    assert results_of(only_run(tmp_path / "runs"))["status"] == "finished"


def test_a_run_that_is_stopped_before_its_first_checkpoint_says_so(
    run_settings: list[str], add_callback: Add, capsys: pytest.CaptureFixture[str]
) -> None:
    add_callback(AtStep(1, lambda: os.kill(os.getpid(), signal.SIGTERM)))
    assert cli.main([*run_settings, "host=standalone", "diagnostics.enabled=false"]) == 143
    assert "before the first checkpoint" in capsys.readouterr().err


@pytest.mark.slow
def test_a_damaged_checkpoint_gives_way_to_the_one_before_and_without_any_nothing_is_overwritten(
    run_settings: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = [*run_settings, "host=standalone", "data.num_workers=2"]
    assert cli.main(settings) == 0
    folder = only_run(tmp_path / "runs")
    expected = Path(shutil.copytree(folder, tmp_path / "whole", symlinks=True))
    checkpoints = folder / "checkpoints"
    assert sorted(file.name for file in checkpoints.iterdir()) == ["epoch-2.ckpt", "epoch-3.ckpt", "last.ckpt"]
    newest = checkpoints / "epoch-3.ckpt"
    newest.write_bytes(newest.read_bytes()[:-1000])
    capsys.readouterr()
    assert cli.main([*settings, "ckpt=last"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if "cannot be read" in line)
    assert str(newest) in line
    assert line.endswith(f"resuming from {checkpoints / 'epoch-2.ckpt'}")
    assert_same_run(folder, expected)

    before = (folder / "results.json").read_bytes()
    for damage, ckpt in ((b"", "last"), (b"no checkpoint", "auto"), (b"", f"'{checkpoints / 'last.ckpt'}'")):
        for file in checkpoints.glob("epoch-*.ckpt"):
            file.write_bytes(damage)
        assert cli.main([*settings, f"ckpt={ckpt}"]) == 2
        said = capsys.readouterr().err
        assert "epoch-3.ckpt" in said or "last.ckpt" in said
        assert "can be read" in said or "cannot be read" in said
    assert (folder / "results.json").read_bytes() == before


def test_a_full_disk_leaves_the_previous_checkpoint_and_says_so(
    run_settings: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = os.fsync

    def full(descriptor: int) -> None:
        if "epoch-2.ckpt" in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr("radial_vicreg.io.files.os.fsync", full)
        assert cli.main([*run_settings, "host=standalone"]) == 1
    folder = only_run(tmp_path / "runs")
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("radial-vicreg pretrain: no space left")
    assert f"no space left to write {folder / 'checkpoints' / 'epoch-2.ckpt'}" in said
    assert sorted(file.name for file in (folder / "checkpoints").iterdir()) == ["epoch-1.ckpt", "last.ckpt"]
    assert checkpoint_of(folder)["epoch"] == 0
    assert cli.main([*run_settings, "host=standalone", "ckpt=last"]) == 0


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
    assert results_of(folder)["status"] == "failed"
    assert cli.main([*settings, f"ckpt='{folder / 'checkpoints' / 'last.ckpt'}'"]) == 0


def test_a_run_folder_takes_one_process_at_a_time(
    run_settings: list[str], tmp_path: Path, add_callback: Add, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = [*run_settings, "host=standalone", "diagnostics.enabled=false"]
    add_callback(AtStep(STEPS_PER_EPOCH + 1, lambda: os.kill(os.getpid(), signal.SIGTERM)))
    assert cli.main(settings) == 143
    folder = only_run(tmp_path / "runs")
    before = (folder / "results.json").read_bytes()
    with HeldLock(folder / ".lock", f"training in {folder}"):  # as another process holds it
        assert cli.main([*settings, "ckpt=last"]) == 2
        said = capsys.readouterr().err
        assert f"another process is training in {folder} (process {os.getpid()} on " in said
        assert (folder / "results.json").read_bytes() == before
        assert cli.main([*settings, "ckpt=last", "lock=take"]) == 0
    assert results_of(folder)["status"] == "finished"


@pytest.mark.slow
def test_the_last_epoch_is_kept_whatever_the_frequency(run_settings: list[str], tmp_path: Path) -> None:
    assert cli.main([*run_settings, "host=standalone", "checkpoint.frequency=2"]) == 0
    folder = only_run(tmp_path / "runs")
    assert checkpoint_of(folder)["epoch"] == 2
    assert sorted(file.name for file in (folder / "checkpoints").glob("e*")) == ["epoch-2.ckpt", "epoch-3.ckpt"]
