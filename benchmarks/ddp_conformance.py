"""Value and gradient of each loss on several processes against one process that holds the whole batch.

    python -m benchmarks.ddp_conformance [--sizes 64x128 512x256] [--processes 2] [--page docs/ddp.md]

Every process (gloo, one thread, float32) holds an equal part of the rows of two views. The comparison covers the mean
of the losses over the processes and the gradient that DDP computes: each process's gradient with respect to its own
embeddings, divided by the number of processes, concatenated. The single process holds the same rows in the same order.

Both sides use the same random directions, so that their noise does not affect the comparison. If a loss shares its
directions between processes, or seeds them by a counter, the generators of the processes differ. If a loss gathers
embeddings but each process has its own directions, it is compared with the mean of one process over these directions
in turn, which equals DDP's mean. For any other loss, all processes have the same seed. `--page` replaces the table
between two marks in a file by the table of this run.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor

from benchmarks.ddp_losses import ALIKE, ENTRIES, OWN, Entry, Loss, one_line, unavailable, version
from benchmarks.objective import size
from benchmarks.runner import RESULTS, headline, machine, markdown_table, output_folder, save

SIZES = [(64, 128), (512, 256)]  # fewer and more rows than dimensions
#: Maximum time that a process waits for the others.
TIMEOUT = datetime.timedelta(seconds=120)
START, END = "<!-- table: python -m benchmarks.ddp_conformance -->", "<!-- end of the table -->"


class Outcome(NamedTuple):
    """Result of one call of a loss.

    Attributes:
        value: loss, 0-d.
        gradient: gradient with respect to both views, shape ``(2, n, d)``.
    """

    value: Tensor
    gradient: Tensor


class Agreement(NamedTuple):
    """Agreement of several processes with a single one.

    Attributes:
        value: mean value over the processes.
        expected: value of the single process.
        norm_ratio: norm of DDP's gradient over the norm of the single process's gradient.
        cosine: cosine of the angle between the two gradients.
        difference: norm of their difference over the norm of the single process's gradient.
    """

    value: float
    expected: float
    norm_ratio: float
    cosine: float
    difference: float


def views(count: int, dim: int) -> Tensor:
    """Sample two views of ``count`` embeddings as in the middle of a training, shape ``(2, count, dim)``.

    They are correlated and off the origin, with standard deviations below one in some dimensions and above one in
    others, so that every term of every loss has a gradient.
    """
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    rank = max(1, dim // 4)
    correlated = normal(count, rank) @ normal(rank, dim) / rank**0.5
    spread = torch.linspace(0.5, 1.5, dim)
    images = 0.7 * (correlated + normal(count, dim)) * spread + 0.3 * normal(dim)
    return images + 0.3 * normal(2, count, dim)


def call(loss: Loss, embeddings: Tensor, seed: int) -> Outcome:
    """Run one forward and backward pass; ``embeddings`` has shape ``(2, n, d)``."""
    z1, z2 = (view.clone().requires_grad_() for view in embeddings)
    torch.manual_seed(seed)
    value = loss(z1, z2)
    return Outcome(value.detach(), torch.stack(torch.autograd.grad(value, (z1, z2))))


def one_process(entry: Entry, embeddings: Tensor, processes: int) -> Outcome:
    """Compute the expected result: one process with the whole batch and the random numbers of the processes."""
    seeds = range(processes) if entry.draws == OWN else [0]
    outcomes = [call(entry.build(), embeddings, seed) for seed in seeds]
    return Outcome(*(torch.stack(parts).mean(dim=0) for parts in zip(*outcomes, strict=True)))


def agreement(ranks: Sequence[Outcome], expected: Outcome) -> Agreement:
    """Compare the processes, in the order of their rows, with a single one, in float64."""
    value = sum(float(rank.value) for rank in ranks) / len(ranks)
    found = torch.cat([rank.gradient.double() for rank in ranks], dim=1).flatten() / len(ranks)
    right = expected.gradient.double().flatten()
    lengths = found.norm() * right.norm()
    return Agreement(
        value,
        float(expected.value),
        float(found.norm() / right.norm()),
        float(found @ right / lengths),
        float((found - right).norm() / right.norm()),
    )


def _worker(rank: int, processes: int, folder: str, numbers: list[int], sizes: list[tuple[int, int]]) -> None:
    torch.set_num_threads(1)
    reasons = {number: unavailable(ENTRIES[number]) for number in numbers}  # slow imports, done before the group exists
    assert not any(reasons.values()), reasons
    cases = [(number, size) for number in numbers for size in sizes]
    early = {case: ENTRIES[case[0]].build() for case in cases if ENTRIES[case[0]].before_group}
    store = dist.FileStore(f"{folder}/store", processes)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=processes, timeout=TIMEOUT)
    found: dict[tuple[int, int, int], tuple[Tensor, ...] | str] = {}
    for number, (count, dim) in cases:
        rows = count // processes
        own = views(count, dim)[:, rank * rows : (rank + 1) * rows]
        try:
            loss = early.get((number, (count, dim))) or ENTRIES[number].build()
            found[number, count, dim] = tuple(call(loss, own, seed=0 if ENTRIES[number].draws == ALIKE else rank))
        except Exception as error:  # raised on every process alike; the other losses still run
            found[number, count, dim] = one_line(error)
    torch.save(found, f"{folder}/rank{rank}.pt")
    dist.destroy_process_group()


def several_processes(
    numbers: list[int], sizes: list[tuple[int, int]], processes: int
) -> list[dict[tuple[int, int, int], Any]]:
    """Return for each process an outcome, or an error, by the loss's index in ``ENTRIES``, count and dimension."""
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(_worker, args=(processes, folder, numbers, sizes), nprocs=processes)
        return [torch.load(f"{folder}/rank{rank}.pt", weights_only=True) for rank in range(processes)]


