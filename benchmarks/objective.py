"""Forward and backward of the objective against other implementations and against the machine's arithmetic limit.

    python -m benchmarks.objective [--sizes 256x512 256x2048 128x8192] [--device cpu|cuda] [--seconds S] [--compile]
        [--views 2 4 8]

The columns are: the loss of this package as VICReg (`radial_objective="none"`), as Radial-VICReg, and as Radial-VICReg
with its `terms` read, as in a step that logs all of them; with `--compile`, Radial-VICReg under `torch.compile` (which
needs a C++ compiler or, on a GPU, Triton, and 10 to 20 seconds per size before the timing); VICReg with the arithmetic
of its authors' implementation, written anew in plain PyTorch (d x d covariances, whose off-diagonal entries are read
without a mask); solo-learn's `vicreg_loss_func` (without solo-learn, the same arithmetic in plain PyTorch; the JSON
records which); lightly's `VICRegLoss`, if installed. `--views` times Radial-VICReg alone, by the number of views.

The limit is the time of a perfect implementation at the rates that this machine reaches in the same run: the matrix
products (8 N d min(N, d) operations, two views, forward and backward) at the rate of a large square product, and
reading both views twice and writing both gradients once (6 N d numbers) at the bandwidth of a large copy.
"""

from __future__ import annotations

import argparse
import importlib.util
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.runner import (
    RESULTS,
    Timing,
    as_plain,
    compare,
    markdown_table,
    milliseconds,
    output_folder,
    peak_extra_bytes,
    save,
)
from radial_vicreg.losses import RadialVICRegLoss

Loss = Callable[..., Tensor]

SIZES = [(n, d) for n in (128, 256, 1024, 4096) for d in (512, 2048, 8192)]
VICREG, RADIAL, LOGGED, COMPILED = "VICReg", "Radial-VICReg", "terms read", "compiled"
AUTHORS, SOLO, LIGHTLY = "VICReg's authors", "solo-learn", "lightly"
OURS = (VICREG, RADIAL, LOGGED, COMPILED)
RIVALS = (AUTHORS, SOLO, LIGHTLY)
SPEEDUPS = {
    "x authors": f"speedup_over_{AUTHORS}",
    "x solo-learn": f"speedup_over_{SOLO}",
    "compiled x solo-learn": f"compiled_speedup_over_{SOLO}",
    "x lightly": f"speedup_over_{LIGHTLY}",
}
#: Peak memory of other implementations per entry of a d x d matrix (solo-learn: masks and indices), measured at d 2048.
RIVAL_BYTES_PER_ENTRY = {AUTHORS: 32, SOLO: 64, LIGHTLY: 32}
MOST_RIVAL_SECONDS = 20.0
MOST_RIVAL_BYTES = {"cpu": 8e9, "cuda": 40e9}
MATMUL_SIZE = {"cpu": 2048, "cuda": 8192}
COPY_NUMBERS = {"cpu": 2**24, "cuda": 2**28}


def losses(names: tuple[str, ...]) -> dict[str, Loss]:
    """Return the implementations by name; those that are not installed are omitted."""
    found: dict[str, Loss] = {
        VICREG: RadialVICRegLoss(radial_objective="none"),
        RADIAL: RadialVICRegLoss(),
        LOGGED: _with_terms(RadialVICRegLoss()),
    }
    if COMPILED in names:
        torch.compiler.reset()  # otherwise a second size would be compiled with dynamic shapes
        found[COMPILED] = torch.compile(RadialVICRegLoss())
    found[AUTHORS] = _authors_form
    if SOLO in names and importlib.util.find_spec("solo") is None:
        found[SOLO] = _masked_covariance
    elif SOLO in names:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from solo.losses.vicreg import vicreg_loss_func

        found[SOLO] = vicreg_loss_func
    if LIGHTLY in names and importlib.util.find_spec("lightly") is not None:
        from lightly.loss import VICRegLoss

        found[LIGHTLY] = VICRegLoss()
    return {name: loss for name, loss in found.items() if name in names}


def _with_terms(objective: RadialVICRegLoss) -> Loss:
    def loss(z1: Tensor, z2: Tensor) -> Tensor:
        total = objective(z1, z2)
        _ = objective.terms
        return total

    return loss


def _authors_form(z1: Tensor, z2: Tensor) -> Tensor:
    """Compute VICReg as its authors' implementation does: d x d covariances, read without a mask."""
    total = 25 * (z1 - z2).square().mean()
    dim = z1.shape[1]
    for z in (z1, z2):
        centred = z - z.mean(dim=0)
        # Without its first entry, a d x d matrix has a diagonal entry at the end of every d + 1.
        others = (centred.T @ centred / (len(z) - 1)).flatten()[1:].view(dim - 1, dim + 1)[:, :-1]
        total = total + 25 * torch.relu(1 - (centred.var(dim=0) + 1e-4).sqrt()).mean() / 2
        total = total + others.square().sum() / dim
    return total


