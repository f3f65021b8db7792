"""Common parts of benchmarks: interleaved timings, peak memory, description of the machine, JSON and Markdown.

Every comparison runs in one process, A B C A B C ..., so that other load on the machine affects all alike. On a GPU,
CUDA events time the queued work; on a CPU, the clock does.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import re
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from radial_vicreg.io.files import claim_output, write_json

RESULTS = Path(__file__).parent / "results"
#: A short call is repeated until a sample takes this long (seconds), so that the overhead of the clock is negligible.
SHORTEST_SAMPLE = 2e-3
MOST_CALLS = 50
MOST_SAMPLES = 10
_PACKAGES = ("torch", "torchvision", "lightning", "timm", "numpy", "lightly", "solo-learn", "stable-pretraining")

Call = Callable[[], object]


@dataclass
class Timing:
    """Seconds of one call: median and interquartile range over the samples."""

    median: float
    spread: float
    samples: int
    calls: int


def compare(
    contestants: dict[str, Call],
    device: torch.device | str = "cpu",
    repeats: int = 15,
    seconds: float = float("inf"),
    warmup: int = 2,
    calls_per_sample: int | None = None,
) -> dict[str, Timing]:
    """Time every contestant in turn, for ``repeats`` rounds or until ``seconds`` have elapsed (at least two rounds).

    A sample is one call, or several if a call is too short for the clock. A turn is one sample; for a fast contestant,
    it is as many samples as fit into one of the slowest, ``MOST_SAMPLES`` at most. Two rounds are then enough, and
    few samples run with caches filled by another contestant. With ``calls_per_sample``, a turn is one sample of that
    many calls; processes that wait for each other need it, since their number of calls must not depend on the clock.
    """
    device = torch.device(device)
    calls: dict[str, int] = {}
    lasts: dict[str, float] = {}
    for name, call in contestants.items():
        for _ in range(max(1, warmup)):
            took = _timed(call, 1, device)
        lasts[name] = took
        calls[name] = calls_per_sample or min(MOST_CALLS, max(1, round(SHORTEST_SAMPLE / max(took, 1e-7))))
    slowest = max(lasts[name] * calls[name] for name in contestants)
    turns = {name: min(MOST_SAMPLES, max(1, round(slowest / (lasts[name] * calls[name])))) for name in contestants}
    if calls_per_sample:
        turns = dict.fromkeys(contestants, 1)
    samples: dict[str, list[float]] = {name: [] for name in contestants}
    began = time.perf_counter()
    for number in range(max(2, repeats)):
        if number >= 2 and time.perf_counter() - began > seconds:
            break
        for name, call in contestants.items():
            samples[name] += [_timed(call, calls[name], device) for _ in range(turns[name])]
    return {
        name: Timing(statistics.median(values), quartile_range(values), len(values), calls[name])
        for name, values in samples.items()
    }


def peak_extra_bytes(call: Call, device: torch.device | str = "cpu") -> int:
    """Measure the peak memory of one call beyond the memory held before; run the call once before.

    On a GPU, the value is from the caching allocator. On a CPU, it is the running sum of the allocations and releases
    that PyTorch's profiler records: tensors and workspaces of PyTorch's kernels, but not MKL's own memory.
    """
    device = torch.device(device)
    if device.type == "cuda":
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        call()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        call()
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]  # type: ignore[union-attr]
    held = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


def machine(device: torch.device | str = "cpu") -> dict[str, Any]:
    """Describe the machine of a measurement: date, processor or GPU, threads, versions."""
    device = torch.device(device)
    found: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else _cpu_name(),
        "cpu": _cpu_name(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in _PACKAGES},
    }
    if device.type == "cuda":
        found["cuda"] = torch.version.cuda
        found["tf32_matmul"] = torch.backends.cuda.matmul.allow_tf32
    return found


def headline(found: dict[str, Any]) -> str:
    """Format the result of :func:`machine` as a sentence."""
    versions = ", ".join(f"{key} {value}" for key, value in found["versions"].items() if value)
    return f"{found['date']}: {found['device']}, {found['threads']} CPU threads, Python {found['python']}, {versions}."


def slug(device: torch.device | str = "cpu") -> str:
    """Return the name of the machine for file names."""
    found = machine(device)
    name = found["device"] if torch.device(device).type == "cuda" else f"{found['cpu']}-{found['threads']}-threads"
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Make a Markdown table, with padded columns for reading as plain text."""
    cells = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in cells
    ]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


def output_folder(text: str) -> Path:
    """Check that ``--out`` is writable, as argparse's ``type``, so before any measurement."""
    try:
        return claim_output(text, "folder")
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def save(
    name: str,
    title: str,
    tables: dict[str, str],
    content: dict[str, Any],
    device: torch.device | str = "cpu",
    folder: Path = RESULTS,
) -> Path:
    """Write ``<name>-<machine>.json`` and ``.md``; the Markdown contains the command, the machine and the tables."""
    where = machine(device)
    path = folder / f"{name}-{slug(device)}.json"
    write_json(path, {"name": name, "machine": where, **content})
    lines = [f"# {title}", "", headline(where)]
    for heading, table in tables.items():
        lines += ["", f"## {heading}", "", table]
    path.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def quartile_range(values: list[float]) -> float:
    """Return the interquartile range."""
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return high - low


def as_plain(timings: dict[str, Timing]) -> dict[str, dict[str, float]]:
    """Convert timings for JSON."""
    return {name: asdict(timing) for name, timing in timings.items()}


def milliseconds(timing: Timing) -> str:
    """Format median and spread for a table."""
    return f"{timing.median * 1e3:.3g} ± {timing.spread * 1e3:.1g}"


def _timed(call: Call, calls: int, device: torch.device) -> float:
    if device.type == "cuda":
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3 / calls
    began = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - began) / calls


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _cpu_name() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    found = re.search(r"model name\s*:\s*(.+)", text)
    return found.group(1).strip() if found else platform.machine()
