"""Trains once to the end, then again and again with ``kill -9`` before a write of the last epoch, each time resumed.

    PYTHONPATH=tests python killed_at_writes.py FOLDER pretrain ARGUMENT ...
    PYTHONPATH=tests python killed_at_writes.py FOLDER main_pretrain ARGUMENT ...

ARGUMENT is what follows ``radial-vicreg pretrain`` or ``main_pretrain.py``. Every attempt is a fork of this process,
which has imported everything and computed nothing. A write is the opening of a file for writing, a renaming, a removal
or a link in the runs' folder, as Python's audit events report them: whatever is added to a run's last epoch is among
them. Prints a line of JSON for each write.
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
from helpers import make_solo_vit_small, read_results
from killed_runs import die, in_fork

from radial_vicreg.errors import UserError
from radial_vicreg.report.collect import collect
from radial_vicreg.runs.loaded import open_run
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


def die_before(below: Path, name: str, nth: int) -> None:
    """Before the nth write of that name, such as ``os.rename results.json``."""
    seen = []
    watch_writes(below, lambda _, found: (seen.append(found), seen.count(name) == nth and die()))


def writes_of(attempt: Attempt, folder: Path, below: Path) -> list[str]:
    """Trains to the end; the writes of the last epoch, in their order."""
    record = folder.with_suffix(".writes")

    def note(_: int, name: str) -> None:
        with open(record, "a") as stream:
            stream.write(f"{name}\n")

    assert attempt(folder, lambda: watch_writes(below, note)) == 0, folder.with_suffix(".log").read_text()
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
    found = {"status": results["status"], "epochs": results["epochs"], "opened": opened}
    return {**found, "run": str(run), "results": results}


def told_by_fork(log: Path, work: Callable[[], Any]) -> Any:
    """What ``work`` returns in a fork, so that this process computes nothing: forks of one that has may hang."""
    answer = log.with_suffix(".json")
    assert in_fork(log, lambda: answer.write_text(json.dumps(work())) and 0) == 0, log.read_text()
    return json.loads(answer.read_text())


def compare(folder: Path, whole: Path, left: dict[str, Any]) -> None:
    """One run has finished as ``whole`` has, and what had its last checkpoint was not trained anew.

    Of ``radial-vicreg pretrain`` results, weights, tables and names of files are the same. Under the script each start
    has a folder of its own, and the order of the images after a resume is solo-learn's; of two checkpoints, when the
    older was not yet removed, its auto-resume may take either.
    """
    finished = {run: results for run, results in runs_in(folder).items() if results["status"] == "finished"}
    assert len(finished) == 1, runs_in(folder)
    ((run, results),) = finished.items()
    ((expected, wanted),) = runs_in(whole).items()
    if (run / "args.json").is_file():
        shape, (saved,) = shape_of(results), run.glob(f"*-ep={wanted['epochs'] - 1}.ckpt")
        assert (shape, results["checkpoint"]["name"]) == (shape_of(wanted), saved.name)
    else:
        killed_runs.assert_same_run(run, expected)
        assert names(run) == names(expected)
    if left["opened"] == wanted["epochs"] and left["run"] == str(run):
        assert without_word(results) == without_word(left["results"])


def without_word(results: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in results.items() if key not in ("status", "checkpoint")}


def shape_of(results: dict[str, Any]) -> dict[str, Any]:
    """What does not depend on the order of the images."""
    content = {key: results[key] for key in ("status", "epochs", "steps")}
    content |= {key: results["checkpoint"][key] for key in ("epoch", "step")}
    histories = {"history": results["history"], "measured": results["radii"]["history"]}
    content |= {name: [entry["epoch"] for entry in entries] for name, entries in histories.items()}
    return {**content, "terms": sorted(results["loss_terms"]), "final": sorted(results["radii"]["final"])}


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def main(folder: Path, program: str, arguments: list[str]) -> int:
    if program == "main_pretrain":
        import killed_main_pretrain

        inner = "trained_models"  # not what other loggers write in the working directory

        def attempt(runs: Path, arm: Callable[[], None] = lambda: None) -> int:
            return killed_main_pretrain.attempt(arguments, runs, arm)
    else:
        inner = ""

        def attempt(runs: Path, arm: Callable[[], None] = lambda: None) -> int:
            return killed_runs.attempt(["pretrain", *arguments], runs, arm)

    if program == "main_pretrain" or "host=solo" in arguments:
        make_solo_vit_small(pytest.MonkeyPatch())
    whole = folder / "whole"
    writes = writes_of(attempt, whole, whole / inner)
    for number, name in enumerate(writes, 1):
        runs = folder / str(number)
        log = runs.with_suffix(".log")
        line: dict[str, Any] = {"write": f"{number} of {len(writes)}: {name}"}
        line["killed"] = attempt(runs, lambda runs=runs, number=number: die_at_write(runs / inner, number))
        left = told_by_fork(log, lambda runs=runs: check_what_was_left(runs))
        line["left"] = {key: value for key, value in left.items() if key not in ("run", "results")}
        line["resumed"] = attempt(runs)
        line["compared"] = in_fork(log, lambda runs=runs, left=left: compare(runs, whole, left) or 0)
        print(json.dumps(line), flush=True)
        if line["compared"] == 0:
            shutil.rmtree(runs)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
