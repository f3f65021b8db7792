"""The figures in the columns of the list of experiments and of the differences between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from radial_vicreg.names.probes import HEADLINES, offline_key, online_key
from radial_vicreg.probes.registry import probe_classes
from radial_vicreg.report.collect import Experiment, Figure, cost_figure, frozen_figure, probe_figure, radius_figure


@dataclass(frozen=True)
class Column:
    """A figure of every run.

    Attributes:
        figure: reader of the figure.
        largest: True if the largest value is best, False if the smallest is; None if neither is.
        compared: whether differences to another experiment are shown.
        decimals: number of decimals shown.
    """

    figure: Figure
    largest: bool | None = None
    compared: bool = False
    decimals: int = 2


def _accuracy(figure: Figure) -> Column:
    return Column(figure, largest=True, compared=True)


_OTHERS = {
    "W1 before": Column(radius_figure("initial", "w1_chi")),
    "W1 after": Column(radius_figure("final", "w1_chi"), largest=False, compared=True),
    "norm of mean z": Column(radius_figure("final", "embedding_mean_norm")),
    "effective rank": Column(radius_figure("final", "effective_rank"), compared=True),
    "mean's share": Column(radius_figure("final", "mean_share"), compared=True, decimals=3),
    "s/step": Column(cost_figure("step_seconds"), decimals=3),
    "memory (MB)": Column(cost_figure("peak_memory_mb"), decimals=0),
}


def columns() -> dict[str, Column]:
    """Return the columns by heading, in display order: probes, then radii and cost."""
    return {**_probe_columns(), **_OTHERS}


def filled_columns(experiments: Sequence[Experiment]) -> dict[str, Column]:
    """Return the columns in which at least one run has a value."""
    return {name: column for name, column in columns().items() if any(e.values(column.figure) for e in experiments)}


def _probe_columns() -> dict[str, Column]:
    found, offline = {}, {}
    for probe in probe_classes():
        for heading, moment in () if probe.frozen is None else probe.frozen.columns.items():
            figure = frozen_figure(moment, HEADLINES[0], probe.name)
            found[heading] = _accuracy(figure) if moment == "trained" else Column(figure)
        for use in probe.online:
            for heading, shown in use.columns.items():
                found[heading] = _accuracy(probe_figure(online_key(use.name + shown.variant), shown.metric))
        offline[f"offline {probe.label} (%)"] = _accuracy(probe_figure(offline_key(probe.name), HEADLINES[0]))
    return {**found, **offline}
