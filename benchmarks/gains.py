"""How strong the gains over VICReg are: tables of docs/tables.md from ``paper.json`` and ``docs/evidence``.

    python -m benchmarks.gains             # the paper's values, and our studies
    python -m benchmarks.gains RUNS        # and our runs of the paper's cells

Nothing is trained. The paper gives a mean and a deviation over three seeds. Each gain gets the 95 % interval and the p
value of Welch's t test, with the deviations taken as sample deviations (n - 1) of three seeds.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scipy import integrate, stats

from benchmarks.runner import markdown_table
from benchmarks.studies import EVIDENCE, STUDIES, difference, runs_of
from radial_vicreg.names.terms import METHOD_LABELS
from radial_vicreg.paper.cells import ARCHITECTURES, Cell, Table, build_tables
from radial_vicreg.paper.values import paper
from radial_vicreg.report.collect import Experiment, collect, group
from radial_vicreg.report.compare import LEVEL, compare

SEEDS = 3
"""Seeds behind each value of the paper."""


@dataclass(frozen=True)
class Gain:
    """A difference to VICReg in percentage points, with Welch's interval.

    Attributes:
        value: mean of the method minus mean of VICReg.
        low: lower end of the 95 % interval.
        high: upper end of the interval.
        p: two-sided p value.
    """

    value: float
    low: float
    high: float
    p: float

    def __str__(self) -> str:
        """Write ``+value [low, high]``, bold where the interval excludes zero."""
        text = f"{self.value:+.2f} [{self.low:.2f}, {self.high:.2f}]".replace("-", "−")
        return f"**{text}**" if self.low > 0 or self.high < 0 else text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path, help="folders with runs of the paper's cells")
    folders = parser.parse_args().runs
    for title, table in tables(folders).items():
        print(f"{title}\n\n{table}\n")


def tables(folders: Sequence[Path] = ()) -> dict[str, str]:
    """Make the tables of the gains.

    Args:
        folders: folders with our runs of the paper's cells; a table has a column for these if there is one.

    Returns:
        Markdown by title.
    """
    experiments, _ = group([run for folder in folders for run in collect(folder)[0]])
    *of_classes, of_attributes = build_tables(experiments)
    return {
        "probes of classes": _gains_of_classes(of_classes, experiments),
        "probes of attributes": _gains_of_attributes(of_attributes, experiments),
        "our studies": _of_studies(),
    }


def welch(first: tuple[float, float], second: tuple[float, float], seeds: int = SEEDS) -> Gain:
    """Compute the difference of two means with Welch's t interval.

    Args:
        first: mean and sample standard deviation over the seeds.
        second: those that are subtracted.
        seeds: number of seeds of each.
    """
    variances = [std**2 / seeds for _, std in (first, second)]
    error = math.sqrt(sum(variances))
    freedom = sum(variances) ** 2 / sum(variance**2 / (seeds - 1) for variance in variances)
    value = first[0] - second[0]
    reach = float(stats.t.ppf((1 + LEVEL) / 2, freedom)) * error
    return Gain(value, value - reach, value + reach, 2 * float(stats.t.sf(abs(value) / error, freedom)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p values for their number by Holm's method.

    Args:
        p_values: two-sided p values.

    Returns:
        Corrected p values in the same order.
    """
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected


def expected_maximum(count: int) -> float:
    """Compute the expected largest of ``count`` samples of N(0, 1)."""
    density = stats.norm.pdf
    return float(integrate.quad(lambda x: count * x * density(x) * stats.norm.cdf(x) ** (count - 1), -10, 10)[0])


def settings_of(sweep: str) -> tuple[int, int]:
    """Count the settings of a sweep of the paper: those with a radial weight, and those of VICReg."""
    values = paper()["sweeps"][sweep]
    weights = len(values["beta1"]) * len(values["beta2"])
    return len(values["lr"]) * (weights - 1), len(values["lr"])


