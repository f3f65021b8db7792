"""A command that a signal or a full disk ends says so in one line, and leaves nothing half written."""

from __future__ import annotations

import errno
import io
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import RUN_COMMANDS, on_a_mount, one_line
from PIL import Image

from radial_vicreg import cli
from radial_vicreg.cli.commands import command_module
from radial_vicreg.errors import STOP_SIGNALS
from radial_vicreg.io import files
from radial_vicreg.io.stopping import SignalReceived, signals_raise

EndAt = Callable[[str, Callable[[], object]], None]

#: Every command that writes, with the file at which it is ended, the signal and the error that end it there.
#: RUN: a finished run's folder; OUT: a new folder.
COMMANDS = [
    ("probe RUN --probe knn", "-train.pt", signal.SIGTERM, errno.ENOSPC),
    ("export RUN --format timm", "backbone.pth", signal.SIGHUP, errno.EDQUOT),
    ("export RUN --format safetensors", "backbone.safetensors", signal.SIGUSR1, errno.EROFS),
    ("diagnose Z --out OUT", "diagnose.json", signal.SIGTERM, errno.EACCES),
    ("report RUN --out OUT", "figures/", signal.SIGHUP, errno.EIO),
    pytest.param(
        *("synthetic num_samples=40 steps=2 snapshots=1 out=OUT", "snapshots.npz", signal.SIGUSR1, errno.ENOSPC),
        marks=pytest.mark.slow,  # where Numba has not compiled it yet
    ),
    ("data digits --out OUT", "0.png", signal.SIGTERM, errno.EDQUOT),
]


