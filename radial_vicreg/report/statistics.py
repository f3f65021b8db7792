"""Means over seeds, and correlations with confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

_LEVEL = 0.95
_FEWEST = 4  # Fisher's interval divides by sqrt(n - 3)


@dataclass(frozen=True)
class Summary:
    """Mean and spread of one figure over seeds.

    Attributes:
        mean: arithmetic mean.
        std: sample standard deviation (n - 1); None for one seed.
        count: number of seeds.
    """

    mean: float
    std: float | None
    count: int


@dataclass(frozen=True)
class Correlation:
    """A correlation coefficient with its 95 % confidence interval."""

    value: float
    low: float
    high: float
    count: int


def summarise(values: Sequence[float]) -> Summary | None:
    """Compute mean and sample standard deviation; None without a value."""
    if not values:
        return None
    return Summary(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None, len(values))


def pearson(x: Sequence[float], y: Sequence[float]) -> Correlation | None:
    """Compute Pearson's r with Fisher's interval; None for fewer than four points or a constant coordinate."""
    return _correlation(x, y, rank=False)


def spearman(x: Sequence[float], y: Sequence[float]) -> Correlation | None:
    """Compute Spearman's rho with the interval of Bonett and Wright (2000); None as in :func:`pearson`."""
    return _correlation(x, y, rank=True)


def _correlation(x: Sequence[float], y: Sequence[float], rank: bool) -> Correlation | None:
    count = len(x)
    if count < _FEWEST or len(set(x)) < 2 or len(set(y)) < 2:
        return None
    value = float((stats.spearmanr if rank else stats.pearsonr)(x, y).statistic)
    variance = (1 + value**2 / 2 if rank else 1.0) / (count - 3)
    centre = math.atanh(min(max(value, -1 + 1e-12), 1 - 1e-12))
    reach = float(stats.norm.ppf((1 + _LEVEL) / 2)) * math.sqrt(variance)
    return Correlation(value, math.tanh(centre - reach), math.tanh(centre + reach), count)
