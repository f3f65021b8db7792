"""Runs solo-learn's main_pretrain.py with ``kill -9`` at some moment, then again, which resumes to the end.

    PYTHONPATH=tests python killed_main_pretrain.py FOLDER SEED EPOCHS ARGUMENT ...

ARGUMENT is what follows ``main_pretrain.py``. Every run is a fork of this process, which has imported everything and
computed nothing; those of one moment share FOLDER/<n>. Prints a line of JSON for each moment.
"""

from __future__ import annotations

import json
import os
import random
import runpy
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import matplotlib.pyplot  # noqa: F401  here once instead of in every fork
import pytest
from helpers import make_solo_vit_small
from killed_runs import die, die_in_file, in_fork

from radial_vicreg.solo.detect import find_solo_learn
from radial_vicreg.solo.register import register

register()  # imports solo-learn, here once as well
CALLS = 2  # moments anywhere, by the count of function calls; the others are around the last checkpoint
real_fit, real_save = pl.Trainer.fit, pl.Trainer.save_checkpoint


def run_script(arguments: list[str]) -> int:
    location = find_solo_learn().location
    assert location is not None
    sys.argv = [str(location.parent / "main_pretrain.py"), *arguments]
    sys.path.insert(0, str(location.parent))
    runpy.run_path(sys.argv[0], run_name="__main__")
    return 0


def count_calls(at: Callable[[int], None]) -> None:
    """Counts Python's function calls from the start of the trainer, and tells ``at`` each number."""
    number = 0

    def profile(frame: Any, event: str, argument: Any) -> None:
        nonlocal number
        if event == "call":
            number += 1
            at(number)

    def fit(*arguments: Any, **keywords: Any) -> None:
        sys.setprofile(profile)
        real_fit(*arguments, **keywords)
        sys.setprofile(None)

    pl.Trainer.fit = fit  # type: ignore[method-assign,assignment]


def die_at_call(moment: int) -> None:
    count_calls(lambda number: die() if number == moment else None)


def die_after_last_checkpoint() -> None:
    def save(trainer: pl.Trainer, *arguments: Any, **keywords: Any) -> None:
        real_save(trainer, *arguments, **keywords)
        if trainer.current_epoch + 1 == trainer.max_epochs:
            die()

    pl.Trainer.save_checkpoint = save  # type: ignore[method-assign,assignment]


def attempt(arguments: list[str], folder: Path, arm: Callable[[], None] = lambda: None) -> int:
    """Exit status of one run in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)

    def run() -> int:
        os.chdir(folder)
        arm()
        return run_script(arguments)

    return in_fork(folder.with_suffix(".log"), run)


def left_in(folder: Path) -> list[dict[str, Any]]:
    """What the results of every run under ``folder`` say, the newest last."""
    files = sorted(folder.glob("trained_models/*/*/results.json"), key=lambda file: file.stat().st_mtime_ns)
    found = []
    for content in (json.loads(file.read_text()) for file in files):
        kept = {key: content[key] for key in ("status", "epochs", "steps")}
        kept["history"] = [entry["epoch"] for entry in content["history"]]
        kept["terms"] = sorted(content["loss_terms"])
        kept["measured"] = [entry["epoch"] for entry in content["radii"]["history"]]
        kept["drawn"] = bool((content["radii"]["final"] or {}).get("histogram"))
        found.append(kept)
    return found


def has_checkpoint(folder: Path) -> bool:
    """Whether a run under ``folder`` left what solo-learn's auto-resume takes."""
    return any(folder.glob("trained_models/*/*/*.ckpt"))


def main(folder: Path, seed: int, epochs: int, arguments: list[str]) -> int:
    make_solo_vit_small(pytest.MonkeyPatch())
    calls = folder / "calls"
    arguments = [*arguments, f"max_epochs={epochs}"]

    def count() -> None:
        count_calls(lambda number: calls.write_text(str(number)) if number % 1000 == 0 else None)

    whole = attempt(arguments, folder / "whole", count)
    print(json.dumps({"moment": "none", "killed": whole, "rerun": 0, "left": left_in(folder / "whole")}), flush=True)
    total, rng = int(calls.read_text()), random.Random(seed)
    moments: list[tuple[str, Callable[[], None]]] = []
    for moment in sorted(rng.randrange(1, total) for _ in range(CALLS)):
        moments.append((f"call {moment} of {total}", lambda moment=moment: die_at_call(moment)))
    moments += [
        ("in the file of the last checkpoint", lambda: die_in_file(epochs, 0.5)),
        ("after the last checkpoint", die_after_last_checkpoint),
    ]
    for index, (name, arm) in enumerate(moments):
        run = folder / str(index)
        line = {"moment": name, "killed": attempt(arguments, run, arm), "resumable": has_checkpoint(run)}
        line |= {"rerun": attempt(arguments, run), "left": left_in(run)}
        print(json.dumps(line), flush=True)
        shutil.rmtree(run)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]))
