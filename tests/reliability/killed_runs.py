"""Trains to the end; at each of some moments trains again, ``kill -9``, then the same command; compares the ends.

    PYTHONPATH=tests python killed_runs.py FOLDER PROCESSES MOMENTS ARGUMENT ...

MOMENTS is a list in JSON: ``["step", 4]`` after a training step, ``["call", 0.3]`` after a share of a training's
function calls, ``["file", 2, 0.5]`` when half of the second checkpoint is in its file. ARGUMENT is what follows
`radial-vicreg` or, where it does not begin with `pretrain`, solo-learn's ``main_pretrain.py``.

The runs go to FOLDER/whole and FOLDER/<n>. Every process is a fork of this one, which has imported everything and
computed nothing; several of them are one run as under ``torchrun`` or, of the script, as on as many nodes. Prints a
line of JSON for each moment; what a run left is removed when it is the same as FOLDER/whole.
"""

from __future__ import annotations

import json
import os
import runpy
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import matplotlib.pyplot  # noqa: F401  here once instead of in every fork
import pytest
from helpers import AtStep, assert_same_run, free_port, make_solo_vit_small

from radial_vicreg import cli
from radial_vicreg.runs import checkpoints
from radial_vicreg.solo.detect import find_solo_learn
from radial_vicreg.train import run  # noqa: F401  here once as well

real_fit, real_file = pl.Trainer.fit, checkpoints.atomic_file


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def count_calls(at: Callable[[int], None]) -> None:
    """Counts Python's function calls from the start of training, and tells ``at`` each number."""
    number, counted = 0, 0

    def profile(frame: Any, event: str, argument: Any) -> None:
        nonlocal number
        if event == "call" and os.getpid() == counted:  # not in the data-loading processes, which inherit this
            number += 1
            at(number)

    def fit(*arguments: Any, **keywords: Any) -> None:
        nonlocal counted
        counted = os.getpid()
        sys.setprofile(profile)
        real_fit(*arguments, **keywords)
        sys.setprofile(None)

    pl.Trainer.fit = fit  # type: ignore[method-assign,assignment]


def die_after_step(step: int) -> None:
    def fit(trainer: pl.Trainer, *arguments: Any, **keywords: Any) -> None:
        trainer.callbacks.insert(0, AtStep(step, die))  # type: ignore[attr-defined]
        real_fit(trainer, *arguments, **keywords)

    pl.Trainer.fit = fit  # type: ignore[method-assign,assignment]


def die_in_file(nth: int, share: float) -> None:
    """When so much of the nth checkpoint is in its file."""
    opened = 0

    class Stream:
        def __init__(self, stream: Any) -> None:
            self.stream = stream

        def write(self, content: memoryview) -> None:
            self.stream.write(content[: int(len(content) * share)])
            self.stream.flush()
            die()

    @contextmanager
    def atomic_file(path: Path) -> Iterator[Any]:
        nonlocal opened
        opened += 1
        with real_file(path) as stream:
            yield Stream(stream) if opened == nth else stream

    checkpoints.atomic_file = atomic_file


def fork(log: Path, work: Callable[[], int]) -> int:
    """Process number of a fork that does ``work``, whose result is its exit status, and prints to ``log``."""
    child = os.fork()
    if child == 0:
        with open(log, "a") as stream:
            os.dup2(stream.fileno(), 1)
            os.dup2(stream.fileno(), 2)
        status = 1
        try:
            status = work()
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    return child


def exit_status(child: int) -> int:
    """Exit status of a fork that has ended; minus the signal's number when it was killed."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def in_fork(log: Path, work: Callable[[], int]) -> int:
    """What ``work`` returns in a fork that prints to ``log``."""
    return exit_status(fork(log, work))


def run_script(arguments: list[str]) -> int:
    """Run solo-learn's ``main_pretrain.py`` in this process."""
    location = find_solo_learn().location
    assert location is not None
    sys.argv = [str(location.parent / "main_pretrain.py"), *arguments]
    sys.path.insert(0, str(location.parent))
    runpy.run_path(sys.argv[0], run_name="__main__")
    return 0


def train(arguments: list[str], folder: Path) -> int:
    if arguments[0] == "pretrain":
        return cli.main([*arguments, f"runs_dir={folder}", "ckpt=auto"])
    os.chdir(folder)
    return run_script(arguments)


def attempt(arguments: list[str], folder: Path, processes: int, arm: Callable[[], None] = lambda: None) -> list[int]:
    """Exit status of each process of one run."""
    folder.mkdir(exist_ok=True)
    port = free_port()

    def process(rank: int) -> int:
        if processes > 1:
            of_torchrun = {"LOCAL_RANK": rank, "RANK": rank, "NODE_RANK": 0, "WORLD_SIZE": processes}
            # On CPUs solo-learn's script has several processes as several nodes of one device.
            place = of_torchrun if arguments[0] == "pretrain" else {"NODE_RANK": rank}
            os.environ.update({name: str(value) for name, value in place.items()})
            os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        arm()
        return train(arguments, folder)

    children = [fork(folder.with_suffix(".log"), lambda rank=rank: process(rank)) for rank in range(processes)]
    return [exit_status(child) for child in children]


def finished(folder: Path) -> Path:
    found = {path.parent: json.loads(path.read_text())["status"] for path in folder.rglob("results.json")}
    (of_a_finished_run,) = [folder for folder, status in found.items() if status == "finished"]
    return of_a_finished_run


def compare(folder: Path, whole: Path) -> int:
    """0 when one run under ``folder`` has finished, with the very results of ``whole``, and left no part of a file."""
    found = finished(folder)
    assert_same_run(found, finished(whole))
    assert not list(found.glob("checkpoints/.*.tmp"))
    return 0


def main(folder: Path, processes: int, moments: list[Any], arguments: list[str]) -> int:
    if "host=solo" in arguments or arguments[0] != "pretrain":
        from radial_vicreg.solo.register import register

        register()  # imports solo-learn, here once as well
        make_solo_vit_small(pytest.MonkeyPatch())
    whole, calls = folder / "whole", folder / "calls"
    calls.write_text("0")

    def count() -> None:
        if any(kind == "call" for kind, *_ in moments):
            count_calls(lambda number: calls.write_text(str(number)) if number % 1000 == 0 else None)

    if any(attempt(arguments, whole, processes, count)):
        raise SystemExit(whole.with_suffix(".log").read_text())
    total = int(calls.read_text())

    def die_at(kind: str, where: Any, share: float = 0.0) -> None:
        if kind == "call":
            count_calls(lambda number: die() if number == int(where * total) else None)
        elif kind == "file":
            die_in_file(where, share)
        else:
            die_after_step(where)

    for index, moment in enumerate(moments):
        runs = folder / str(index)
        log = runs.with_suffix(".log")
        killed = attempt(arguments, runs, processes, lambda moment=moment: die_at(*moment))
        line = {"moment": moment, "killed": killed, "resumed": attempt(arguments, runs, processes)}
        line["compared"] = in_fork(log, lambda runs=runs: compare(runs, whole))
        print(json.dumps({**line, "log": log.read_text()}), flush=True)
        if line["compared"] == 0:
            shutil.rmtree(runs)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4:]))
