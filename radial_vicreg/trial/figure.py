"""The figure of a trial: radii, spectrum, and the probe with its intervals."""

from __future__ import annotations

from typing import Any

import numpy as np

from radial_vicreg.figures import UNTRAINED, LineLook, add_legend, method_styles, name_panels, new_figure
from radial_vicreg.probes.registry import probe_in_words
from radial_vicreg.trial.comparison import Accuracy, Comparison

_NORMAL: LineLook = {"color": "black", "linewidth": 0.9}
_FILL = "0.85"
_UNTRAINED = "untrained"
_DECADES = 4.0  # range of the spectrum shown


def comparison_figure(content: Comparison) -> Any:
    """Plot what a trial has found.

    Args:
        content: from :func:`radial_vicreg.trial.comparison.compare`.

    Returns:
        A matplotlib figure with an Agg canvas, in the style of the caller.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    has_probe = content["untrained"] is not None
    figure, axes = new_figure(columns=3 if has_probe else 2, wide=True, aspect=0.4)
    styles = method_styles(method["style"] for method in content["methods"])
    colours = [styles[method["style"]].colour for method in content["methods"]]
    _radii(axes[0][0], content, colours)
    _spectra(axes[0][1], content, colours)
    titles = ["lengths", "spectrum"]
    if has_probe:
        _probes(axes[0][2], content, colours)
        titles.append(probe_in_words())
    name_panels(axes[0], titles)
    handles: list[Any] = [
        Line2D([], [], label=method["label"], color=colour, linewidth=1.5)
        for method, colour in zip(content["methods"], colours, strict=True)
    ]
    handles.append(Patch(facecolor=_FILL, edgecolor="black", linewidth=0.9, label="normal distribution"))
    add_legend(figure, handles)
    return figure


def _radii(axis: Any, content: Comparison, colours: list[str]) -> None:
    from scipy.stats import chi

    dim = content["dim"]
    grid = np.linspace(chi.ppf(1e-5, dim), chi.ppf(1 - 1e-5, dim), 500)
    density = chi.pdf(grid, dim)
    axis.fill_between(grid, density / density.max(), color=_FILL)
    axis.plot(grid, density / density.max(), **_NORMAL)
    for method, colour in zip(content["methods"], colours, strict=True):
        radii = method["curves"]["radii"]
        heights = np.asarray(radii["density"])
        axis.stairs(heights / heights.max(), radii["edges"], color=colour, linewidth=1.5)
    axis.set(xlabel=r"length $\|z\|$ of an embedding", ylabel="density / its peak", ylim=(0, 1.08))


def _spectra(axis: Any, content: Comparison, colours: list[str]) -> None:
    curves = [(content["normal_curves"]["spectrum"], _NORMAL)]
    for method, colour in zip(content["methods"], colours, strict=True):
        curves.append((method["curves"]["spectrum"], {"color": colour, "linewidth": 1.5}))
    least = max(values[0] for values, _ in curves) * 10**-_DECADES
    for values, look in curves:
        shown = [value for value in values if value > least]
        axis.plot(np.arange(1, len(shown) + 1), shown, **look)
    axis.set(xlabel="number of the eigenvalue", ylabel="eigenvalue of the covariance", xscale="log", yscale="log")


def _probes(axis: Any, content: Comparison, colours: list[str]) -> None:
    bars: list[tuple[str, Accuracy | None]] = [(UNTRAINED.colour, content["untrained"])]
    bars += zip(colours, [method["probe"] for method in content["methods"]], strict=True)
    for place, (colour, accuracy) in enumerate(bars):
        if accuracy is None:
            continue
        top1 = accuracy["top1"]
        error = [[max(0.0, top1 - accuracy["low"])], [max(0.0, accuracy["high"] - top1)]]
        axis.errorbar(place, top1, yerr=error, color=colour, marker="o", capsize=3)
    axis.set_xticks(range(len(bars)), [_UNTRAINED, *[""] * len(content["methods"])])  # the legend names the others
    axis.set(ylabel="accuracy (%), 95 % interval", xlim=(-0.5, len(bars) - 0.5))
