"""Workers and trainings that are told to stop or killed: each run of the sweep is trained to its end once."""

from __future__ import annotations

import json
import os
import queue
import random
import select
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from helpers import first_on_path, free_port, read_results, without

from radial_vicreg import cli

pytestmark = pytest.mark.slow

#: Has every training of a worker report each step, and its end, to a socket and wait for the answer.
SITECUSTOMIZE = """
import os, sys
if "pretrain" in sys.orig_argv or "--index" in sys.orig_argv:
    import json, socket
    import lightning.pytorch as pl
    from radial_vicreg.train import run as train

    class Report(pl.Callback):
        def report(self, trainer, what):
            event = {"what": what, "pid": os.getpid(), "parent": os.getppid(), "step": trainer.global_step,
                     "rank": trainer.global_rank, "seed": self.seed}
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(os.environ["REPORT_TO"])
                connection.sendall((json.dumps(event) + "\\n").encode())
                connection.recv(1)
        def on_train_batch_end(self, trainer, *_):
            self.report(trainer, "step")
        def on_train_end(self, trainer, *_):
            self.report(trainer, "end")

    real = train.build_trainer
    def build(config):
        trainer = real(config)
        report = Report()
        report.seed = config.seed
        trainer.callbacks.insert(0, report)
        return trainer
    train.build_trainer = build
"""

LAST_STEP = 6


class Event(NamedTuple):
    """What a training reports; ``answer`` lets it go on. A worker that has ended is one as well."""

    what: str
    pid: int
    status: int | None = None
    parent: int = 0
    step: int = 0
    rank: int = 0
    seed: int = 0
    answer: Callable[[], None] = lambda: None


