"""Statistics and curves of normal samples, which depend on N, d and the seed alone, kept in the user's cache."""

from __future__ import annotations

import hashlib
import math
import platform
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch

from radial_vicreg import diagnostics, losses
from radial_vicreg.diagnostics.gaussianity import normal_sample
from radial_vicreg.diagnostics.slices import SLICES
from radial_vicreg.gaussianity import matrix
from radial_vicreg.gaussianity.content import NormalCurves, Variants
from radial_vicreg.gaussianity.matrix import statistics_and_curves
from radial_vicreg.io.cache import cached
from radial_vicreg.io.terminal import track

FULL = 39
"""Samples whose range is a band of 95 %: of 40 normal samples, each is the least or the largest with equal chances."""

FEWEST = 3
"""Samples of a size at which each takes long."""

_FULL_UP_TO = 10**6  # numbers N d of a sample
_SECONDS = 15.0  # on one core, for all samples of a larger size
_SLICES_COST = 1.2e-4  # seconds for a row: its slices are sorted, and 17 knots of each are summed
_MATRICES_COST = 1e-9  # seconds for each product of three sides: singular values, correlations
_ROWS_OF_MATRICES = 2048  # of which these are computed

_NO_REFERENCE = ("worst_dimension",)  # an index


class Reference(NamedTuple):
    """What is shown next to embeddings of the same size.

    Attributes:
        values: each statistic of each normal sample. A statistic that such samples do not have (too few embeddings) is
            absent.
        curves: median and range of the curves; the histogram of the radii is that of the first sample.
    """

    values: dict[str, list[float]]
    curves: dict[str, NormalCurves]

    @property
    def draws(self) -> int:
        """Number of the normal samples."""
        return len(self.values["count"])

    def medians(self) -> dict[str, float]:
        """Return the median of each statistic."""
        return {name: float(np.median(values)) for name, values in self.values.items()}

    def bands(self) -> dict[str, tuple[float, float]]:
        """Return the range of each statistic; with :data:`FULL` samples it is a band of 95 %."""
        return {name: (min(values), max(values)) for name, values in self.values.items()}

    def percentiles(self, statistics: dict[str, float]) -> dict[str, float]:
        """Rank statistics of embeddings among those of the samples.

        Args:
            statistics: statistics of embeddings.

        Returns:
            Percentage of the samples with a smaller value; those with the same value count half. Empty with fewer than
            :data:`FULL` samples.
        """
        if self.draws < FULL:
            return {}
        return {
            name: percentile(statistics[name], values)
            for name, values in self.values.items()
            if math.isfinite(statistics[name])
        }


def percentile(value: float, values: Sequence[float]) -> float:
    """Compute the percentage of values that are smaller; equal ones count half."""
    return 100 * sum((other < value) + 0.5 * (other == value) for other in values) / len(values)


def draws_for(count: int, dim: int) -> int:
    """Choose the number of normal samples by the estimated time, so that it is the same on every machine.

    Args:
        count: N.
        dim: d.

    Returns:
        :data:`FULL` if N d is at most a million. Otherwise as many as are estimated to take 15 seconds of one core,
        from :data:`FEWEST` to :data:`FULL`.
    """
    if count * dim <= _FULL_UP_TO:
        return FULL
    rows = min(count, _ROWS_OF_MATRICES)
    seconds = _SLICES_COST * count + _MATRICES_COST * rows * dim * min(rows, dim)
    return min(FULL, max(FEWEST, int(_SECONDS / seconds)))


@cache
def normal_reference(count: int, dim: int, seed: int) -> Reference:
    """Measure standard normal samples of one size, or read what was measured before.

    Args:
        count: N.
        dim: d.
        seed: seed of the samples and of the slices.

    Returns:
        The same numbers in either case: floats are written with all their digits.
    """
    draws = draws_for(count, dim)

    def compute() -> dict[str, object]:
        label = f"{draws} normal samples of {count} x {dim}"
        found = [
            statistics_and_curves(normal_sample(count, dim, seed, draw), seed)
            for draw in track(range(draws), label, draws)
        ]
        return {
            "values": values_of([statistics for statistics, _ in found]),
            "curves": normal_curves([curves for _, curves in found]),
        }

    key = {
        **{"count": count, "dim": dim, "seed": seed, "draws": draws, "slices": SLICES},
        # Computed in float32 on the CPU, by these functions; random numbers and sums are PyTorch's.
        **{"code": _code(), "torch": torch.__version__, "machine": platform.machine()},
    }
    found = cached(f"normal-references/{count}x{dim}-seed{seed}", key, compute)
    return Reference(cast("dict[str, list[float]]", found["values"]), cast("dict[str, NormalCurves]", found["curves"]))


def normal_curves(samples: Sequence[Variants]) -> dict[str, NormalCurves]:
    """Summarise the curves of normal samples of one size.

    Args:
        samples: curves of each sample.

    Returns:
        For each variant the histogram of the first sample's radii, and median and range of the other curves.
    """
    return {variant: _summary([curves[variant] for curves in samples]) for variant in samples[0]}


def _summary(curves: Sequence[Any]) -> NormalCurves:
    spectra, slices = (np.array([each[name] for each in curves]) for name in ("spectrum", "slices"))
    return {
        "radii": curves[0]["radii"],
        "spectrum": np.median(spectra, axis=0).tolist(),
        "slices": np.median(slices, axis=0).tolist(),
        "spectrum_band": [spectra.min(axis=0).tolist(), spectra.max(axis=0).tolist()],
        "slices_band": [slices.min(axis=0).tolist(), slices.max(axis=0).tolist()],
    }


def values_of(samples: Sequence[dict[str, float]]) -> dict[str, list[float]]:
    """Gather each statistic that all samples have.

    Args:
        samples: statistics of each normal sample.

    Returns:
        Its value in each sample.
    """
    gathered = {name: [statistics[name] for statistics in samples] for name in samples[0] if name not in _NO_REFERENCE}
    return {name: values for name, values in gathered.items() if all(map(math.isfinite, values))}


@cache
def _code() -> str:
    """Compute the digest of the code of the statistics, so that a changed statistic is never read from the cache."""
    digest = hashlib.sha256(Path(__file__).read_bytes() + Path(matrix.__file__).read_bytes())
    for package in (diagnostics, losses):
        for file in sorted(Path(str(package.__file__)).parent.glob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()