def compare(numbers: list[int], sizes: list[tuple[int, int]], processes: int) -> list[dict[str, Any]]:
    """Return one row per loss: package, setting, and per size an :class:`Agreement` or why there is none."""
    reasons = {number: unavailable(ENTRIES[number]) for number in numbers}
    seen = several_processes([number for number in numbers if reasons[number] is None], sizes, processes)
    rows = []
    for number in numbers:
        entry = ENTRIES[number]
        row: dict[str, Any] = {name: getattr(entry, name) for name in ("package", "loss", "setting", "draws")}
        row |= {"version": version(entry.package), "problem": reasons[number], "sizes": {}}
        for count, dim in sizes if row["problem"] is None else []:
            ranks = [rank[number, count, dim] for rank in seen]
            row["problem"] = next((f"fails: {rank}" for rank in ranks if isinstance(rank, str)), None)
            if row["problem"] is not None:
                break
            expected = one_process(entry, views(count, dim), processes)
            found = agreement([Outcome(*rank) for rank in ranks], expected)
            row["sizes"][f"{count}x{dim}"] = found._asdict()
        rows.append(row)
    return rows


def table(rows: list[dict[str, Any]], sizes: list[tuple[int, int]]) -> str:
    """Make the table, with values relative to one process; the last column is the largest difference over the sizes."""
    names = [f"{count}x{dim}" for count, dim in sizes]
    header = ["package", "loss", "setting", "draws"]
    header += [f"{what}, {name}" for name in names for what in ("value", "norm", "cosine")]
    cells = []
    for row in rows:
        whose = [" ".join(filter(None, (row["package"], row["version"]))), row["loss"], row["setting"], row["draws"]]
        if row["problem"] is not None:
            cells.append([*whose, row["problem"], *[""] * (3 * len(names))])
            continue
        found = [Agreement(**row["sizes"][name]) for name in names]
        numbers = [(f"{one.value / one.expected:.4f}", f"{one.norm_ratio:.4f}", f"{one.cosine:.5f}") for one in found]
        cells.append([*whose, *itertools.chain(*numbers), f"{max(one.difference for one in found):.1g}"])
    return markdown_table([*header, "difference"], cells)


def with_table(page: str, content: str) -> str:
    """Return the page with ``content`` between its two marks.

    Raises:
        ValueError: the page does not contain each mark exactly once, in order.
    """
    before, start, rest = page.partition(START)
    _, end, after = rest.partition(END)
    if not (start and end) or page.count(START) + page.count(END) != 2:
        raise ValueError(f"one line {START!r} and after it one line {END!r} are needed")
    return f"{before}{START}\n{content}\n{END}{after}"


def page_with_marks(text: str) -> Path:
    """Check that ``--page`` is readable and has a table, as argparse's ``type``, so before any measurement."""
    try:
        with_table(Path(text).read_text(encoding="utf-8"), "")
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{text}: {error}") from error
    return Path(text)


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--sizes", nargs="+", type=size, default=SIZES, metavar="NxD", help="sizes N of the whole batch"
    )
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--page", type=page_with_marks, help="Markdown page in which the table is replaced")
    parser.add_argument("--out", type=output_folder, default=RESULTS)
    options = parser.parse_args(arguments)
    if options.processes < 2:
        parser.error(f"--processes: at least 2 are needed, got {options.processes}")
    for count, _ in options.sizes:
        if count % options.processes or count < 2 * options.processes:
            parser.error(
                f"--sizes: {count} rows are not an equal number of 2 or more for {options.processes} processes"
            )
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    options = parsed(arguments)
    torch.set_num_threads(1)
    rows = compare(list(range(len(ENTRIES))), options.sizes, options.processes)
    found = table(rows, options.sizes)
    print(found)
    heading = f"{options.processes} gloo processes against one, N x d of the whole batch"
    content = {"processes": options.processes, "sizes": options.sizes, "rows": rows}
    tables = {heading: found}
    path = save("ddp-conformance", "Losses on several processes against one", tables, content, folder=options.out)
    print(f"{path.with_suffix('.md')} and .json")
    if options.page is not None:
        page = options.page.read_text(encoding="utf-8")
        options.page.write_text(with_table(page, f"\n{headline(machine())}\n\n{found}\n"), encoding="utf-8")
        print(options.page)


if __name__ == "__main__":
    main()
