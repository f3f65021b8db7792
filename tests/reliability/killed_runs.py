"""Trains once to the end, then again and again with ``kill -9`` at some moment, each time followed by ``ckpt=auto``.

    PYTHONPATH=tests python killed_runs.py FOLDER SEED ARGUMENT ...

ARGUMENT is what follows `radial-vicreg`; the runs go to FOLDER/whole and FOLDER/<n>. Every attempt is a fork of this
process, which has imported everything and computed nothing. Prints a line of JSON for each moment; what a run left is
removed when it is the same as FOLDER/whole.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib.pyplot  # noqa: F401  here once instead of in every fork
import pytest
from helpers import assert_same_run, make_solo_vit_small, only_run

from radial_vicreg import cli
from radial_vicreg.runs import checkpoints
from radial_vicreg.train import run as train

CALLS = 3  # moments anywhere, by the count of function calls; the others are in the writing of a checkpoint
real_fit, real_file = train.fit, checkpoints.atomic_file


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

    def fit(*arguments: Any) -> None:
        nonlocal counted
        counted = os.getpid()
        sys.setprofile(profile)
        real_fit(*arguments)
        sys.setprofile(None)

    train.fit = fit


def die_at_call(moment: int) -> None:
    count_calls(lambda number: die() if number == moment else None)


def die_in_file(nth: int, fraction: float) -> None:
    """When so much of the nth checkpoint is in its file."""
    opened = 0

    class Stream:
        def __init__(self, stream: Any) -> None:
            self.stream = stream

        def write(self, content: memoryview) -> None:
            self.stream.write(content[: int(len(content) * fraction)])
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


def attempt(arguments: list[str], folder: Path, arm: Callable[[], None] = lambda: None) -> int:
    """Exit status of one run."""

    def run() -> int:
        arm()
        return cli.main([*arguments, f"runs_dir={folder}", "ckpt=auto"])

    return in_fork(folder.with_suffix(".log"), run)


def compare(folder: Path, whole: Path) -> int:
    """0 when one run under ``folder`` has finished, with the very results of ``whole``, and left no part of a file."""

    def check() -> int:
        finished = [path for path, status in statuses(folder).items() if status == "finished"]
        assert len(finished) == 1, finished
        assert_same_run(finished[0], only_run(whole))
        left = list(finished[0].glob("checkpoints/.*.tmp"))
        assert not left, left
        return 0

    return in_fork(folder.with_suffix(".log"), check)


def statuses(folder: Path) -> dict[Path, str]:
    return {path.parent: json.loads(path.read_text())["status"] for path in folder.glob("*/*/results.json")}


def main(folder: Path, seed: int, arguments: list[str]) -> int:
    if "host=solo" in arguments:
        make_solo_vit_small(pytest.MonkeyPatch())
    calls = folder / "calls"

    def count() -> None:
        count_calls(lambda number: calls.write_text(str(number)) if number % 1000 == 0 else None)

    if attempt(arguments, folder / "whole", count) != 0:
        return 1
    total, rng = int(calls.read_text()), random.Random(seed)
    moments: list[tuple[str, Callable[[], None]]] = []
    for moment in sorted(rng.randrange(1, total) for _ in range(CALLS)):
        moments.append((f"call {moment} of {total}", lambda moment=moment: die_at_call(moment)))
    for nth in (1, 2):
        fraction = rng.random()
        moments.append((f"{fraction:.0%} of checkpoint {nth}", lambda n=nth, f=fraction: die_in_file(n, f)))
    for index, (name, arm) in enumerate(moments):
        runs = folder / str(index)
        line = {"moment": name, "killed": attempt(arguments, runs, arm), "left": list(statuses(runs).values())}
        line |= {"resumed": attempt(arguments, runs), "compared": compare(runs, folder / "whole")}
        print(json.dumps(line), flush=True)
        if line["compared"] == 0:
            shutil.rmtree(runs)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
