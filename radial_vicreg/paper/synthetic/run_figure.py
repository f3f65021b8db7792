"""The figure of one synthetic run, and the scatter plots of all synthetic figures."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.stats
from matplotlib.axes import Axes
from numpy.typing import NDArray

from radial_vicreg.figures import (
    UNTRAINED,
    MethodStyle,
    add_legend,
    method_key,
    method_styles,
    name_panels,
    new_figure,
)
from radial_vicreg.names.counts import counted
from radial_vicreg.paper.synthetic.run import RunResult
from radial_vicreg.paper.synthetic.settings import SyntheticConfig

Array = NDArray[np.float64]

_POINTS_SHOWN = 1500
"""Number of points in a scatter plot; more would only darken it."""
_PATHS_SHOWN = 150
HALF_WIDTH = 4.0
"""Half-width of a scatter plot in units of z; contains a normal sample."""
_TERMS = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)))
"""Dashes of the loss terms, which are black because colours identify methods."""


def run_figure(result: RunResult) -> Any:
    """Plot start, end, paths, density, radii against chi and loss terms of one run, on one page.

    Args:
        result: result of the run; the first two coordinates are plotted.

    Returns:
        A matplotlib figure with an Agg canvas, in the style of the caller (:func:`radial_vicreg.figures.figure_style`).
    """
    style = _style(result.config)
    figure, axes = new_figure(2, 3, wide=True, aspect=0.74)
    scatter(axes[0, 0], result.start, "", UNTRAINED.colour)
    scatter(axes[0, 1], result.end, "", style.colour)
    _paths(axes[0, 2], result, style)
    _density(axes[1, 0], result.end)
    handles = _radii(axes[1, 1], result, style)
    handles += _history(axes[1, 2], result)
    titles = (
        f"start, n = {len(result.start):,}{_note(axes[0, 0])}",
        f"after {counted(result.snapshots[-1][0], 'step')}{_note(axes[0, 1])}",
        f"paths of {counted(min(_PATHS_SHOWN, len(result.start)), 'point')}",
        "density after the run\n(circles: radius 1, 2, 3)",
        "radii",
        "loss terms, unweighted\n(loss: weighted sum)",
    )
    name_panels(axes.flat, titles)
    add_legend(figure, handles)
    return figure


def scatter(axis: Axes, points: Array, title: str, colour: str, half: float | None = None) -> None:
    """Plot the first two coordinates of some of the points, with equal aspect.

    Args:
        axis: axis to plot on.
        points: points, shape ``(N, d)``.
        title: title of the panel; a second line reports points outside the window and a half-width other than 4.
        colour: colour of the points.
        half: half-width of the window; None is 4, or more if the points need it. In that case a square marks the
            window of the other panels.
    """
    plane = _plane(points)
    notes = []
    if half is None:
        reach = np.quantile(np.abs(plane), 0.998) * 1.1
        half = HALF_WIDTH if reach <= HALF_WIDTH else float(math.ceil(reach))
        if half > HALF_WIDTH:
            notes.append(f"axes to {half:g}")
            corner = HALF_WIDTH * np.array([-1, -1, 1, 1, -1])
            axis.plot(corner, np.roll(corner[:4], 1)[[0, 1, 2, 3, 0]], color="black", linestyle=":", linewidth=0.8)
    outside = int((np.abs(plane).max(1) > half).sum())
    notes += [f"{outside:,} of {len(plane):,} outside"] if outside else []
    axis.scatter(plane[:_POINTS_SHOWN, 0], plane[:_POINTS_SHOWN, 1], s=2, color=colour, alpha=0.5, linewidths=0)
    _square(axis, half)
    axis.set_title("\n".join(filter(None, (title, ", ".join(notes)))))


def _style(config: SyntheticConfig) -> MethodStyle:
    """Return the style of a run's method: that of VICReg for VCReg, and that of Radial-VICReg for Radial-VCReg."""
    radial = config.objective != "kl" or config.beta1 > 0 or config.beta2 > 0
    key = method_key(config.objective if radial else "none")
    return method_styles([key])[key]


