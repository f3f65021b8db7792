"""Trains once to the end, keeping what a ``kill -9`` before each write of the last epoch leaves; resumes each of those.

    PYTHONPATH=tests python killed_at_writes.py FOLDER ARGUMENT ...

ARGUMENT is as for killed_runs.py. A write is the opening of a file for
writing, a renaming, a removal or a link in the runs' folder, as Python's audit events report them: whatever is added to
a run's last epoch is among them. A killed process leaves what is on the disk, so a copy of the runs' folder before each
write stands for a run that is killed there; it is resumed where it was made, in FOLDER/runs. Two kinds of copies would
show nothing more: before a temporary file is opened, all is there that is there before its renaming; and the forms of a
figure are written in the same way. Every training is a fork of this process, which has imported everything and computed
nothing. Prints a line of JSON for each write.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot  # noqa: F401  here once instead of in every fork
import pytest
from helpers import assert_same_run, make_solo_vit_small, read_results
from killed_runs import finished, in_fork, train

from radial_vicreg.errors import UserError
from radial_vicreg.report.collect import collect
from radial_vicreg.runs.loaded import open_run
from radial_vicreg.solo.register import register
from radial_vicreg.train.step import RadialTraining

CHANGES = ("os.rename", "os.remove", "os.symlink", "os.link")


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


def shows_more(name: str) -> bool:
    """Whether what is left before a write differs from what is left before the others."""
    return not (name.startswith("open ") and name.endswith(".tmp")) and not name.endswith((".pdf", ".svg"))


def train_and_copy(arguments: list[str], below: Path, place: Path, copies: Path) -> int:
    """Train; copy ``place`` before each write of the last epoch to ``copies``, and note the write next to the copy."""

    def copy(number: int, name: str) -> None:
        if shows_more(name):
            shutil.copytree(place, copies / str(number), symlinks=True)
            (copies / f"{number}.write").write_text(name)

    watch_writes(below, copy)
    return train(arguments, place)


def check_what_was_left(folder: Path) -> dict[str, Any]:
    """What the run says of itself, and whether commands that need weights take it; never with figures of others."""
    (file,) = folder.rglob("results.json")
    run, results = file.parent, read_results(file.parent)
    counted, problems = collect(folder)
    assert bool(counted) == (results["status"] == "finished") == ("checkpoint" in results), (counted, results["status"])
    try:
        opened: str | int | None = open_run(run).epoch
        assert opened == results["epochs"]
    except UserError as error:
        opened = str(error)
    found = {"status": results["status"], "epochs": results["epochs"], "opened": opened}
    found["reasons"] = [problem.reason for problem in problems]
    return {**found, "run": str(run), "results": results, "written": times_of_checkpoints(run)}


def times_of_checkpoints(run: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in run.rglob("*.ckpt")}


def compare(folder: Path, whole: Path, left: dict[str, Any]) -> None:
    """One run has finished as ``whole`` has, and what had its last checkpoint was not trained anew.

    Under the script each start has a folder of its own; of two checkpoints, when the older was not yet removed, its
    auto-resume may take either.
    """
    run, expected = finished(folder), finished(whole)
    assert_same_run(run, expected)
    if not (run / "args.json").is_file():
        assert names(run) == names(expected)
    results = read_results(run)
    (saved,) = run.rglob(results["checkpoint"]["name"])
    if left["opened"] == results["epochs"] and left["run"] == str(run):
        assert without_word(results) == without_word(left["results"])
        assert times_of_checkpoints(run)[saved.name] == left["written"][saved.name]


def without_word(results: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in results.items() if key not in ("status", "checkpoint")}


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def resume(arguments: list[str], place: Path, whole: Path, answer: Path) -> int:
    """Check what was left, run the same command again and compare the end with ``whole``."""
    left = check_what_was_left(place)
    answer.write_text(
        json.dumps({key: value for key, value in left.items() if key not in ("run", "results", "written")})
    )
    status = train(arguments, place)
    compare(place, whole, left)
    return status


def main(folder: Path, arguments: list[str]) -> int:
    place, whole, copies = folder / "runs", folder / "whole", folder / "copies"
    of_the_script = arguments[0] != "pretrain"
    # Of the script, not what other loggers write in the working directory.
    below = place / "trained_models" if of_the_script else place
    if of_the_script:
        register()  # imports solo-learn, here once as well
    if of_the_script or "host=solo" in arguments:
        make_solo_vit_small(pytest.MonkeyPatch())
    log = folder / "log"
    for made in (place, copies):
        made.mkdir()
    if in_fork(log, lambda: train_and_copy(arguments, below, place, copies)) != 0:
        raise SystemExit(log.read_text())
    place.rename(whole)
    for note in sorted(copies.glob("*.write"), key=lambda path: int(path.stem)):
        log.unlink()
        answer = note.with_suffix(".json")
        note.with_suffix("").rename(place)
        status = in_fork(log, lambda answer=answer: resume(arguments, place, whole, answer))
        left = json.loads(answer.read_text()) if answer.exists() else None
        line = {"write": note.read_text(), "left": left, "resumed": status, "said": log.read_text()[-3000:]}
        print(json.dumps(line), flush=True)
        shutil.rmtree(place)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