def _masked_covariance(z1: Tensor, z2: Tensor) -> Tensor:
    """Compute a replacement of solo-learn's loss if it is not installed: the same arithmetic, with a d x d mask."""
    total = 25 * (z1 - z2).square().mean()
    dim = z1.shape[1]
    others = ~torch.eye(dim, device=z1.device).bool()
    for z in (z1, z2):
        centred = z - z.mean(dim=0)
        covariance = centred.T @ centred / (len(z) - 1)
        total = total + 25 * torch.relu(1 - (z.var(dim=0) + 1e-4).sqrt()).mean()
        total = total + covariance[others].square().sum() / dim
    return total


def step(loss: Loss, count: int, dim: int, dtype: torch.dtype, device: str, number: int = 2) -> Callable[[], None]:
    """Return a function that runs one forward and backward pass on its own views."""
    generator = torch.Generator().manual_seed(0)
    first = torch.randn(count, dim, generator=generator)
    others = [first + 0.5 * torch.randn(count, dim, generator=generator) for _ in range(number - 1)]
    views = [z.to(device, dtype).requires_grad_() for z in (first, *others)]

    def run() -> None:
        for z in views:
            z.grad = None
        loss(*views).backward()

    return run


def machine_rates(device: str) -> dict[str, float]:
    """Measure operations per second of a square matrix product and bytes per second of a copy, float32."""
    side, numbers = MATMUL_SIZE[device], COPY_NUMBERS[device]
    a, b = torch.randn(side, side, device=device), torch.empty(side, side, device=device)
    x, y = torch.randn(numbers, device=device), torch.empty(numbers, device=device)
    found = compare({"matmul": lambda: torch.mm(a, a, out=b), "copy": lambda: y.copy_(x)}, device, repeats=7)
    return {
        "flops_per_second": 2 * side**3 / found["matmul"].median,
        "bytes_per_second": 2 * 4 * numbers / found["copy"].median,
    }


def limit_seconds(count: int, dim: int, rates: dict[str, float]) -> float:
    operations = 8 * count * dim * min(count, dim)
    return operations / rates["flops_per_second"] + 6 * 4 * count * dim / rates["bytes_per_second"]


def affordable(name: str, count: int, dim: int, device: str, rates: dict[str, float]) -> bool:
    """Return whether one call of another implementation stays within the limits of time and memory."""
    if name in OURS:
        return True
    needed = RIVAL_BYTES_PER_ENTRY[name] * dim * dim
    # Three d x d products per view, and passes over d x d masks that cost about as much as a product with 1,000 rows.
    seconds = 12 * dim * dim * (count + 1000) / rates["flops_per_second"]
    return needed < MOST_RIVAL_BYTES[device] and seconds < MOST_RIVAL_SECONDS


def measure(
    count: int,
    dim: int,
    dtype: torch.dtype,
    device: str,
    rates: dict[str, float],
    seconds: float,
    repeats: int,
    compiled: bool = False,
) -> dict[str, Any]:
    """Measure time and peak memory of every implementation at one size."""
    names = tuple(
        name
        for name in (*OURS, *RIVALS)
        if affordable(name, count, dim, device, rates) and (compiled or name != COMPILED)
    )
    calls = {name: step(loss, count, dim, dtype, device) for name, loss in losses(names).items()}
    times = compare(calls, device, repeats=repeats, seconds=seconds, warmup=1 if device == "cpu" else 3)
    row: dict[str, Any] = {
        "count": count,
        "dim": dim,
        "dtype": str(dtype).removeprefix("torch."),
        "seconds": as_plain(times),
        "peak_extra_bytes": {name: peak_extra_bytes(call, device) for name, call in calls.items()},
        "solo_learn_installed": importlib.util.find_spec("solo") is not None,
        "radial_share": times[RADIAL].median / times[VICREG].median - 1,
    }
    if dtype == torch.float32:
        row["limit_seconds"] = limit_seconds(count, dim, rates)
        row["times_the_limit"] = times[VICREG].median / row["limit_seconds"]
    for rival in RIVALS:
        if rival in times:
            row[f"speedup_over_{rival}"] = times[rival].median / times[VICREG].median
            if compiled:
                row[f"compiled_speedup_over_{rival}"] = times[rival].median / times[COMPILED].median
    return row