@pytest.fixture(autouse=True)
def _signals_at_their_defaults() -> Iterator[None]:
    """Whatever the tests were started with: ``nohup`` has SIGHUP ignored."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in STOP_SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def arguments(finished_run: Callable[[str], Path], tmp_path: Path) -> Callable[[str], list[str]]:
    """Fills in the folders of a command; its run is a copy."""

    def fill(command: str) -> list[str]:
        places = {"RUN": str(tmp_path / "run"), "OUT": str(tmp_path / "out"), "Z": str(tmp_path / "z.npy")}
        if "RUN" in command:
            shutil.copytree(finished_run("standalone"), tmp_path / "run", symlinks=True)
        np.save(places["Z"], np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32))
        words = []
        for word in command.split():
            name = next((name for name in places if name in word.replace("=", "/").split("/")), "")
            words.append(word.replace(name, places.get(name, "")))
        return words

    return fill


@pytest.fixture
def end_at(monkeypatch: pytest.MonkeyPatch) -> EndAt:
    """Does something once, in the middle of writing a file whose path holds a word."""
    real = Image.Image.save

    def install(word: str, action: Callable[[], object]) -> None:
        done: list[str] = []

        class Watched(files._RememberingFile):
            def write(self, content: Any) -> int:
                try:
                    if word in str(self.name) and not done:
                        done.append(str(self.name))
                        io.FileIO.write(self, bytes(content)[: len(content) // 2])
                        action()
                    return super().write(content)
                except BaseException as error:
                    self.problem = error
                    raise

        def save(image: Image.Image, path: Any, *more: Any, **options: Any) -> None:
            if word in str(path) and not done:
                done.append(str(path))
                action()
            real(image, path, *more, **options)

        monkeypatch.setattr(files, "_RememberingFile", Watched)
        monkeypatch.setattr(Image.Image, "save", save)

    return install


def half_written(folder: Path) -> list[str]:
    """Files that nobody would remove: of a writer, and of a folder that is prepared beside its place."""
    return [str(path) for path in folder.rglob(".*") if path.name.endswith(".tmp") or path.name.startswith(".out-")]


@pytest.mark.parametrize(("command", "file", "number", "error"), COMMANDS, ids=lambda value: str(value).split(" ")[0])
def test_an_error_of_the_file_system_and_a_signal_are_one_line_and_leave_nothing_half_written(
    command: str,
    file: str,
    number: signal.Signals,
    error: int,
    arguments: Callable[[str], list[str]],
    end_at: EndAt,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = arguments(command)
    name = f"radial-vicreg {words[0]}"
    before = [signal.getsignal(each) for each in STOP_SIGNALS]

    def fail() -> None:
        place = [str(tmp_path / "out" / "0.png")] if words[0] == "data" else []
        raise OSError(error, os.strerror(error), *place)

    end_at(file, fail)
    capsys.readouterr()
    assert cli.main(words) == 1
    reason = "no space left to write" if error in (errno.ENOSPC, errno.EDQUOT) else os.strerror(error)
    one_line(capsys.readouterr().err.splitlines()[-1] + "\n", f"{name}: ", reason, str(tmp_path))
    assert half_written(tmp_path) == []

    end_at(file, lambda: os.kill(os.getpid(), number))
    assert cli.main(words) == 143
    assert capsys.readouterr().err.splitlines()[-1] == f"{name}: stopped by {number.name}"
    assert half_written(tmp_path) == []
    assert [signal.getsignal(each) for each in STOP_SIGNALS] == before


def test_a_worker_of_a_command_ends_by_the_signal_as_before() -> None:
    with signals_raise([signal.SIGTERM]):
        worker = os.fork()
        if worker == 0:
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(0)
        _, status = os.waitpid(worker, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGTERM


def test_what_a_library_makes_of_a_signal_is_still_the_signal() -> None:
    def save() -> None:  # PyTorch's, in the middle of a file
        try:
            os.kill(os.getpid(), signal.SIGHUP)
        except SignalReceived as stop:
            raise RuntimeError("unexpected pos 704 vs 598") from stop

    with pytest.raises(SignalReceived, match="stopped by SIGHUP"), signals_raise([signal.SIGHUP]):
        save()


@pytest.mark.parametrize("command", ["pretrain", "try", "sweep", "solo"], ids="command {}".format)
def test_signals_that_lightning_takes_where_nobody_has_are_left_to_it(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under Slurm it puts a job back into the queue on SIGUSR1."""
    found = {}

    def run(_: list[str]) -> int:
        found.update({each: signal.getsignal(each) is signal.SIG_DFL for each in STOP_SIGNALS})
        return 0

    monkeypatch.setattr(command_module(command), "run", run)
    assert cli.main([command]) == 0
    assert found == {each: command == "solo" or each is signal.SIGUSR1 for each in STOP_SIGNALS}


@pytest.mark.slow
def test_on_a_full_disk_every_command_says_so(finished_run: Callable[[str], Path], tmp_path: Path) -> None:
    """A real file system in memory with 8 KiB left: each claims its output, and then has no space to write it."""
    commands = """
probe $mount/run --probe knn
export $mount/run --format timm
diagnose z.npy --out $mount/z
report $mount/run --out $mount/report
data digits --out $mount/digits
synthetic num_samples=40 steps=2 out=$mount/synthetic
"""
    fill = """
cp -r "$run" "$mount/run"
dd if=/dev/zero of="$mount/filling" bs=1k count=100000 2>/dev/null
truncate -s -8192 "$mount/filling"
"""
    np.save(tmp_path / "z.npy", np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32))
    disk = 'mount -t tmpfs -o size=8m tmpfs "$mount"'
    work = f'{fill}{RUN_COMMANDS}find "$mount" -name ".*" ! -name "*.lock" >hidden'
    done = on_a_mount(disk, work, tmp_path, run=finished_run("standalone"), commands=commands)
    assert (tmp_path / "statuses").read_text().split() == ["1"] * 6, done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("radial-vicreg ")]
    assert ["no space left" in line for line in said] == [True] * 6, said
    assert "Traceback" not in done.stderr
    assert (tmp_path / "hidden").read_text() == ""
