"""The tables of docs/study.md and docs/study2.md, from the results of every run in ``docs/evidence``.

    python -m benchmarks.studies             # both pages' tables
    python -m benchmarks.studies study2

Nothing is trained. Accuracies are those of the logistic regression on frozen encoder features, in percent; statistics
of embeddings are of the projector's output in evaluation mode. Differences are paired by seed, with intervals of the t
distribution.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.runner import markdown_table
from radial_vicreg.report.collect import Figure, Run, collect, cost_figure, frozen_figure, probe_figure, radius_figure
from radial_vicreg.report.compare import LEVEL, Difference, compare
from radial_vicreg.report.statistics import Correlation, pearson, summarise

EVIDENCE = Path(__file__).parents[1] / "docs" / "evidence"
ACCURACY = frozen_figure("trained", "top1")
STATISTICS = {
    "radius": ("radius_mean", 1),
    "W1 to chi": ("w1_chi", 2),
    "effective rank": ("effective_rank", 0),
    "mean's share": ("mean_share", 3),
    "sliced W2": ("sliced_w2", 2),
    "Epps-Pulley": ("epps_pulley", 0),
}
"""Statistics of the embeddings by column, each with the number of decimals shown."""
FIGURES: dict[str, tuple[Figure, int]] = {
    "frozen linear (%)": (ACCURACY, 2),
    "online linear (%)": (probe_figure("online_linear", "top1"), 2),
    **{column: (radius_figure("final", name), decimals) for column, (name, decimals) in STATISTICS.items()},
    "memory (MB)": (cost_figure("peak_memory_mb"), 0),
}
"""Columns of the final runs, each with the number of decimals shown."""
SHARE = FIGURES["mean's share"][0]


@dataclass(frozen=True)
class Comparison:
    """A difference between two methods that a protocol specifies.

    Attributes:
        first: name of a method.
        second: name of the method that is subtracted.
        level: confidence level of the interval.
    """

    first: str
    second: str
    level: float = LEVEL


@dataclass(frozen=True)
class Study:
    """The evaluation that a protocol specifies for its runs.

    Attributes:
        base: method that all others are compared with, in addition to ``comparisons``.
        comparisons: comparisons of the protocol, the primary one first.
        spread: columns whose standard deviation over the seeds is shown.
        columns: columns of the final runs.
        length: comparison of the longer trainings; None without any.
    """

    base: str
    comparisons: tuple[Comparison, ...]
    columns: tuple[str, ...]
    spread: tuple[str, ...] = ("frozen linear (%)", "online linear (%)", "W1 to chi")
    length: Comparison | None = None


VICREG, KL, CENTRED, MEAN = "VICReg", "Radial-VICReg", "Radial-VICReg centred", "Radial-VICReg + mean"
_CORRECTED = 1 - (1 - LEVEL) / 2  # two secondary comparisons
STUDIES = {
    "study": Study(
        base=VICREG,
        comparisons=(Comparison(KL, VICREG), Comparison(CENTRED, KL)),
        columns=(
            *("frozen linear (%)", "online linear (%)", "W1 to chi", "effective rank", "mean's share"),
            "memory (MB)",
        ),
    ),
    "study2": Study(
        base=KL,
        comparisons=(
            Comparison(MEAN, KL),
            Comparison(MEAN, VICREG, _CORRECTED),
            Comparison(CENTRED, VICREG, _CORRECTED),
        ),
        columns=(
            *("frozen linear (%)", "online linear (%)", "radius", "W1 to chi", "effective rank", "mean's share"),
            *("sliced W2", "Epps-Pulley"),
        ),
        length=Comparison(MEAN, KL),
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", nargs="?", choices=list(STUDIES))
    chosen = parser.parse_args().study
    for name in [chosen] if chosen else STUDIES:
        for title, table in tables(name).items():
            print(f"{name}: {title}\n\n{table}\n")


def tables(name: str, evidence: Path = EVIDENCE) -> dict[str, str]:
    """Make the tables of a study for which there are runs.

    Args:
        name: name of the study.
        evidence: folder of all studies: ``<name>_tune``, ``<name>``, ``<name>_length`` and ``<name>_bf16``.

    Returns:
        Markdown by title.
    """
    study = STUDIES[name]
    folders = (evidence / f"{name}{suffix}" for suffix in ("_tune", "", "_length", "_bf16"))
    trials, finals, longer, halves = map(runs_of, folders)
    made = {}
    if trials:
        made["rates"] = rate_table(trials)
    if finals:
        made["final runs"] = final_table(finals, study)
        made["comparisons"] = comparison_table(finals, study)
        made["by seed"] = seed_table(finals)
        made["correlations"] = correlation_table(finals)
    if longer and study.length is not None:
        made["length"] = length_table([*finals, *longer], study.length)
        made["change with length"] = change_table([*finals, *longer], study.length)
    if halves:
        made["precision"] = precision_table(finals, halves)
    return made


def runs_of(folder: Path) -> list[Run]:
    """Read the runs of a folder; empty if it does not exist."""
    return collect(folder)[0] if folder.is_dir() else []


def rate_table(trials: Sequence[Run]) -> str:
    """Make a table with one row per rate: mean over the seeds, with single values in brackets; the best in bold."""
    methods = methods_of(trials)
    rates = sorted({rate_of(run) for run in trials})
    best = {method: best_rate(trials, method) for method in methods}
    rows = []
    for rate in rates:
        cells = [_trial(seeds_of(trials, method, rate=rate), rate == best[method]) for method in methods]
        rows.append([f"{rate:g}", *cells])
    return markdown_table(["`optimizer.lr`", *methods], rows)


def best_rate(trials: Sequence[Run], method: str) -> float:
    """Choose the rate with the highest mean accuracy, the smallest in a tie; exclude rates with a diverged seed."""
    found = {rate: seeds_of(trials, method, rate=rate) for rate in sorted({rate_of(run) for run in trials})}
    most = max(map(len, found.values()))
    rates = [rate for rate, seeds in found.items() if len(seeds) == most]
    return max(rates, key=lambda rate: _mean(found[rate].values()))


def final_table(finals: Sequence[Run], study: Study) -> str:
    """Make a table with one row per method: means over the seeds, and the difference to the study's base."""
    first, *others = study.columns
    header = ["Method", first, f"minus {study.base}", *others]
    untrained = {column: [] for column in study.columns}
    untrained[first] = _values(finals, frozen_figure("untrained", "top1"))
    rows: list[list[str]] = [_row("untrained", untrained, "", study)]
    for method in methods_of(finals):
        mine = [run for run in finals if run.setting.kind == method]
        values = {column: _values(mine, FIGURES[column][0]) for column in study.columns}
        against = "" if method == study.base else _interval(difference(finals, Comparison(method, study.base)))
        rows.append(_row(method, values, against, study))
    rows.append(
        _row("normal samples", {column: _of_normal_samples(finals, column) for column in study.columns}, "", study)
    )
    return markdown_table(header, rows)