def measure_views(
    count: int, dim: int, dtype: torch.dtype, device: str, numbers: list[int], seconds: float, repeats: int
) -> list[dict[str, Any]]:
    """Measure time and peak memory of Radial-VICReg for each number of views, compared with two views."""
    calls = {
        str(number): step(RadialVICRegLoss(), count, dim, dtype, device, number) for number in sorted({2, *numbers})
    }
    times = compare(calls, device, repeats=repeats, seconds=seconds, warmup=1 if device == "cpu" else 3)
    peaks = {name: peak_extra_bytes(call, device) for name, call in calls.items()}
    return [
        {
            "count": count,
            "dim": dim,
            "dtype": str(dtype).removeprefix("torch."),
            "views": int(name),
            "seconds": timing,
            "times_two_views": timing["median"] / times["2"].median,
            "peak_extra_bytes": peaks[name],
            "peak_times_two_views": peaks[name] / peaks["2"],
        }
        for name, timing in as_plain(times).items()
    ]


def views_table(rows: list[dict[str, Any]]) -> str:
    header = ["N", "d", "dtype", "views", f"{RADIAL}, ms", "x two views", "peak, MB", "x two views'"]
    cells = [
        [
            *(row[key] for key in ("count", "dim", "dtype", "views")),
            milliseconds(Timing(**row["seconds"])),
            f"{row['times_two_views']:.2f}",
            f"{row['peak_extra_bytes'] / 1e6:.1f}",
            f"{row['peak_times_two_views']:.2f}",
        ]
        for row in rows
    ]
    return markdown_table(header, cells)


def table(rows: list[dict[str, Any]]) -> str:
    header = ["N", "d", "dtype", *(f"{name}, ms" for name in (*OURS, *RIVALS))]
    header += [*SPEEDUPS, "x limit"]
    header += ["radial adds", "peak, MB", "of solo-learn's"]
    return markdown_table(header, [_cells(row) for row in rows])


def title() -> str:
    return "Objective: forward and backward, median ± interquartile range"


def tables(rows: list[dict[str, Any]], rates: dict[str, float]) -> dict[str, str]:
    rate = f"{rates['flops_per_second'] / 1e9:,.0f} GFLOP/s, {rates['bytes_per_second'] / 1e9:,.1f} GB/s"
    return {f"Limit at {rate}": table(rows)}


def _cells(row: dict[str, Any]) -> list[str]:
    times = {name: Timing(**value) for name, value in row["seconds"].items()}
    peak = row["peak_extra_bytes"]
    return [
        str(row["count"]),
        str(row["dim"]),
        row["dtype"],
        *(milliseconds(times[name]) if name in times else "-" for name in (*OURS, *RIVALS)),
        *(f"{row[key]:.1f}" if key in row else "-" for key in SPEEDUPS.values()),
        f"{row['times_the_limit']:.2f}" if "times_the_limit" in row else "-",
        f"{row['radial_share']:+.1%}",
        f"{peak[RADIAL] / 1e6:.1f}",
        f"{peak[RADIAL] / peak[SOLO]:.1%}" if SOLO in peak else "-",
    ]


def size(text: str) -> tuple[int, int]:
    count, _, dim = text.partition("x")
    return int(count), int(dim)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", type=size, default=SIZES, metavar="NxD")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=("cpu", "cuda"))
    parser.add_argument("--seconds", type=float, default=12.0, help="time limit for the repeats of one size")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--compile", action="store_true", help="also measure under torch.compile")
    parser.add_argument(
        "--views", nargs="+", type=int, default=[], help="compare these numbers of views instead of the sizes"
    )
    parser.add_argument("--threads", type=int, help="CPU threads; default: PyTorch's")
    parser.add_argument("--out", type=output_folder, default=RESULTS)
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    dtypes = [torch.float32] if options.device == "cpu" else [torch.float32, torch.bfloat16, torch.float16]
    cases = [(count, dim, dtype, options.device) for count, dim in options.sizes for dtype in dtypes]
    limits = (options.seconds, options.repeats)
    if options.views:
        rows = [row for case in cases for row in measure_views(*case, options.views, *limits)]
        name, found, content = "objective-views", {"By the number of views": views_table(rows)}, {"rows": rows}
    else:
        rates, rows = machine_rates(options.device), []
        for case in cases:
            rows.append(measure(*case, rates, *limits, compiled=options.compile))
            print(table(rows[-1:]), flush=True)
        name, found, content = "objective", tables(rows, rates), {"rates": rates, "rows": rows}
    path = save(name, title(), found, content, options.device, options.out)
    print(f"{path.with_suffix('.md')} and .json")


if __name__ == "__main__":
    main()