class Sweep:
    """Starts workers on a sweep and gets what their trainings report.

    Args:
        path: the sweep file.
        overrides: of every run.
        root: folder for the rest.
    """

    def __init__(self, path: Path, overrides: list[str], root: Path) -> None:
        self.arguments = [str(path), *overrides]
        self.runs = root / "runs"
        (root / "custom").mkdir()
        (root / "custom" / "sitecustomize.py").write_text(SITECUSTOMIZE)
        own = {"PYTHONPATH": first_on_path(root / "custom"), "REPORT_TO": str(root / "socket")}
        self.environment = {**os.environ, **own, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        self.events: queue.Queue[Event] = queue.Queue()
        self.started: list[subprocess.Popen[str]] = []
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(str(root / "socket"))
        self.server.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def start(self, *options: str, **environment: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "radial_vicreg.cli", "sweep", *self.arguments, *options]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        worker = subprocess.Popen(command, env={**self.environment, **environment}, **pipes)
        self.started.append(worker)
        threading.Thread(target=self._wait_for, args=(worker,), daemon=True).start()
        return worker

    def next(self) -> Event:
        return self.events.get(timeout=500)

    def until_step(self, step: int) -> Event:
        """Let the trainings go on until one is at a step, and leave that one waiting."""
        while (event := self.next()).step != step or event.what != "step" or event.rank:
            assert event.status is None, "a worker ended"
            event.answer()
        return event

    def until_end(self, worker: subprocess.Popen[str]) -> tuple[int, list[Event]]:
        """Let the trainings go on until a worker has ended; its status, and what they reported."""
        seen = []
        while (event := self.next()).status is None or event.pid != worker.pid:
            event.answer()
            seen.append(event)
        return event.status, seen

    def results(self) -> list[dict[str, Any]]:
        return [read_results(path.parent) for path in self.runs.glob("*/*/results.json")]

    def finished(self) -> Counter[int]:
        """How many finished results there are of each seed."""
        return Counter(results["seed"] for results in self.results() if results["status"] == "finished")

    def statuses(self) -> list[str]:
        return sorted(results["status"] for results in self.results())

    @property
    def logs(self) -> str:
        return "\n".join(path.read_text(errors="replace") for path in sorted(self.runs.glob("sweeps/*/*.log")))

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.server.accept()
            except OSError:  # the test is over
                return
            with connection.makefile() as lines:
                line = lines.readline()
            if line:

                def answer(connection: socket.socket = connection) -> None:
                    with suppress(OSError), connection:
                        connection.sendall(b"!")

                self.events.put(Event(**json.loads(line), answer=answer))

    def _wait_for(self, worker: subprocess.Popen[str]) -> None:
        worker.said, _ = worker.communicate()  # type: ignore[attr-defined]
        self.events.put(Event("worker", worker.pid, worker.returncode))


def has_ended(process: int, timeout: float = 60) -> bool:
    """Wait until a process has ended that need not be a child of this one."""
    try:
        handle = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    ended, _, _ = select.select([handle], [], [], timeout)
    os.close(handle)
    return bool(ended)


@pytest.fixture
def sweep(small_sweep: Path, tiny_overrides: list[str], tmp_path: Path) -> Iterator[Callable[..., Sweep]]:
    """Makes a sweep over seeds, each a run of six steps in two epochs."""
    with ExitStack() as stack:

        def make(seeds: int, *more: str) -> Sweep:
            text = small_sweep.read_text().replace("[0, 1]", "[1]")
            small_sweep.write_text(text.replace("[5, 6]", str(list(range(1, seeds + 1)))))
            kept = without(tiny_overrides, "optimizer.lr")
            made = Sweep(small_sweep, [*kept, "diagnostics.enabled=false", "host=standalone", *more], tmp_path)
            stack.callback(made.server.close)
            stack.callback(lambda: [worker.kill() for worker in made.started])
            return made

        yield make


def test_sigterm_to_a_worker_stops_both_processes_of_its_training(sweep: Callable[..., Sweep]) -> None:
    made = sweep(1, "devices=2", "strategy=ddp", "optimizer.batch_size=4")  # the two have one claim
    worker = made.start("--run")
    event = made.until_step(4)
    worker.send_signal(signal.SIGTERM)
    event.answer()
    status, events = made.until_end(worker)
    assert status == 143, worker.said + made.logs
    assert "SIGTERM: waiting for the training" in worker.said
    assert "stopped by SIGTERM" in worker.said.splitlines()[-1]
    assert made.statuses() == ["interrupted"]
    with pytest.raises(ProcessLookupError):
        os.kill(event.pid, 0)  # the training has ended before its worker
    for process in {other.pid for other in events if other.what != "worker"}:
        assert has_ended(process)


def test_of_two_nodes_the_first_process_claims_the_run(sweep: Callable[..., Sweep]) -> None:
    made = sweep(1, "num_nodes=2", "devices=1", "strategy=ddp", "optimizer.batch_size=4")
    main = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    nodes = [made.start("--index", "0", "--no-wait", NODE_RANK=str(rank), **main) for rank in range(2)]
    left = set(nodes)
    while left:
        event = made.next()
        event.answer()
        if event.status is not None:
            (node,) = (node for node in left if node.pid == event.pid)
            left.remove(node)
            assert event.status == 0, node.said  # type: ignore[attr-defined]
    assert made.statuses() == ["finished"]


def test_an_index_waits_for_its_run_unless_it_takes_the_claim(
    sweep: Callable[..., Sweep], capsys: pytest.CaptureFixture[str]
) -> None:
    made = sweep(1)
    made.start("--run")
    event = made.until_step(4)
    assert cli.main(["sweep", *made.arguments, "--index", "0", "--no-wait"]) == 2
    assert "another process is training run 0" in capsys.readouterr().err
    taking = made.start("--index", "0", "lock=take", "ckpt=null")  # from the beginning, in a folder of its own
    other = made.until_step(1)
    assert other.pid == taking.pid
    os.kill(event.pid, signal.SIGKILL)
    waiting = made.start("--index", "0")
    other.answer()
    status, events = made.until_end(waiting)
    assert status == 0, waiting.said
    assert waiting.pid not in {event.pid for event in events}
    assert made.statuses() == ["finished", "running"]


def test_workers_train_each_run_once_whatever_is_killed(sweep: Callable[..., Sweep]) -> None:
    made, rng, runs = sweep(2), random.Random(0), 2
    workers = {worker.pid: worker for worker in (made.start("--run") for _ in range(3))}
    kills = [("pid", signal.SIGKILL), ("parent", signal.SIGKILL), ("parent", signal.SIGTERM)]
    ended: Counter[int] = Counter()
    statuses: list[int] = []
    while workers:
        event = made.next()
        if event.what == "worker":
            assert event.status is not None
            statuses.append(event.status)
            said = workers.pop(event.pid).said  # type: ignore[attr-defined]
            if event.status == 0:
                assert made.finished() == dict.fromkeys(range(1, runs + 1), 1), said
            elif 0 not in statuses:
                new = made.start("--run")
                workers[new.pid] = new
            continue
        ended[event.seed] += event.what == "end"
        if event.step < LAST_STEP and kills and rng.random() < 0.7:
            of, number = kills[0]
            victim = getattr(event, of)
            if victim in {event.pid, *workers}:  # the worker may have been killed before
                os.kill(victim, number)
                del kills[0]
        event.answer()
    assert ended == dict.fromkeys(range(1, runs + 1), 1), made.logs
    assert made.finished() == dict.fromkeys(range(1, runs + 1), 1)
    assert 0 in statuses
    assert -signal.SIGKILL in statuses
    assert len(kills) <= 1  # a training whose worker was killed has none that could be told to stop
