"""The figures that the list of experiments and the differences between them show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from radial_vicreg.report.collect import Experiment, Figure, cost_figure, frozen_figure, probe_figure, radius_figure


@dataclass(frozen=True)
class Column:
    """A figure of every run.

    Attributes:
        figure: reads it.
        largest: whether the largest is the best; None: neither is.
        compared: differences to another experiment are of interest.
        decimals: that are shown.
    """

    figure: Figure
    largest: bool | None = None
    compared: bool = False
    decimals: int = 2


def _accuracy(figure: Figure) -> Column:
    return Column(figure, largest=True, compared=True)


COLUMNS = {
    "frozen linear (%)": _accuracy(frozen_figure("trained", "top1")),
    "frozen, untrained (%)": Column(frozen_figure("untrained", "top1")),
    "linear (%)": _accuracy(probe_figure("online_linear", "top1")),
    "balanced acc. (%)": _accuracy(probe_figure("online_linear", "balanced_accuracy")),
    "projector (%)": _accuracy(probe_figure("online_projector_linear", "top1")),
    "MLP (%)": _accuracy(probe_figure("online_mlp", "top1")),
    "kNN 20 (%)": _accuracy(probe_figure("online_knn20", "top1")),
    "offline linear (%)": _accuracy(probe_figure("offline_linear_encoder", "top1")),
    "W1 before": Column(radius_figure("initial", "w1_chi")),
    "W1 after": Column(radius_figure("final", "w1_chi"), largest=False, compared=True),
    "norm of mean z": Column(radius_figure("final", "embedding_mean_norm")),
    "effective rank": Column(radius_figure("final", "effective_rank"), compared=True),
    "mean's share": Column(radius_figure("final", "mean_share"), compared=True, decimals=3),
    "s/step": Column(cost_figure("step_seconds"), decimals=3),
    "memory (MB)": Column(cost_figure("peak_memory_mb"), decimals=0),
}
"""Columns by their headings, in their order."""


def filled_columns(experiments: Sequence[Experiment]) -> dict[str, Column]:
    """Keep the columns in which any run has a value."""
    return {name: column for name, column in COLUMNS.items() if any(e.values(column.figure) for e in experiments)}
