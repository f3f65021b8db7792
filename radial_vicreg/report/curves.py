"""Training curves of comparable experiments."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from radial_vicreg.figures import Dashes, LineLook, add_legend, literal, name_panels, new_figure
from radial_vicreg.names.counts import counted
from radial_vicreg.names.probes import HEADLINES, logged_name
from radial_vicreg.names.terms import METHOD_LABELS
from radial_vicreg.probes.registry import probe_in_words
from radial_vicreg.report.captioned import CaptionedFigure, Styles
from radial_vicreg.report.collect import Experiment
from radial_vicreg.report.formats import number_text
from radial_vicreg.report.naming import distinguish

_MOST_CURVES = 8
Rank = Callable[[Experiment], tuple[float, ...]]
"""Sort key of experiments: the lowest comes first."""
_PROBE = probe_in_words()
_PANELS = (
    (("train_vicreg_loss", f"loss, {METHOD_LABELS['vicreg']}'s terms"),),
    tuple(zip(map(logged_name, HEADLINES), (f"{_PROBE} (%)", f"{_PROBE} (balanced, %)"), strict=True)),
    (("train_w1_chi", r"$W_1$ to $\chi$ (batch)"),),
)
"""Keys of ``history`` with their labels; of several keys for a panel, the first that any run has is plotted."""
_LINES: tuple[Dashes, ...] = ("-", "--", ":", "-.")
_MARKERS_A_LINE = 5


def _most_seeds(experiment: Experiment) -> tuple[float, ...]:
    """Return a sort key that puts experiments with the most seeds first."""
    return (-len(experiment.runs),)


def training_curves(experiments: Sequence[Experiment], styles: Styles, rank: Rank = _most_seeds) -> CaptionedFigure:
    """Plot the largest set of comparable experiments whose runs have two epochs or more.

    Args:
        experiments: all experiments.
        styles: styles of their methods.
        rank: sort key; the first :data:`_MOST_CURVES` are plotted.
    """
    families: dict[str, list[Experiment]] = defaultdict(list)
    for experiment in experiments:
        if len(experiment.runs[0].results.history) > 1:
            families[experiment.setting.family].append(experiment)
    largest: list[Experiment] = max(families.values(), key=len, default=[])
    if not largest:
        return CaptionedFigure("curves", None, "Training curves: no finished run of two epochs or more.")
    chosen = sorted(largest, key=rank)
    figure, common = draw_curves(chosen[:_MOST_CURVES], styles)
    left_out = len(chosen) - _MOST_CURVES
    setting = chosen[0].setting
    place = ", ".join(filter(None, (setting.images, setting.backbone, f"d {setting.dim}", common)))
    return CaptionedFigure(
        "curves",
        figure,
        f"Training curves: {place}; mean over n seeds; the band is the range over the seeds."
        + (f" Omitted: {counted(left_out, 'more experiment')}." if left_out > 0 else ""),
        f"Training curves. Last epoch, mean over seeds: {_ends(chosen[:_MOST_CURVES])}.",
    )


def draw_curves(experiments: Sequence[Experiment], styles: Styles) -> tuple[Any, str]:
    """Plot one line per experiment and panel; the legend names the settings in which they differ.

    Colour and marker depend on the method; experiments of one method differ in their dashes and in whether the markers
    are filled.

    Args:
        experiments: experiments with a ``history``; at least one, at most :data:`_MOST_CURVES`.
        styles: styles of their methods.

    Returns:
        A matplotlib figure, and a text on all lines for the caption, see :func:`~.naming.distinguish`.
    """
    names, common = distinguish(experiments)
    figure, axes = new_figure(columns=len(_PANELS), wide=True, aspect=0.36)
    panels = _panels(experiments)
    name_panels(axes[0], [label for _, label in panels])
    for axis, (key, _) in zip(axes[0], panels, strict=True):
        seen: Counter[str] = Counter()
        for index, (experiment, name) in enumerate(zip(experiments, names, strict=True)):
            method = experiment.setting.key
            look = _look(styles, method, seen[method])
            _curve(axis, experiment, key, look, literal(f"{name} (n {len(experiment.runs)})"), first_marker=index)
            seen[method] += 1
        axis.set_xlabel("epoch")
        axis.xaxis.get_major_locator().set_params(integer=True)
    add_legend(figure, axes[0][0].get_legend_handles_labels()[0])
    return figure, common


def _panels(experiments: Sequence[Experiment]) -> list[tuple[str, str]]:
    """Return the key and the label of each panel."""
    return [
        next((entry for entry in choices if any(_has(found, entry[0]) for found in experiments)), choices[0])
        for choices in _PANELS
    ]


def _ends(experiments: Sequence[Experiment]) -> str:
    """Write the last value of each curve: ``VICReg, lr 0.3: loss 33.08, linear probe 38.40``."""
    names, _ = distinguish(experiments)
    found = []
    for experiment, name in zip(experiments, names, strict=True):
        values = []
        for key, label in _panels(experiments):
            series = _series(experiment, key)
            if series:
                values.append(f"{_plain(label)} {number_text(float(np.mean(series[max(series)])))}")
        found.append(f"{name}: {', '.join(values)}")
    return "; ".join(found)


def _plain(label: str) -> str:
    """Return the label of a panel without mathematics."""
    return label.translate(str.maketrans("", "", "$\\_"))


def _look(styles: Styles, method: str, variant: int) -> LineLook:
    style = styles[method]
    filled: Literal["full", "none"] = "full" if variant < len(_LINES) else "none"
    dashes = _LINES[variant % len(_LINES)]
    return {"color": style.colour, "marker": style.marker, "fillstyle": filled, "linestyle": dashes}


def _has(experiment: Experiment, key: str) -> bool:
    return any(entry.figure(key) is not None for run in experiment.runs for entry in run.results.history)


def _series(experiment: Experiment, key: str) -> dict[int, list[float]]:
    """Return the values of the seeds by epoch."""
    series: dict[int, list[float]] = defaultdict(list)
    for run in experiment.runs:
        for entry in run.results.history:
            value = entry.figure(key)
            if value is not None:
                series[entry.epoch].append(value)
    return series


def _curve(axis: Any, experiment: Experiment, key: str, look: LineLook, name: str, first_marker: int) -> None:
    series = _series(experiment, key)
    epochs = sorted(series)

    def over(reduce: Callable[[list[float]], Any]) -> list[float]:
        return [float(reduce(series[epoch])) for epoch in epochs]

    every = max(1, len(epochs) // _MARKERS_A_LINE)
    marked = (first_marker % every, every)  # markers of coinciding lines do not overlap
    axis.plot(epochs, over(np.mean), markevery=marked, label=name, **look)
    axis.fill_between(epochs, over(min), over(max), color=look["color"], alpha=0.2, linewidth=0)
