"""Plots of figures 1 and 3 of the paper, from data to matplotlib figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from numpy.typing import NDArray

from radial_vicreg.figures import (
    UNTRAINED,
    Dashes,
    LineLook,
    add_legend,
    method_styles,
    new_figure,
)
from radial_vicreg.paper.synthetic.best_settings import Row
from radial_vicreg.paper.synthetic.run_figure import HALF_WIDTH, scatter

Array = NDArray[np.float64]

_STYLES = method_styles(["vicreg", "radial_kl"])
_RADIAL = _STYLES["radial_kl"]
METHODS: dict[str, tuple[str, LineLook]] = {
    "start": ("untouched", {"color": UNTRAINED.colour, "marker": UNTRAINED.marker, "linestyle": ":"}),
    "vcreg": ("VCReg", {"color": _STYLES["vicreg"].colour, "marker": _STYLES["vicreg"].marker}),
    "radial_vcreg": ("Radial-VCReg as published", {"color": _RADIAL.colour, "marker": _RADIAL.marker}),
    "radial_vcreg_stable": (
        "the same, stable rate",
        {"color": _RADIAL.colour, "marker": _RADIAL.marker, "fillstyle": "none", "linestyle": "--"},
    ),
}
"""Label and style of the curves of figure 1c. Two rates of one method share its colour and marker."""
_CIRCLES: tuple[tuple[float, Dashes, str], ...] = (
    (1.0, "-", r"(b) radius $\sqrt{d-1}$"),
    (math.sqrt(2), "--", r"(b) radius $\sqrt{d}$"),
)


def figure1(panels: Sequence[tuple[str, Array]], numbers: dict[str, Any]) -> Any:
    """Plot figure 1: samples of X, samples after Radial-VCReg twice, Wasserstein distance against alpha.

    Args:
        panels: title and points of every scatter panel.
        numbers: content of ``results.json``, see :mod:`.figure1`.

    Returns:
        A matplotlib figure with an Agg canvas, in the style of the caller (:func:`radial_vicreg.figures.figure_style`).
    """
    figure, _ = new_figure(rows=0, wide=True, aspect=0.85)
    grid = figure.add_gridspec(2, len(panels), height_ratios=[1, 1.05])
    for place, (title, cloud), shown in zip(range(len(panels)), panels, numbers["panels"], strict=True):
        run = f"seed {shown['seed']}, " + ("diverged" if shown["diverged"] else f"$W_2$ {shown['w2_exact']:.2f}")
        colour = _RADIAL.colour if place else UNTRAINED.colour
        axis = figure.add_subplot(grid[0, place])
        scatter(axis, cloud, f"{title}\n{run}, n = {len(cloud):,}", colour, HALF_WIDTH)
        if place:
            axis.set_ylabel("")
    axis = figure.add_subplot(grid[1, :])
    _distance_curves(axis, numbers)
    add_legend(figure, axis.get_legend_handles_labels()[0])
    return figure


def _distance_curves(axis: Axes, numbers: dict[str, Any]) -> None:
    """Plot median and range of the Wasserstein distance over seeds against alpha, and the number of diverged runs."""
    alphas = np.array(numbers["size"]["alphas"])
    diverged = []
    for shift, (method, (label, look)) in zip((-0.018, -0.006, 0.006, 0.018), METHODS.items(), strict=True):
        spreads = [numbers["methods"][method][f"{alpha:g}"] for alpha in alphas]
        middle, least, largest = (
            np.array([s["w2_exact"][name] for s in spreads], float) for name in ("median", "least", "largest")
        )
        axis.errorbar(alphas + shift, middle, [middle - least, largest - middle], capsize=2, label=label, **look)
        if any(spread["diverged"] for spread in spreads):
            diverged.append((look["color"], label, [f"{s['diverged']}/{s['runs']}" for s in spreads]))
    axis.axhline(numbers["floor"], color="black", linestyle=(0, (1, 3)), linewidth=1, label="two normal samples")
    if numbers["best_of_sweep"]:
        best = sorted((float(alpha), value["w2_exact"]) for alpha, value in numbers["best_of_sweep"].items())
        star: LineLook = {"color": _RADIAL.colour, "marker": "*", "markersize": 8, "fillstyle": "none", "linestyle": ""}
        axis.plot(*zip(*best, strict=True), label="best of a sweep: biased low", **star)
    axis.set(xlabel=r"share $\alpha$ of X in the mixture", ylabel=r"$W_2$ to $\mathcal{N}(0, I)$", xlim=(-0.08, 1.08))
    seeds = f"n = {numbers['size']['seeds']} seeds" + (" less those that diverged" if diverged else "")
    axis.set_title(f"(c) distance over mixtures: median and range, {seeds}")
    _diverged_counts(axis, alphas, diverged)


def _diverged_counts(axis: Axes, alphas: Array, diverged: Sequence[tuple[str, str, Sequence[str]]]) -> None:
    """Write the number of diverged runs below zero, where there is no distance."""
    top = axis.get_ylim()[1]
    line = 0.13 * top
    axis.set_ylim(-2 * line * len(diverged), top)
    axis.set_yticks([tick for tick in axis.get_yticks() if 0 <= tick <= top])
    for index, (colour, label, counts) in enumerate(diverged):
        height = -(2 * index + 0.6) * line
        axis.text(0.5, height, f"diverged and not in the median, {label}:", color=colour, ha="center", va="center")
        for alpha, count in zip(alphas, counts, strict=True):
            axis.text(alpha, height - 0.8 * line, count, color=colour, ha="center", va="center")
    if diverged:
        axis.axhline(0, color="black", linewidth=0.6)


def figure3(sunshine: Array, finals: Sequence[tuple[str, Array]], rows: Sequence[Row], normal: dict[str, float]) -> Any:
    """Plot figure 3: the sunshine, its final samples by beta2, and E2MC against the radial loss.

    Args:
        sunshine: starting points.
        finals: title and final points of each panel (at most six).
        rows: sweep rows of runs on X and on the sunshine.
        normal: metrics of a normal sample of the same size.

    Returns:
        A matplotlib figure with an Agg canvas, in the style of the caller (:func:`radial_vicreg.figures.figure_style`).
    """
    figure, _ = new_figure(rows=0, wide=True, aspect=1.02)
    grid = figure.add_gridspec(3, 4, height_ratios=[1, 1, 1.7])
    axes = [figure.add_subplot(grid[place // 4, place % 4]) for place in range(1 + len(finals))]
    scatter(axes[0], sunshine, f"(a) sunshine\nn = {len(sunshine):,}", UNTRAINED.colour)
    circles: list[Any] = []
    for axis, (title, cloud) in zip(axes[1:], finals, strict=True):
        scatter(axis, cloud, title, _RADIAL.colour)
        circles = _circles(axis)
    for place, axis in enumerate(axes):
        if place % 4:
            axis.set_ylabel("")
    runs = _correlation(figure, figure.add_subplot(grid[2, :]), rows, normal)
    add_legend(figure, [*circles, *runs])
    return figure


def _circles(axis: Axes) -> list[Any]:
    """Plot the two target radii of the losses, under the points."""
    angle = np.linspace(0, 2 * np.pi, 200)
    lines: list[Any] = []
    for radius, dashes, label in _CIRCLES:
        look: LineLook = {"color": "black", "linewidth": 0.7, "linestyle": dashes}
        lines += axis.plot(radius * np.cos(angle), radius * np.sin(angle), zorder=0.5, label=label, **look)
    return lines


def _correlation(figure: Figure, axis: Axes, rows: Sequence[Row], normal: dict[str, float]) -> list[Any]:
    """Plot E2MC against the radial loss, and return the legend handles."""
    finished = [row for row in rows if row["after"] is not None]
    norm = LogNorm(*np.quantile([row["after"]["w2_exact"] for row in finished], [0, 1]))
    handles: list[Any] = []
    for name, marker, label in (("x", "X", "X"), ("sunshine", "o", "sunshine")):
        metrics = [row["after"] for row in finished if row["config"]["distribution"] == name]
        image = axis.scatter(
            [m["radial_kl"] for m in metrics],
            [m["e2mc"] for m in metrics],
            c=[m["w2_exact"] for m in metrics],
            marker=marker,
            norm=norm,
            cmap="cividis",
            s=22,
            edgecolors="black",
            linewidths=0.4,
            label=f"(c) {label}, n = {len(metrics)} runs",
        )
        handles.append(image)
    normal_sample = axis.scatter(
        normal["radial_kl"],
        normal["e2mc"],
        label="(c) a normal sample",
        marker="*",
        s=120,
        facecolors="none",  # hides no run
        edgecolors="black",
    )
    handles.append(normal_sample)
    axis.axvline(normal["radial_kl"], color="black", linewidth=0.5, linestyle=":", zorder=0.5)
    axis.axhline(normal["e2mc"], color="black", linewidth=0.5, linestyle=":", zorder=0.5)
    axis.set_xscale("log")
    # On a linear axis, most runs would be indistinguishable from zero; the estimate can be slightly negative.
    axis.set_yscale("log" if min(row["after"]["e2mc"] for row in finished) > 0 else "symlog")
    axis.set_xlabel("radial loss at the end: KL of the radii to chi (nats)")
    axis.set_ylabel("E2MC loss at the end:\n$-$ marginal entropy\n+ 0.1 hypercovariance")
    axis.set_title("(c) the E2MC loss (the authors' code logs + marginal entropy) against the radial loss")
    figure.colorbar(image, ax=axis, label=r"$W_2$ to $\mathcal{N}(0, I)$")
    return handles
