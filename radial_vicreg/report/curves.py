"""Training curves of comparable experiments."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from radial_vicreg.figures import new_figure
from radial_vicreg.probes.metrics import BALANCED_ACCURACY
from radial_vicreg.report.collect import Experiment
from radial_vicreg.report.naming import distinguish

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
_PANELS = (
    (("train_vicreg_loss", "VICReg's terms of the loss"),),
    (("val_acc1", "online linear probe (%)"), (BALANCED_ACCURACY, "online linear probe (balanced, %)")),
    (("train_w1_chi", r"$W_1$ to $\chi$ (batch)"),),
)
"""Keys of ``history`` with their names; of several in a panel the first that any run has."""
_PANEL_WIDTH, _HEIGHT = 4.2, 3.2
_LETTER, _HANDLE, _LINE = 0.085, 0.7, 0.22  # inches in a legend: a letter on average, a handle and its space, a line


def draw_curves(experiments: Sequence[Experiment]) -> tuple[Any, str]:
    """Draw one line an experiment and panel; the legend names what differs between them.

    Args:
        experiments: with a ``history``; one at least, and as many as there are colours are drawn.

    Returns:
        A matplotlib figure and what is to say of all lines, for the caption.
    """
    chosen = experiments[: len(COLOURS)]
    names, common = distinguish(chosen)
    # As many columns as have room for the longest name: a legend wider than the figure is cut off.
    room = _PANEL_WIDTH * len(_PANELS) / (_HANDLE + _LETTER * max(map(len, names)))
    columns = max(1, min(len(names), int(room)))
    height = _HEIGHT + _LINE * math.ceil(len(names) / columns)
    figure, axes = new_figure(columns=len(_PANELS), width=_PANEL_WIDTH, height=height)
    for axis, choices in zip(axes[0], _PANELS, strict=True):
        key, label = next((entry for entry in choices if any(_has(found, entry[0]) for found in chosen)), choices[0])
        for colour, experiment, name in zip(COLOURS, chosen, names, strict=False):
            _curve(axis, experiment, key, colour, name)
        axis.set(xlabel="epoch", ylabel=label)
        axis.xaxis.get_major_locator().set_params(integer=True)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
    return figure, common


def has_curves(experiment: Experiment) -> bool:
    """Tell whether its first run has two epochs or more."""
    return len(experiment.runs[0].results.history) > 1


def _has(experiment: Experiment, key: str) -> bool:
    return any(entry.figure(key) is not None for run in experiment.runs for entry in run.results.history)


def _curve(axis: Any, experiment: Experiment, key: str, colour: str, name: str) -> None:
    series: dict[int, list[float]] = defaultdict(list)
    for run in experiment.runs:
        for entry in run.results.history:
            value = entry.figure(key)
            if value is not None:
                series[entry.epoch].append(value)
    epochs = sorted(series)

    def over(reduce: Callable[[list[float]], Any]) -> list[float]:
        return [float(reduce(series[epoch])) for epoch in epochs]

    axis.plot(epochs, over(np.mean), color=colour, linewidth=1.6, label=name)
    axis.fill_between(epochs, over(min), over(max), color=colour, alpha=0.2, linewidth=0)
