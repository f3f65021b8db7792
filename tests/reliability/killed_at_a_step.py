"""Trains to the end; trains again, ``kill -9`` of every process after a step, then the same command; compares the ends.

    PYTHONPATH=tests python killed_at_a_step.py FOLDER STEP PROCESSES ARGUMENT ...

ARGUMENT is what follows `radial-vicreg` or, where it does not begin with `pretrain`, solo-learn's ``main_pretrain.py``.
The runs go to FOLDER/whole and FOLDER/killed. Every process is a fork of this one, which has imported everything and
computed nothing; several of them are one run as under ``torchrun`` or, of the script, as on as many nodes. Prints one
line of JSON.
"""

from __future__ import annotations

import json
import os
import runpy
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import matplotlib.pyplot  # noqa: F401  here once instead of in every fork
import pytest
from helpers import AtStep, assert_same_run, make_solo_vit_small
from killed_runs import die, exit_status, fork

from radial_vicreg import cli
from radial_vicreg.solo.detect import find_solo_learn
from radial_vicreg.train import run  # noqa: F401  here once as well


def die_after(step: int) -> None:
    real = pl.Trainer.fit

    def fit(trainer: pl.Trainer, *arguments: Any, **keywords: Any) -> None:
        trainer.callbacks.insert(0, AtStep(step, die))  # type: ignore[attr-defined]
        real(trainer, *arguments, **keywords)

    pl.Trainer.fit = fit  # type: ignore[method-assign,assignment]


def train(arguments: list[str], folder: Path) -> int:
    if arguments[0] == "pretrain":
        return cli.main([*arguments, f"runs_dir={folder}", "ckpt=auto"])
    location = find_solo_learn().location
    assert location is not None
    os.chdir(folder)
    sys.argv = [str(location.parent / "main_pretrain.py"), *arguments]
    sys.path.insert(0, str(location.parent))
    runpy.run_path(sys.argv[0], run_name="__main__")
    return 0


def attempt(arguments: list[str], folder: Path, processes: int, arm: Callable[[], None] = lambda: None) -> list[int]:
    """Exit status of each process of one run."""
    folder.mkdir(exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

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
    runs = [folder for folder, status in found.items() if status == "finished"]
    assert len(runs) == 1, found
    return runs[0]


def compare(folder: Path, whole: Path) -> int:
    assert_same_run(finished(folder), finished(whole))
    return 0


def main(folder: Path, step: int, processes: int, arguments: list[str]) -> int:
    if find_solo_learn().location is not None:
        from radial_vicreg.solo.register import register

        register()
        make_solo_vit_small(pytest.MonkeyPatch())
    whole, killed = folder / "whole", folder / "killed"
    line: dict[str, Any] = {"whole": attempt(arguments, whole, processes)}
    line["killed"] = attempt(arguments, killed, processes, lambda: die_after(step))
    line["resumed"] = attempt(arguments, killed, processes)
    line["compared"] = exit_status(fork(killed.with_suffix(".log"), lambda: compare(killed, whole)))
    print(json.dumps(line))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]))
