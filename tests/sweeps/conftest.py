"""Fixtures of the sweeps' tests."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig

from radial_vicreg import cli
from radial_vicreg.compose import compose
from radial_vicreg.io.files import write_json
from radial_vicreg.sweeps import SweepRun, load_sweep
from radial_vicreg.sweeps.claims import claim_path
from radial_vicreg.sweeps.forwarding import SignalForwarder
from radial_vicreg.sweeps.status import composed_runs


@functools.cache
def _composed(name: str, overrides: tuple[str, ...]) -> DictConfig:
    return compose(name, overrides)


@pytest.fixture(autouse=True)
def _composed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compose a run of a sweep once: it takes a tenth of a second, and every look at the run composes it."""

    def once(name: str, overrides: Sequence[str]) -> DictConfig:
        # The folder of the runs is the test's own, and nothing else reads it.
        shared = tuple(item for item in overrides if not item.startswith("runs_dir="))
        cfg = _composed(name, shared).copy()
        for item in set(overrides) - set(shared):
            cfg.runs_dir = item.partition("=")[2]
        return cfg

    monkeypatch.setattr("radial_vicreg.compose.points.compose", once)


@pytest.fixture
def small_sweep(tmp_path: Path) -> Path:
    """Two weights and two seeds."""
    path = tmp_path / "small.yaml"
    path.write_text(
        "program: main_pretrain.py\n"
        "method: grid\n"
        "parameters:\n"
        "  method_kwargs.radial_ce_loss_weight:\n"
        "    values: [0, 1]\n"
        "  seed:\n"
        "    values: [5, 6]\n"
        'command: ["${env}", "${interpreter}", "${program}", --config-name, radialvicreg, wandb.enabled=true,'
        ' optimizer.lr=0.1, "${args_no_hyphens}"]\n'
    )
    return path


@pytest.fixture
def runs(small_sweep: Path) -> list[SweepRun]:
    """The runs of the small sweep after it was cut down to one seed, so to two runs."""
    small_sweep.write_text(small_sweep.read_text().replace("[5, 6]", "[5]"))
    return load_sweep(small_sweep).runs()


@pytest.fixture
def sweep(small_sweep: Path, tmp_path: Path) -> Callable[..., int]:
    """Runs ``radial-vicreg sweep`` with the small sweep."""
    return lambda *words: cli.main(["sweep", str(small_sweep), f"runs_dir={tmp_path / 'runs'}", *words])


class Started(list[list[str]]):
    """Arguments after ``pretrain`` of each training."""

    #: Gets the log; returns the exit status.
    then: Callable[[Path], int] = staticmethod(lambda log: 0)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """Notes what a worker would start, in place of the trainings; ``then`` says what becomes of each of them."""
    noted = Started()

    def run(_: SignalForwarder, command: list[str], log: Path) -> int:
        assert command[1:4] == ["-m", "radial_vicreg.cli", "pretrain"]
        assert command[-1] == "--claim"
        noted.append(command[4:-1])
        return noted.then(log)

    monkeypatch.setattr(SignalForwarder, "run", run)
    return noted


@pytest.fixture
def trained(started: Started, write_result: Callable[..., Path], runs: list[SweepRun]) -> Started:
    """The same where each training of :func:`runs` ends well and leaves results."""

    def finish(log: Path) -> int:
        write_result(runs[int(log.stem)], "finished")
        return 0

    started.then = finish
    return started


#: Holds a lock until its standard input ends.
HOLDER = """
import sys
from radial_vicreg.io.locks import HeldLock
with HeldLock(sys.argv[1], "training"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def hold(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a process that holds the claim of a run, as its training does; with a suffix, as its worker does."""
    processes = []

    def start(run: SweepRun, suffix: str = ".lock") -> subprocess.Popen[str]:
        (config,) = composed_runs([run], [f"runs_dir={tmp_path / 'runs'}"])
        path = claim_path(config, suffix)
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        return process

    yield start
    for process in processes:
        with suppress(ValueError):  # it has ended
            process.communicate("")


@pytest.fixture
def write_result(tmp_path: Path) -> Callable[..., Path]:
    """Leaves the ``results.json`` of a run behind in ``runs``, as training does."""

    def write(run: SweepRun, status: str, folder: str = "one", **more: Any) -> Path:
        (config,) = composed_runs([run])
        content = {"schema_version": 2, "config": config.plain(), "processes": 1, "status": status, **more}
        return write_json(tmp_path / "runs" / f"run-{run.index}" / folder / "results.json", content)

    return write