def comparison_table(finals: Sequence[Run], study: Study) -> str:
    """Make a table with one row per comparison of the protocol."""
    rows = []
    for comparison in study.comparisons:
        found = difference(finals, comparison)
        level = f"{100 * comparison.level:g} %"
        rows.append([f"{comparison.first} minus {comparison.second}", _interval(found), level, found.counts[0]])
    return markdown_table(["Comparison (frozen linear)", "points", "interval", "seeds"], rows)


def seed_table(finals: Sequence[Run]) -> str:
    """Make a table of the frozen linear accuracy of every run."""
    seeds = sorted({run.seed for run in finals if run.seed is not None})
    rows = []
    for method in methods_of(finals):
        found = seeds_of(finals, method)
        rows.append([method, *(f"{found[seed]:.2f}" if seed in found else "" for seed in seeds)])
    return markdown_table(["Method", *seeds], rows)


def correlation_table(finals: Sequence[Run]) -> str:
    """Make a table of Pearson's r between accuracy and statistics of the embeddings, over runs and over methods."""
    rows = []
    for name in ("W1 to chi", "mean's share", "effective rank"):
        figure = FIGURES[name][0]
        runs = pearson(_values(finals, figure), _values(finals, ACCURACY))
        of_method = [[run for run in finals if run.setting.kind == method] for method in methods_of(finals)]
        means = [[_mean(_values(runs, measured)) for runs in of_method] for measured in (figure, ACCURACY)]
        rows.append([name, _correlation(runs), _correlation(pearson(*means))])
    header = ["Accuracy with", f"over {len(finals)} runs", f"over the means of {len(methods_of(finals))} methods"]
    return markdown_table(header, rows)


def length_table(runs: Sequence[Run], comparison: Comparison) -> str:
    """Make a table with one row per length: accuracy of each method on the seeds of all lengths, and the difference."""
    shared = _shared_seeds(runs)
    kept = [run for run in runs if run.seed in shared]
    lengths = sorted({epochs_of(run) for run in kept})
    longest = [run for run in kept if epochs_of(run) == lengths[-1]]
    rows = []
    for epochs in lengths:
        mine = [run for run in kept if epochs_of(run) == epochs]
        cells = [_mean_std(list(seeds_of(mine, method).values()), 2) for method in methods_of(longest)]
        shares = [
            f"{_mean(_values([run for run in mine if run.setting.kind == method], SHARE)):.3f}"
            for method in methods_of(longest)
        ]
        rows.append([epochs, *cells, _interval(difference(mine, comparison)), ", ".join(shares)])
    title = f"{comparison.first} minus {comparison.second}"
    return markdown_table(["Epochs", *methods_of(longest), title, "mean's share of each"], rows)