def selection(config: str, deviations: Sequence[float]) -> float | None:
    """Compute the gain that selection alone would give if all settings of a sweep were equally good.

    Args:
        config: name of the cell's configuration.
        deviations: standard deviations over the seeds of the two values that are compared.

    Returns:
        Expected best mean of Radial-VICReg's settings minus that of VICReg's, in percentage points. None if the paper
        does not say that such a sweep chose the cell.
    """
    sweep = config.rpartition("/")[0].replace("/", "_")
    if "beta1" not in paper()["sweeps"][sweep]:  # CelebA's sweep has the same settings for every method
        return None
    radial, vicreg = settings_of(sweep)
    error = math.sqrt(sum(std**2 for std in deviations) / len(deviations) / SEEDS)
    return (expected_maximum(radial) - expected_maximum(vicreg)) * error


def _gains_of_classes(found: Sequence[Table], experiments: Sequence[Experiment]) -> str:
    pairs = [(table, *pair) for table in found for pair in _pairs(table)]
    gains = [_paper_gains(cell, base) for *_, cell, base in pairs]
    rows = []
    for (table, _, _, column, cell, base), (first, top5), p in zip(pairs, gains, _corrected(gains), strict=True):
        # The paper does not say that the MLP probe had a choice of its own.
        chosen = None if cell.probe == "mlp" else selection(cell.config, [x.paper["top1"][1] for x in (cell, base)])
        rows.append(
            [
                *(
                    _caption(table),
                    ARCHITECTURES[cell.config.split("/")[1]],
                    column.removeprefix("d "),
                    first,
                    _p(first.p),
                    _p(p),
                ),
                *("" if chosen is None else f"{chosen:.2f}", top5, *_ours(cell, base, experiments)),
            ]
        )
    header = ["Table", "Backbone", "d", "top-1", "p", "p, Holm", "by selection", "top-5"]
    return markdown_table([*header, *(["ours, top-1"] if experiments else [])], rows)


def _gains_of_attributes(table: Table, experiments: Sequence[Experiment]) -> str:
    pairs = _pairs(table)
    gains = [_paper_gains(cell, base) for *_, cell, base in pairs]
    rows = [
        [label, column, first, _p(first.p), _p(p), *_ours(cell, base, experiments)]
        for (_, label, column, cell, base), (first,), p in zip(pairs, gains, _corrected(gains), strict=True)
    ]
    header = ["Method", "Probe", "accuracy", "p", "p, Holm"]
    return markdown_table([*header, *(["ours"] if experiments else [])], rows)


def _of_studies() -> str:
    rows = []
    for name, study in STUDIES.items():
        finals = runs_of(EVIDENCE / name)
        for comparison in study.comparisons if finals else ():
            found = difference(finals, comparison)
            points = Gain(found.value, found.low or 0.0, found.high or 0.0, 0.0)
            title = f"{comparison.first} minus {comparison.second}"
            rows.append([f"[{name}]({name}.md)", title, points, f"{100 * comparison.level:g} %", found.counts[0]])
    return markdown_table(["Study", "Comparison", "frozen linear probe", "interval", "seeds"], rows)


def _paper_gains(cell: Cell, base: Cell) -> list[Gain]:
    return [welch(cell.paper[metric], base.paper[metric]) for metric in cell.metrics]


def _corrected(gains: Sequence[Sequence[Gain]]) -> list[float]:
    return holm([first.p for first, *_ in gains])


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _pairs(table: Table) -> list[tuple[str, str, str, Cell, Cell]]:
    """List block, method, column, cell and VICReg's cell."""
    vicreg = {block: cells for block, label, cells in table.rows if label == METHOD_LABELS["vicreg"]}
    return [
        (block, label, column, cell, base)
        for block, label, cells in table.rows
        if cells is not vicreg[block]
        for column, cell, base in zip(table.columns, cells, vicreg[block], strict=True)
    ]


def _caption(table: Table) -> str:
    return f"{table.number}: {table.caption.split('s, ')[0]}"


def _ours(cell: Cell, base: Cell, experiments: Sequence[Experiment]) -> list[str]:
    if not experiments:
        return []
    mine, vicreg = (found.seeds.get(cell.metrics[0], {}) for found in (cell, base))
    return [str(compare(mine, vicreg)) if mine and vicreg else ""]


if __name__ == "__main__":
    main()
