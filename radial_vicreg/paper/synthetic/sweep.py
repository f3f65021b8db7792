"""The paper's sweep of 5,625 runs: resumable, sharded, on all cores or one GPU.

Results are append-only JSON lines, one per run, each written, synchronised to disk and verified when the run ends. A
sweep first reads all result files of its folder and makes the missing runs, so a kill loses only the runs in progress.
A damaged line is reported, and only its run is lost.
"""

from __future__ import annotations

import itertools
import json
import math
import multiprocessing
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from radial_vicreg.errors import UserError
from radial_vicreg.io.files import append_line, atomic_file
from radial_vicreg.io.locks import HeldLock
from radial_vicreg.io.notices import warn
from radial_vicreg.paper.synthetic.best_settings import Row
from radial_vicreg.paper.synthetic.distributions import DISTRIBUTIONS
from radial_vicreg.paper.synthetic.engine_cpu import CpuEngine
from radial_vicreg.paper.synthetic.engine_torch import TorchEngine
from radial_vicreg.paper.synthetic.run import row_of
from radial_vicreg.paper.synthetic.settings import SyntheticConfig
from radial_vicreg.runtime.devices import usable_cores

_SHOWN = 40  # bytes shown of a damaged line
_ORDER_SEED = 0

Task = Callable[[], Row]
OnRow = Callable[[int, int, Row | None], None]


def mixed(runs: Iterable[SyntheticConfig]) -> list[SyntheticConfig]:
    """Shuffle runs in a fixed order, so that shards take equal time and the remaining time is well estimated."""
    order = list(runs)
    random.Random(_ORDER_SEED).shuffle(order)
    return order


@dataclass(frozen=True)
class Grid:
    """A grid of runs.

    Attributes:
        base: settings that all runs share.
        axes: values by :class:`~.settings.SyntheticConfig` field.
        subsample: number of points in the pairwise metrics.
    """

    base: SyntheticConfig
    axes: dict[str, tuple[Any, ...]]
    subsample: int

    def runs(self) -> list[SyntheticConfig]:
        """List every run of the grid, in the order in which they are made."""
        combinations = itertools.product(*self.axes.values())
        shared = asdict(self.base)
        runs = [SyntheticConfig(**{**shared, **dict(zip(self.axes, values, strict=True))}) for values in combinations]
        return mixed(runs)


ALPHAS = (0.01, 0.25, 0.5, 0.75, 0.99)
"""Shares of X in the mixture (appendix C)."""

PRESETS = {
    # Appendix C of the paper, all of it.
    "full": Grid(
        SyntheticConfig(distribution="mixture"),
        {
            "alpha": ALPHAS,
            "lr": (0.5, 0.05, 0.005, 0.0005, 0.00005),
            "beta1": (0.0, 0.1, 1.0, 10.0, 100.0),
            "beta2": (0.0, 0.1, 1.0, 10.0, 100.0),
            "lambda2": (1.0, 10.0, 25.0),
            "lambda3": (1.0, 10.0, 25.0),
        },
        subsample=1000,
    ),
    # A tenth of the points, of m and of the paper's rate of 0.5, and the same number of steps, so that a step is as far
    # past stability as in the paper. The weights span the paper's, including the published ones (100, 100, 1, 1).
    "quick": Grid(
        SyntheticConfig(distribution="mixture", num_samples=1000, m=10, steps=200_000),
        {
            "alpha": ALPHAS,
            "lr": (0.05,),
            "beta1": (0.0, 1.0, 100.0),
            "beta2": (0.0, 1.0, 100.0),
            "lambda2": (1.0, 25.0),
            "lambda3": (1.0,),
            "seed": (0, 1, 2),
        },
        subsample=500,
    ),
}


def sweep(
    configs: Sequence[SyntheticConfig],
    out: Path,
    *,
    subsample: int,
    shard: tuple[int, int] = (0, 1),
    workers: int | None = None,
    device: str = "cpu",
    batch: int = 128,
    on_row: OnRow | None = None,
) -> list[Row]:
    """Make the missing runs of one shard.

    Args:
        configs: the runs of all shards, for example :meth:`Grid.runs`.
        out: folder of the result files; created if missing.
        subsample: number of points in the pairwise metrics.
        shard: ``(i, n)``: the i-th of n parts, from 0.
        workers: number of processes; default: one per usable core.
        device: ``cpu`` makes one run per process; any other torch device makes batches, which the processes measure.
        batch: number of runs on the device at once.
        on_row: callback with the number of finished and of all runs, and the row (None at the beginning).

    Returns:
        The rows of this shard, both new and existing.

    Raises:
        UserError: the shard does not exist, or there are fewer than one worker.
        LockedError: another process is making this shard in this folder.
        OSError: a row cannot be written; the rows before it are kept.
    """
    index, count = shard
    if not 0 <= index < count:
        raise UserError(f"shard i/n needs 0 <= i < n, got {index}/{count}")
    workers = usable_cores() if workers is None else workers
    if workers < 1:
        raise UserError(f"workers must be at least 1, got {workers}")
    mine = configs[index::count]
    out.mkdir(parents=True, exist_ok=True)
    with ResultsFile(out / f"results-{index}-of-{count}.jsonl") as results:
        rows = {row["key"]: row for row in read_rows(out)}
        missing = [config for config in mine if config.key not in rows]
        done = len(mine) - len(missing)
        if on_row is not None:
            on_row(done, len(mine), None)
        for row in _make(missing, subsample, workers, device, batch):
            results.append(row)
            rows[row["key"]] = row
            done += 1
            if on_row is not None:
                on_row(done, len(mine), row)
    return [rows[config.key] for config in mine]


