"""What the objective costs in data-parallel training: a model for 1 to 1,024 GPUs, and two gloo processes.

    python -m benchmarks.scaling [--per-gpu 256] [--dims 512 2048 8192]
    python -m benchmarks.scaling --measure

There are two ways to compute the covariance of a global batch of N = GPUs x n samples. *Exchange* gathers the
embeddings (each GPU receives 2 N d numbers), and each GPU computes its n rows of the N x N Gram matrix: 8 n N d
operations, forward and backward. *Reduce* sums second moments (a ring passes 2 x 2 (d^2 + d) numbers through each GPU)
at 8 n d^2 operations. The objective exchanges up to N = d and reduces beyond. This minimises operations, with bytes
within a factor of two of the minimum (both ways send equally many at N = 2 d). The last columns are the cost of
gathering all embeddings and computing everything on every GPU, as common implementations do: 12 N d^2 operations,
three d x d products per view.

Either way has three collectives (``tests/runtime/test_distributed.py`` counts them): the shapes of the batches; the
embeddings, or their sums; the squared norms of the Gram matrices, or the second moments, together with the radii. A
training step of this package has one more for the terms that it logs and one for signals, besides those of DDP and of
the synchronised BatchNorm. Memory is what the objective holds for two views at the end of its forward pass, and the
peak within it, in float32.
"""

from __future__ import annotations

import argparse
import datetime
import math
import tempfile
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor

from benchmarks.runner import RESULTS, Timing, as_plain, compare, markdown_table, milliseconds, output_folder, save
from radial_vicreg.losses import _statistics

FLOAT = 4
COLLECTIVES = 3
"""Collectives of the objective, forward and backward."""
GPUS = tuple(2**power for power in range(11))
PER_NODE = 8


@dataclass
class Assumptions:
    """Round numbers for H100 nodes; the ratios between the methods hardly depend on them.

    Attributes:
        flops: float32 operations per second of one GPU without TF32.
        inside: bytes per second that a GPU sends within a node of 8 (NVLink).
        between: bytes per second that a GPU sends between nodes (one 400 Gb/s port per GPU).
        latency: latency of a collective in seconds for each doubling of the number of GPUs.
    """

    flops: float = 40e12
    inside: float = 300e9
    between: float = 45e9
    latency: float = 10e-6


@dataclass
class Cost:
    """Cost of one step on each GPU.

    Attributes:
        bytes: sent by each GPU.
        flops: operations.
        collectives: number of collectives, each with its latency.
        memory: peak of the forward pass in bytes, without the embeddings of the GPU's own samples.
    """

    bytes: float
    flops: float
    collectives: int
    memory: float = 0.0

    def seconds(self, gpus: int, given: Assumptions) -> float:
        bandwidth = given.inside if gpus <= PER_NODE else given.between
        waits = self.collectives * given.latency * math.log2(gpus) if gpus > 1 else 0.0
        return self.bytes / bandwidth + self.flops / given.flops + waits


VIEWS = 2


def exchange(gpus: int, rows: int, dim: int) -> Cost:
    count = gpus * rows
    sent = (gpus - 1) / gpus * VIEWS * count * (dim + 1) * FLOAT
    # The gathered batch, its deviations, the squares of one view, and the rows of the Gram matrices.
    memory = FLOAT * (VIEWS * 2 * count * dim + count * dim + VIEWS * rows * count)
    return Cost(sent, 8.0 * rows * count * dim, COLLECTIVES, memory)


def reduce(gpus: int, rows: int, dim: int) -> Cost:
    sent = (gpus - 1) / gpus * 2 * VIEWS * (dim * dim + dim + gpus * rows) * FLOAT
    # Deviations, the difference of the views, and the second moments.
    memory = FLOAT * (VIEWS * rows * dim + rows * dim + VIEWS * dim * dim)
    return Cost(sent, 8.0 * rows * dim * dim, COLLECTIVES, memory)


def gather_all(gpus: int, rows: int, dim: int) -> Cost:
    """Return the cost of gathering, and of the d x d covariance of the whole batch on every GPU."""
    count = gpus * rows
    memory = FLOAT * (VIEWS * 2 * count * dim + VIEWS * dim * dim)
    return Cost(exchange(gpus, rows, dim).bytes, 12.0 * count * dim * dim, VIEWS, memory)


def chosen(gpus: int, rows: int, dim: int) -> str:
    """Return the method that the objective uses."""
    return "exchange" if gpus * rows <= dim else "reduce"


def model_rows(rows: int, dims: list[int], given: Assumptions) -> list[dict[str, Any]]:
    found = []
    for dim in dims:
        for gpus in GPUS:
            ways = {"exchange": exchange, "reduce": reduce, "gather all": gather_all}
            costs = {name: cost(gpus, rows, dim) for name, cost in ways.items()}
            seconds = {name: cost.seconds(gpus, given) for name, cost in costs.items()}
            cheaper = min(("exchange", "reduce"), key=seconds.__getitem__)
            found.append(
                {
                    "dim": dim,
                    "gpus": gpus,
                    "count": gpus * rows,
                    "bytes": {name: cost.bytes for name, cost in costs.items()},
                    "flops": {name: cost.flops for name, cost in costs.items()},
                    "memory": {name: cost.memory for name, cost in costs.items()},
                    "seconds": seconds,
                    "chosen": chosen(gpus, rows, dim),
                    "cheaper": cheaper,
                }
            )
    return found


