"""Trains once to the end, then again and again with ``kill -9`` before a write of the last epoch, each time resumed.

    PYTHONPATH=tests python killed_at_writes.py FOLDER pretrain ARGUMENT ...
    PYTHONPATH=tests python killed_at_writes.py FOLDER main_pretrain ARGUMENT ...

ARGUMENT is what follows ``radial-vicreg pretrain`` or ``main_pretrain.py``. Every attempt is a fork of this process,
which has imported everything and computed nothing. A write is the opening of a file for writing, a renaming, a removal
or a link below FOLDER, as Python's audit events report them: whatever is added to a run's last epoch is among them.
Prints a line of JSON for each write.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import killed_runs
import matplotlib.pyplot  # noqa: F401  here once instead of in every fork
import pytest
from helpers import OWN, assert_equal, checkpoint_of, make_solo_vit_small, only_run, read_results, results_of
from killed_runs import die, in_fork

from radial_vicreg.errors import UserError
from radial_vicreg.loaded_run import open_run
from radial_vicreg.report.collect import collect
from radial_vicreg.train.step import RadialTraining

CHANGES = ("os.rename", "os.remove", "os.symlink", "os.link")
Attempt = Callable[..., int]


def watch_writes(below: Path, at: Callable[[int, str], None]) -> None:
    """Tells ``at`` the number of each write of the last epoch and its file, before it is done; locks do not count."""
    number, last_epoch = 0, False
    real = RadialTraining.on_train_epoch_start

    def start(module: Any) -> None:
        nonlocal last_epoch
        last_epoch = module.trainer.current_epoch + 1 == module.trainer.max_epochs
        real(module)

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal number
        if not last_epoch or not (event in CHANGES or (event == "open" and is_for_writing(arguments[2]))):
            return
        path = os.path.abspath(os.fsdecode(arguments[1 if event in ("os.rename", "os.symlink") else 0]))
        if path.startswith(f"{below}{os.sep}") and not path.endswith((".lock", ".lock.json")):
            number += 1
            at(number, f"{event} {os.path.basename(path)}")

    RadialTraining.on_train_epoch_start = start  # type: ignore[method-assign]
    sys.addaudithook(audit)


def is_for_writing(flags: int) -> bool:
    return bool(flags & (os.O_WRONLY | os.O_RDWR))


def die_at_write(below: Path, nth: int) -> None:
    watch_writes(below, lambda number, _: die() if number == nth else None)


def writes_of(attempt: Attempt, folder: Path) -> list[str]:
    """Trains to the end; the writes of the last epoch, in their order."""
    record = folder.with_suffix(".writes")

    def note(_: int, name: str) -> None:
        with open(record, "a") as stream:
            stream.write(f"{name}\n")

    assert attempt(folder, lambda: watch_writes(folder, note)) == 0, folder.with_suffix(".log").read_text()
    return record.read_text().splitlines()


def runs_in(folder: Path) -> dict[Path, dict[str, Any]]:
    """The results of every run, the one that was written last at the end."""
    files = sorted(folder.rglob("results.json"), key=lambda file: file.stat().st_mtime_ns)
    return {file.parent: read_results(file.parent) for file in files}


def check_what_was_left(folder: Path) -> dict[str, Any]:
    """What the run says of itself, and whether commands that need weights take it; never with figures of others."""
    ((run, results),) = runs_in(folder).items()
    counted = [found.path for found in collect(folder)[0]]
    assert bool(counted) == (results["status"] == "finished") == ("checkpoint" in results), (counted, results["status"])
    try:
        opened: str | int | None = open_run(run).epoch
        assert opened == results["epochs"]
    except UserError as error:
        opened = str(error)
    return {"status": results["status"], "epochs": results["epochs"], "opened": opened}


def told_by_fork(log: Path, work: Callable[[], Any]) -> Any:
    """What ``work`` returns in a fork, so that this process computes nothing: forks of one that has may hang."""
    answer = log.with_suffix(".json")
    assert in_fork(log, lambda: answer.write_text(json.dumps(work())) and 0) == 0, log.read_text()
    return json.loads(answer.read_text())


def without_names(results: dict[str, Any]) -> dict[str, Any]:
    """Under the script a checkpoint's file is called after its folder, of which each start has its own."""
    return {**results, "checkpoint": {**results["checkpoint"], "name": None}}


def compare(folder: Path, whole: Path) -> None:
    """One run has finished, with the results, weights and tables of ``whole``, and no part of a file is left."""
    expected, found = only_run(whole) if whole_is_ours(whole) else next(iter(runs_in(whole))), None
    finished = [run for run, results in runs_in(folder).items() if results["status"] == "finished"]
    assert len(finished) == 1, runs_in(folder)
    (found,) = finished
    if whole_is_ours(whole):
        killed_runs.assert_same_run(found, expected)
        assert names(found) == names(expected)
        return
    assert_equal(without_names(results_of(found)), without_names(results_of(expected)), "results.json")
    first, second = (saved(run) for run in (found, expected))
    for key in ("state_dict", "epoch", "global_step"):
        assert_equal(first[key], second[key], key)


def whole_is_ours(whole: Path) -> bool:
    return any(whole.glob("*/*/checkpoints"))


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def saved(run: Path) -> dict[str, Any]:
    import torch

    content: dict[str, Any] = torch.load(run / read_results(run)["checkpoint"]["name"], weights_only=True)
    return content


def main(folder: Path, program: str, arguments: list[str]) -> int:
    if program == "main_pretrain":
        import killed_main_pretrain

        def attempt(runs: Path, arm: Callable[[], None] = lambda: None) -> int:
            return killed_main_pretrain.attempt(arguments, runs, arm)
    else:

        def attempt(runs: Path, arm: Callable[[], None] = lambda: None) -> int:
            return killed_runs.attempt(["pretrain", *arguments], runs, arm)

    if program == "main_pretrain" or "host=solo" in arguments:
        make_solo_vit_small(pytest.MonkeyPatch())
    whole = folder / "whole"
    writes = writes_of(attempt, whole)
    for number, name in enumerate(writes, 1):
        runs = folder / str(number)
        log = runs.with_suffix(".log")
        line: dict[str, Any] = {"write": f"{number} of {len(writes)}: {name}"}
        line["killed"] = attempt(runs, lambda runs=runs, number=number: die_at_write(runs, number))
        line["left"] = told_by_fork(log, lambda runs=runs: check_what_was_left(runs))
        line["resumed"] = attempt(runs)
        line["compared"] = in_fork(log, lambda runs=runs: compare(runs, whole) or 0)
        print(json.dumps(line), flush=True)
        if line["compared"] == 0:
            shutil.rmtree(runs)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