class ResultsFile:
    """An append-only file of JSON lines that one process writes.

    Opening it removes a truncated last line and every damaged line, and reports the damaged ones. A file without any
    valid row belongs to another program and is refused.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        lock = path.with_name(f".{path.name}.lock")
        self._lock = HeldLock(lock, f"writing {path}", remedy="give each its own --shard or --out")

    def __enter__(self) -> ResultsFile:
        self._lock.acquire()
        try:
            self._keep_whole_lines()
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self._lock.release()

    def append(self, row: Row) -> None:
        """Write one row to disk and verify it before returning.

        Raises:
            OSError: the row cannot be written completely; the file is unchanged.
        """
        append_line(self._path, json.dumps(row), sync=True)

    def _keep_whole_lines(self) -> None:
        lines = _whole_lines(self._path)
        if lines and not any(map(_parsed, lines)):
            raise UserError(
                f"{self._path} was not written by `radial-vicreg synthetic`: move it away, or choose another place"
            )
        _report_damaged(self._path, lines, "removed: its run is missing")
        content = b"".join(line + b"\n" for line in lines if _parsed(line) is not None)
        if not self._path.is_file() or content != self._path.read_bytes():
            with atomic_file(self._path) as stream:
                stream.write(content)


def read_rows(out: Path) -> list[Row]:
    """Read the rows of a folder's result files, one per run, with the current names of their distributions.

    Damaged lines are reported. An unterminated last line is ignored, since another process may be writing it.
    """
    rows: dict[str, Row] = {}
    for path in sorted(out.glob("results-*.jsonl")):
        lines = _whole_lines(path)
        _report_damaged(path, lines, "ignored: its run is missing")
        for row in filter(None, map(_parsed, lines)):
            row = _with_present_name(row)
            rows[row["key"]] = row
    return list(rows.values())


def _whole_lines(path: Path) -> list[bytes]:
    """Read the terminated lines of a file as bytes, since a damaged line may not be valid text."""
    return path.read_bytes().split(b"\n")[:-1] if path.is_file() else []


def _report_damaged(path: Path, lines: Sequence[bytes], what_follows: str) -> None:
    for number, line in enumerate(lines, 1):
        if _parsed(line) is None:
            begin = line[:_SHOWN].decode(errors="replace")
            warn(f"line {number} of {path} is damaged ({begin!r}...) and {what_follows}")


def _parsed(line: bytes) -> Row | None:
    """Parse a line; return None unless it is a row with key, configuration and metrics."""
    try:
        row = json.loads(line)
        SyntheticConfig(**row["config"])
        figures = [value for moment in ("before", "after") for value in (row[moment] or {}).values()]
        settings = [value for value in row["config"].values() if not isinstance(value, str)]
        numbers = [float(value) for value in (*figures, *settings) if value is not None]
        whole = isinstance(row["key"], str) and all(map(math.isfinite, numbers))
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
        return None
    return row if whole else None


def _with_present_name(row: Row) -> Row:
    """Rename a row whose distribution name was redefined since, to the current name of the former definition."""
    distribution = DISTRIBUTIONS.get(row["config"]["distribution"])
    if distribution is None or row.get("definition", 1) == distribution.definition:
        return row
    config = {**row["config"], "distribution": distribution.formerly}
    return {**row, "config": config, "key": SyntheticConfig(**config).key}


def run_row(config: SyntheticConfig, subsample: int) -> Row:
    """Make one run on one core and measure it."""
    began = time.perf_counter()
    engine = CpuEngine(config.start(), config)
    engine.advance(config.rates())
    return row_of(config, engine.points, engine.diverged_at, time.perf_counter() - began, subsample)


def _make(configs: Sequence[SyntheticConfig], subsample: int, workers: int, device: str, batch: int) -> Iterator[Row]:
    if device == "cpu":
        tasks: Iterable[Task] = (partial(run_row, config, subsample) for config in configs)
    else:
        tasks = _device_tasks(configs, subsample, device, batch)
    if workers == 1:
        yield from (task() for task in tasks)
        return
    # Spawn instead of fork, which can hang after torch has started threads.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_one_thread) as pool:
        pending: set[Future[Row]] = set()
        try:
            for task in tasks:
                pending.add(pool.submit(task))
                while len(pending) >= 2 * workers:
                    finished, pending = wait(pending, return_when=FIRST_COMPLETED)
                    yield from (future.result() for future in finished)
            while pending:
                finished, pending = wait(pending, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in finished)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _device_tasks(configs: Sequence[SyntheticConfig], subsample: int, device: str, batch: int) -> Iterator[Task]:
    """Descend in batches of compatible runs on the device, and yield the measurements as tasks."""
    groups: dict[tuple[Any, ...], list[SyntheticConfig]] = {}
    for config in configs:
        shared = config.objective, config.spacing(config.num_samples), config.num_samples, config.dim
        groups.setdefault((*shared, config.steps), []).append(config)
    for group in groups.values():
        for first in range(0, len(group), batch):
            part = group[first : first + batch]
            began = time.perf_counter()
            starts = np.stack([config.start() for config in part])
            engine = TorchEngine(starts, part, device)
            engine.advance(np.stack([config.rates() for config in part], axis=1))
            points, diverged_at = engine.points, engine.diverged_at
            seconds = (time.perf_counter() - began) / len(part)
            for place, config in enumerate(part):
                yield partial(row_of, config, points[place], diverged_at[place], seconds, subsample)


def _one_thread() -> None:
    torch.set_num_threads(1)