def _note(axis: Axes) -> str:
    return f"\n{axis.get_title(loc='left')}" if axis.get_title(loc="left") else ""


def _plane(points: Array) -> Array:
    return points[:, :2] if points.shape[1] > 1 else np.column_stack([points[:, 0], np.zeros(len(points))])


def _square(axis: Axes, half: float) -> None:
    axis.set(xlim=(-half, half), ylim=(-half, half), aspect="equal", xlabel="$z_1$", ylabel="$z_2$")
    axis.locator_params(nbins=5)


def _paths(axis: Axes, result: RunResult, style: MethodStyle) -> None:
    track = np.stack([_plane(points)[:_PATHS_SHOWN] for _, points in result.snapshots])
    axis.plot(track[:, :, 0], track[:, :, 1], color="black", linewidth=0.4, alpha=0.6)
    axis.scatter(track[0, :, 0], track[0, :, 1], s=5, color=UNTRAINED.colour, linewidths=0, zorder=3)
    axis.scatter(track[-1, :, 0], track[-1, :, 1], s=5, color=style.colour, linewidths=0, zorder=3)
    _square(axis, HALF_WIDTH)


def _density(axis: Axes, points: Array) -> None:
    plane = _plane(points)
    bins = np.linspace(-HALF_WIDTH, HALF_WIDTH, 61)
    counts, _, _ = np.histogram2d(plane[:, 0], plane[:, 1], bins=[bins, bins])
    image = axis.pcolormesh(bins, bins, counts.T / len(plane) / (bins[1] - bins[0]) ** 2, cmap="cividis")
    circle = np.linspace(0, 2 * np.pi, 200)
    for radius in (1, 2, 3):
        axis.plot(radius * np.cos(circle), radius * np.sin(circle), color="white", linewidth=0.5, linestyle=":")
    _square(axis, HALF_WIDTH)
    axis.figure.colorbar(image, ax=axis, label="points per unit area, share of all", location="bottom", shrink=0.9)


def _radii(axis: Axes, result: RunResult, style: MethodStyle) -> list[Any]:
    """Plot the radii before and after with the density of chi, and return the legend handles."""
    dim = result.config.dim
    start, end = (np.linalg.norm(points, axis=1) for points in (result.start, result.end))
    top = float(np.quantile(np.concatenate([start, end]), 0.999)) * 1.05
    grid = np.linspace(0, max(top, scipy.stats.chi.ppf(0.999, dim)), 300)
    bins = np.linspace(0, grid[-1], 61).tolist()
    before: Any = axis.hist(start, bins, density=True, histtype="step", color=UNTRAINED.colour, linewidth=1.2)[2]
    after: Any = axis.hist(end, bins, density=True, histtype="stepfilled", color=style.colour, alpha=0.5)[2]
    (target,) = axis.plot(grid, scipy.stats.chi.pdf(grid, dim), color="black")
    axis.set(xlabel=r"radius $\|z\|$", ylabel="density")
    labelled = {"start": before[0], "finish": after[0], rf"(e) density of $\chi({dim})$": target}
    for label, artist in labelled.items():
        artist.set_label(label)
    return list(labelled.values())


def _history(axis: Axes, result: RunResult) -> list[Any]:
    """Plot the loss terms, and return their lines for the legend."""
    steps = [row["step"] for row in result.history]
    names = [name for name in result.history[0] if name != "step"]
    lines: list[Any] = []
    for name, dashes in zip(names, _TERMS, strict=False):
        values = [row[name] for row in result.history]
        lines += axis.plot(steps, values, color="black", linestyle=dashes, label=f"(f) {name.replace('_', ' ')}")
    axis.set_xlabel("step")
    axis.set_yscale("symlog", linthresh=0.01)
    axis.locator_params(axis="x", nbins=3)
    return lines
