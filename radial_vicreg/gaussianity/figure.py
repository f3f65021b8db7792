"""The figure: one row per output with radii, spectrum and slices; each panel shows all sources and normal samples."""

from __future__ import annotations

from collections import Counter
from itertools import cycle
from typing import Any

import numpy as np

from radial_vicreg.figures import (
    UNTRAINED,
    Dashes,
    LineLook,
    add_legend,
    literal,
    method_label,
    method_styles,
    name_panels,
    new_figure,
)
from radial_vicreg.gaussianity.content import Curves, Details, Diagnosis, Measured, NormalCurves
from radial_vicreg.gaussianity.table import outputs_of

_STANDARDISED = ("encoder",)
"""Outputs that are standardised before plotting, since an encoder's features need not have unit variance."""

_COLOURS = ("#0072B2", "#DE7301", "#1A5E4B", "#A82F7D", "#4794BA", "#654D00")  # as of methods; not for runs
_DASHES: tuple[Dashes, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)))  # distinguishable without colour
_NORMAL: LineLook = {"color": "black", "linewidth": 0.9}
_FILL = "0.85"
_ROW, _LEGEND = 0.28, 0.05  # heights, as shares of the figure's width
_DECADES = 6.0  # range of a spectrum shown; smaller eigenvalues are rounding errors

_Curve = tuple[Curves, LineLook]
"""The curves of an output, and the style of their lines."""


def diagnose_figure(content: Diagnosis) -> Any:
    """Plot every output of every source.

    Args:
        content: diagnosis from :func:`radial_vicreg.gaussianity.measure.diagnose`.

    Returns:
        A matplotlib figure with an Agg canvas, in the style of the caller (:func:`radial_vicreg.figures.figure_style`).
    """
    styles = _styles([source["details"] for source in content["sources"]])
    rows = outputs_of(content)
    figure, axes = new_figure(len(rows), 3, wide=True, aspect=_ROW * len(rows) + _LEGEND)
    titles = []
    for output, panels in zip(rows, axes, strict=True):
        titles += _draw_row(panels, content, output, styles)
    name_panels(axes.flat, titles)
    _legend(figure, _names(content["sources"]), styles)
    return figure


def _styles(sources: list[Details]) -> list[LineLook]:
    """Choose line styles: the method's colour for a run, a free one for other sources, dashes for equal colours."""
    methods = method_styles(source["method"] for source in sources if "method" in source)
    taken = {UNTRAINED.colour, *(style.colour for style in methods.values())}
    others = cycle([colour for colour in _COLOURS if colour not in taken] or _COLOURS)
    chosen: list[tuple[str, Dashes]] = []
    for place, source in enumerate(sources):
        if source.get("untrained"):
            colour = UNTRAINED.colour
        else:
            colour = methods[source["method"]].colour if "method" in source else next(others)
        first = place % len(_DASHES)
        dashes = [*_DASHES[first:], *_DASHES[:first]]
        chosen.append((colour, next((dash for dash in dashes if (colour, dash) not in chosen), dashes[0])))
    return [{"color": colour, "linestyle": dash, "linewidth": 1.5} for colour, dash in chosen]


def _draw_row(panels: Any, content: Diagnosis, output: str, styles: list[LineLook]) -> list[str]:
    """Plot the three panels of an output, and return their titles."""
    variant = "standardised" if output in _STANDARDISED else "raw"
    having = [
        (source["outputs"][output], style)
        for source, style in zip(content["sources"], styles, strict=True)
        if output in source["outputs"]
    ]
    sizes = sorted({(found["count"], found["dim"]) for found, _ in having})
    curves = [(found["curves"][variant], style) for found, style in having]
    normal = [content["normal_curves"][f"{count}x{dim}"][variant] for count, dim in sizes]
    _radii(panels[0], curves, sorted({dim for _, dim in sizes}))
    _spectra(panels[1], curves, normal)
    _slices(panels[2], curves, normal)
    return [f"{output}, {variant}", "; ".join(f"N {count:,}, d {dim:,}" for count, dim in sizes), ""]


def _radii(axis: Any, curves: list[_Curve], dims: list[int]) -> None:
    """Plot histograms and chi densities, each scaled to its peak, since their widths may differ a hundredfold."""
    from scipy.stats import chi

    ends = [edge for each, _ in curves for edge in each["radii"]["edges"]]
    for dim in dims:
        grid = np.linspace(chi.ppf(1e-5, dim), chi.ppf(1 - 1e-5, dim), 500)
        density = chi.pdf(grid, dim)
        axis.fill_between(grid, density / density.max(), color=_FILL)
        axis.plot(grid, density / density.max(), **_NORMAL)
        ends += [grid[0], grid[-1]]
    margin = 0.05 * (max(ends) - min(ends))
    for each, style in curves:
        density = np.asarray(each["radii"]["density"])
        axis.stairs(density / density.max(), each["radii"]["edges"], **style)
    axis.set(xlabel=r"radius $\|z\|$", ylabel="density / its peak", ylim=(0, 1.08))
    axis.set_xlim(max(0.0, min(ends) - margin), max(ends) + margin)


def _spectra(axis: Any, curves: list[_Curve], normal: list[NormalCurves]) -> None:
    """Plot the eigenvalues that exceed rounding errors, over the band of normal samples."""
    spectra = [(np.asarray(each["spectrum"]), style) for each, style in [*((n, _NORMAL) for n in normal), *curves]]
    least = max(float(values.max()) for values, _ in spectra) * 10**-_DECADES
    for each in normal:
        low, high = np.asarray(each["spectrum_band"]).clip(min=least)
        axis.fill_between(np.arange(1, len(low) + 1), low, high, color=_FILL)
    for values, style in spectra:
        shown = values[values > least]
        axis.plot(np.arange(1, len(shown) + 1), shown, **style)
    axis.set(xlabel="number of the eigenvalue", ylabel="eigenvalue", xscale="log", yscale="log")


def _slices(axis: Any, curves: list[_Curve], normal: list[NormalCurves]) -> None:
    """Plot the cumulative distribution of the slices' statistics, over the band of normal samples."""
    for each in normal:
        axis.fill_betweenx(_shares(each), *each["slices_band"], color=_FILL)
    for curve, style in [*((n, _NORMAL) for n in normal), *curves]:
        axis.step(curve["slices"], _shares(curve), where="post", **style)
    axis.set(xlabel="Epps-Pulley of a slice", ylabel="share of slices below", xscale="log", ylim=(0, 1.02))


def _shares(curves: Curves) -> Any:
    return np.arange(1, len(curves["slices"]) + 1) / len(curves["slices"])


def _names(sources: list[Measured]) -> list[str]:
    """Return the names in the legend: a run has that of its method, with a number if several runs have it."""
    named = {
        place: method_label(source["details"]["method"])
        for place, source in enumerate(sources)
        if "method" in source["details"] and not source["details"].get("untrained")
    }
    totals, seen = Counter(named.values()), Counter[str]()
    for place, name in named.items():
        seen[name] += 1
        named[place] = f"{name} {seen[name]}" if totals[name] > 1 else name
    return [named.get(place, source["label"]) for place, source in enumerate(sources)]


def _legend(figure: Any, labels: list[str], styles: list[LineLook]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Line2D([], [], label=literal(label), **style) for label, style in zip(labels, styles, strict=True)
    ]
    normal = r"normal samples (median and band), density of $\chi(d)$"
    handles.append(Patch(facecolor=_FILL, edgecolor="black", linewidth=0.9, label=normal))
    add_legend(figure, handles)
