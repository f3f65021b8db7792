"""Comparison of experiments over their seeds, with confidence intervals."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from radial_vicreg.report.collect import Experiment, Figure
from radial_vicreg.report.formats import number_text

LEVEL = 0.95
BOLD_RULE = (
    f"Bold: the {100 * LEVEL:g} % interval of the difference to the second best excludes zero (t test, "
    "paired by seed if both have at least two seeds in common, otherwise Welch's). A single seed is never bold."
)


@dataclass(frozen=True)
class Difference:
    """Difference of two means with its confidence interval.

    Attributes:
        value: mean of the first minus mean of the second.
        error: standard error; None if a side has only one seed.
        low: lower end of the interval; None if ``error`` is.
        high: upper end of the interval; None if ``error`` is.
        counts: number of seeds of each side; for a paired difference, the number of shared seeds.
        paired: whether the values were paired by seed.
        level: confidence level of the interval.
    """

    value: float
    error: float | None
    low: float | None
    high: float | None
    counts: tuple[int, int]
    paired: bool
    level: float = LEVEL

    def __str__(self) -> str:
        """Write ``value ± s.e. (kind, n; interval)``."""
        if self.error is None or self.low is None or self.high is None:
            return f"{number_text(self.value)} (n {self.counts[0]} and {self.counts[1]}: no standard error)"
        kind = f"paired, n {self.counts[0]}" if self.paired else f"Welch, n {self.counts[0]} and {self.counts[1]}"
        interval = f"{100 * self.level:g} % interval {number_text(self.low)} to {number_text(self.high)}"
        return f"{number_text(self.value)} ± {self.error:.2f} ({kind}; {interval})"


@dataclass(frozen=True)
class Lead:
    """The best of several experiments and the runner-up.

    Attributes:
        best: position of the best.
        second: position of the runner-up.
        difference: difference between the two.
        bold: whether the interval of the difference excludes zero in favour of the best.
    """

    best: int
    second: int
    difference: Difference
    bold: bool


def by_seed(experiment: Experiment, figure: Figure) -> dict[Hashable, float]:
    """Return the values of a figure by seed, over the runs that measured it with equal settings."""
    found = {run.seed: run.figure(figure) for run in experiment.comparable(figure)}
    return {seed: value for seed, value in found.items() if value is not None}


def compare(first: Mapping[Hashable, float], second: Mapping[Hashable, float], level: float = LEVEL) -> Difference:
    """Compare two experiments.

    Args:
        first: value by seed, at least one.
        second: value by seed of the other experiment.
        level: level of the confidence interval.

    Returns:
        The difference of their means. With two or more shared seeds, it is paired over these (common effects of a seed
        cancel); otherwise it is taken over all seeds.
    """
    shared = sorted(first.keys() & second.keys(), key=str)
    paired = len(shared) > 1
    seeds = (shared, shared) if paired else (list(first), list(second))
    sides = [np.array([values[seed] for seed in kept]) for values, kept in zip((first, second), seeds, strict=True)]
    value, counts = float(sides[0].mean() - sides[1].mean()), (len(sides[0]), len(sides[1]))
    if min(counts) < 2:
        return Difference(value, None, None, None, counts, paired=False, level=level)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # equal differences for all seeds: the interval is a point
        found = stats.ttest_rel(*sides) if paired else stats.ttest_ind(*sides, equal_var=False)
        interval = found.confidence_interval(level)
    spread = [sides[0] - sides[1]] if paired else sides
    error = float(np.sqrt(sum(np.var(x, ddof=1) / len(x) for x in spread)))
    low, high = (end if np.isfinite(end) else value for end in (float(interval.low), float(interval.high)))
    return Difference(value, error, low, high, counts, paired, level)


def lead(rivals: Sequence[Mapping[Hashable, float]], largest: bool = True) -> Lead | None:
    """Find the best and the runner-up by their means.

    Args:
        rivals: value by seed of each experiment; empty if it has none.
        largest: whether the largest mean is best.

    Returns:
        Both with their difference, or None if fewer than two have a value.
    """
    sign = -1 if largest else 1
    means = {index: sign * float(np.mean(list(values.values()))) for index, values in enumerate(rivals) if values}
    if len(means) < 2:
        return None
    best, second = sorted(means, key=means.__getitem__)[:2]
    difference = compare(rivals[best], rivals[second])
    low, high = difference.low, difference.high
    bold = low is not None and high is not None and (low > 0 if largest else high < 0)
    return Lead(best, second, difference, bold)