def change_table(runs: Sequence[Run], comparison: Comparison) -> str:
    """Make a table of the change of the difference from the shortest training, paired by seed."""
    shared = _shared_seeds(runs)
    kept = [run for run in runs if run.seed in shared]
    shortest, *others = sorted({epochs_of(run) for run in kept})
    rows = []
    for epochs in others:
        late, early = (_gap(kept, comparison, length) for length in (epochs, shortest))
        rows.append([f"{shortest} to {epochs} epochs", _interval(compare(late, early)), len(late)])
    return markdown_table([f"Change of {comparison.first} minus {comparison.second}", "points", "seeds"], rows)


def precision_table(finals: Sequence[Run], halves: Sequence[Run]) -> str:
    """Make a table with one row per method: accuracy in both precisions, and the difference paired by seed."""
    rows = []
    for method in methods_of(halves):
        both = [seeds_of(runs, method) for runs in (finals, halves)]
        accuracies = [_mean_std(list(found.values()), 2) for found in both]
        found = compare(both[1], both[0])
        rows.append([method, *accuracies, _interval(found), found.counts[0]])
    return markdown_table(["Method", "float32", "bfloat16", "bfloat16 minus float32", "seeds"], rows)


def difference(runs: Sequence[Run], comparison: Comparison) -> Difference:
    """Compare two methods' accuracies."""
    first, second = (seeds_of(runs, method) for method in (comparison.first, comparison.second))
    return compare(first, second, level=comparison.level)


def methods_of(runs: Iterable[Run]) -> list[str]:
    """List the methods in the report's order."""
    return list(dict.fromkeys(run.setting.kind for run in sorted(runs, key=lambda run: run.setting.order)))


def seeds_of(runs: Iterable[Run], method: str, rate: float | None = None) -> dict[int | None, float]:
    """Look up a method's accuracy by seed."""
    kept = (run for run in runs if run.setting.kind == method and (rate is None or rate_of(run) == rate))
    return {run.seed: value for run in kept if (value := run.figure(ACCURACY)) is not None}


def rate_of(run: Run) -> float:
    """Return ``optimizer.lr``."""
    return float(run.setting.details["lr"])


def epochs_of(run: Run) -> int:
    """Return ``max_epochs``."""
    return int(run.setting.details["max_epochs"])


def _shared_seeds(runs: Sequence[Run]) -> set[int | None]:
    by_length = [{run.seed for run in runs if epochs_of(run) == epochs} for epochs in {epochs_of(run) for run in runs}]
    return set.intersection(*by_length)


def _gap(runs: Sequence[Run], comparison: Comparison, epochs: int) -> dict[int | None, float]:
    mine = [run for run in runs if epochs_of(run) == epochs]
    first, second = (seeds_of(mine, method) for method in (comparison.first, comparison.second))
    return {seed: first[seed] - second[seed] for seed in first.keys() & second.keys()}


def _values(runs: Iterable[Run], figure: Figure) -> list[float]:
    return [value for run in runs if (value := run.figure(figure)) is not None]


def _of_normal_samples(runs: Iterable[Run], column: str) -> list[float]:
    """List a statistic of samples of N(0, I), with as many points as embeddings, for each run."""
    found = (getattr(run.results.radii.normal, STATISTICS.get(column, ("",))[0], None) for run in runs)
    return [value for value in found if value is not None]


def _mean(values: Iterable[float]) -> float:
    found = summarise(list(values))
    assert found is not None
    return found.mean


def _trial(values: Mapping[int | None, float], is_best: bool) -> str:
    if not values:
        return ""
    text = f"{_mean(values.values()):.2f}"
    text = f"**{text}**" if is_best else text
    return text if len(values) == 1 else f"{text} ({', '.join(f'{values[seed]:.2f}' for seed in _sorted(values))})"


def _sorted(seeds: Iterable[int | None]) -> Iterator[int | None]:
    return iter(sorted(seeds, key=lambda seed: -1 if seed is None else seed))


def _row(method: str, values: Mapping[str, list[float]], against: str, study: Study) -> list[str]:
    cells = []
    for column in study.columns:
        decimals = FIGURES[column][1]
        found = values[column]
        if not found:
            cells.append("")
        elif column in study.spread:
            cells.append(_mean_std(found, decimals))
        else:
            cells.append(f"{_mean(found):,.{decimals}f}")
    return [method, cells[0], against, *cells[1:]]


def _mean_std(values: list[float], decimals: int) -> str:
    found = summarise(values)
    assert found is not None
    spread = "" if found.std is None else f" ± {found.std:.{decimals}f}"
    return f"{found.mean:.{decimals}f}{spread}"


def _interval(found: Difference) -> str:
    value = _signed(found.value)
    if found.low is None or found.high is None:
        return value
    text = f"{value} [{_number(found.low)}, {_number(found.high)}]"
    return f"**{text}**" if found.low > 0 or found.high < 0 else text


def _correlation(found: Correlation | None) -> str:
    return "" if found is None else f"{_signed(found.value)} [{_number(found.low)}, {_number(found.high)}]"


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


def _number(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


if __name__ == "__main__":
    main()