def model_table(rows: list[dict[str, Any]]) -> str:
    header = ["d", "GPUs", "N", "exchange, MB", "reduce, MB", "exchange, ms", "reduce, ms", "chosen", "loses, ms"]
    header += ["memory, MB", "gather all, ms", "times chosen", "memory, MB"]
    cells = []
    for row in rows:
        seconds, taken = row["seconds"], row["seconds"][row["chosen"]]
        cells.append(
            [
                row["dim"],
                row["gpus"],
                f"{row['count']:,}",
                *(f"{row['bytes'][name] / 1e6:.3g}" for name in ("exchange", "reduce")),
                *(f"{seconds[name] * 1e3:.3g}" for name in ("exchange", "reduce")),
                row["chosen"],
                f"{(taken - seconds[row['cheaper']]) * 1e3:.2g}",
                f"{row['memory'][row['chosen']] / 1e6:,.0f}",
                f"{seconds['gather all'] * 1e3:.3g}",
                f"{seconds['gather all'] / taken:.1f}",
                f"{row['memory']['gather all'] / 1e6:,.0f}",
            ]
        )
    return markdown_table(header, cells)


def _fused(z1: Tensor, z2: Tensor) -> Tensor:
    found = _statistics.view_statistics((z1, z2), gather=True, center=False)
    return found.invariance + found.variance + found.covariance + found.squared_norms.mean()


def _gather_all(z1: Tensor, z2: Tensor) -> Tensor:
    found = _statistics._plain_statistics((z1, z2), gather=True, center=False)
    return found[0] + found[1] + found[2] + found[3].mean()


def _worker(rank: int, folder: str, sizes: list[tuple[int, int]]) -> None:
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", 2)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2, timeout=datetime.timedelta(seconds=120))
    found: dict[str, Any] = {}
    for rows, dim in sizes:
        z1, z2 = (torch.randn(rows, dim, requires_grad=True) for _ in range(2))
        calls = {
            "chosen": lambda z1=z1, z2=z2: _fused(z1, z2).backward(),
            "gather all": lambda z1=z1, z2=z2: _gather_all(z1, z2).backward(),
        }
        # The number of calls is fixed, since both processes must take part in each.
        found[f"{rows}x{dim}"] = as_plain(compare(calls, repeats=9, warmup=1, calls_per_sample=1))
    torch.save(found, f"{folder}/rank{rank}.pt")
    dist.destroy_process_group()


def measure(sizes: list[tuple[int, int]]) -> dict[str, Any]:
    """Time a forward and backward pass on two gloo processes with one thread each, by the clock of rank 0."""
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(_worker, args=(folder, sizes), nprocs=2)
        found: dict[str, Any] = torch.load(f"{folder}/rank0.pt", weights_only=True)
    return found


def measured_table(found: dict[str, Any]) -> str:
    cells = []
    for size, times in found.items():
        rows, dim = (int(part) for part in size.split("x"))
        ours, plain = (Timing(**times[name]) for name in ("chosen", "gather all"))
        ratio = f"{plain.median / ours.median:.2f}"
        cells.append([rows, 2 * rows, dim, chosen(2, rows, dim), milliseconds(ours), milliseconds(plain), ratio])
    return markdown_table(["n", "N", "d", "chosen", "chosen, ms", "gather all, ms", "times"], cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--per-gpu", type=int, default=256, help="samples per GPU")
    parser.add_argument("--dims", nargs="+", type=int, default=[512, 2048, 8192])
    parser.add_argument("--measure", action="store_true", help="also measure two gloo processes on this machine")
    parser.add_argument("--out", type=output_folder, default=RESULTS)
    options = parser.parse_args()
    given = Assumptions()
    rows = model_rows(options.per_gpu, options.dims, given)
    heading = (
        f"Model: {options.per_gpu} samples a GPU, {given.flops / 1e12:.0f} TFLOP/s, {given.inside / 1e9:.0f} GB/s"
        f" within {PER_NODE} GPUs, {given.between / 1e9:.0f} GB/s beyond, {given.latency * 1e6:.0f} us a doubling"
    )
    tables, content = {heading: model_table(rows)}, {"assumptions": given.__dict__, "model": rows}
    if options.measure:
        content["measured"] = measure([(256, 128), (512, 512), (128, 512), (128, 2048)])
        tables["Two gloo processes, one thread each"] = measured_table(content["measured"])
    for name, table in tables.items():
        print(f"{name}\n\n{table}\n")
    path = save("scaling", "Cost of the objective over GPUs", tables, content, folder=options.out)
    print(f"{path.with_suffix('.md')} and .json")


if __name__ == "__main__":
    main()
