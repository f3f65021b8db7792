"""Drawing: one run, figure 1 and figure 3 of the paper. Everything here takes data and writes a PNG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from numpy.typing import NDArray

from radial_vicreg.synthetic.run import RunResult

Array = NDArray[np.float64]
Row = dict[str, Any]

# Okabe and Ito's palette, told apart under every common colour blindness.
BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#7F7F7F"
METHODS = {
    "start": ("untouched", GREY, "s"),
    "vcreg": ("VCReg", ORANGE, "v"),
    "radial_vcreg": ("Radial-VCReg as published", BLUE, "o"),
    "radial_vcreg_stable": ("the same, stable rate", GREEN, "D"),
}
"""Label, colour and marker of the curves of figure 1c."""
POINTS_SHOWN = 1500
"""Points drawn in a scatter plot; more only darken it."""
PATHS_SHOWN = 150
HALF_WIDTH = 4.0
"""Half-width of a scatter plot, in units of z: holds a normal sample."""
DPI = 92


def run_figure(result: RunResult, path: Path) -> None:
    """Draw start, finish, paths, density, radii against chi and loss terms of one run, on one page.

    Args:
        result: the run; the first two coordinates are drawn.
        path: PNG to write.
    """
    figure = Figure(figsize=(12, 7.6), layout="constrained")
    axes = figure.subplots(2, 3)
    scatter(axes[0, 0], result.start, "start")
    step = result.snapshots[-1][0]
    scatter(axes[0, 1], result.end, f"after {step:,} steps")
    _paths(axes[0, 2], result)
    _density(axes[1, 0], result.end)
    _radii(axes[1, 1], result)
    _history(axes[1, 2], result)
    _save(figure, path)


def figure1(panels: Sequence[tuple[str, Array]], numbers: dict[str, Any], path: Path) -> None:
    """Draw figure 1: samples of X, samples after Radial-VCReg twice, Wasserstein distance against alpha.

    Args:
        panels: title and points of every scatter panel.
        numbers: the content of ``results.json``, see :mod:`.figure1`.
        path: PNG to write.
    """
    figure = Figure(figsize=(4 * len(panels) + 5, 4.4), layout="constrained")
    axes = figure.subplots(1, len(panels) + 1, width_ratios=[1] * len(panels) + [1.25])
    for axis, (title, cloud), shown in zip(axes, panels, numbers["panels"], strict=False):
        run = f"seed {shown['seed']}, " + ("diverged" if shown["diverged"] else f"$W_2$ {shown['w2_exact']:.2f}")
        scatter(axis, cloud, f"{title}\n{run}", HALF_WIDTH)
    distance_curves(axes[-1], numbers)
    _save(figure, path)


def distance_curves(axis: Axes, numbers: dict[str, Any]) -> None:
    """Draw median and range over seeds of the Wasserstein distance against alpha, and how many runs diverged."""
    alphas = np.array(numbers["size"]["alphas"])
    lowest = 0.0
    for shift, (method, (label, colour, marker)) in zip((-0.018, -0.006, 0.006, 0.018), METHODS.items(), strict=True):
        spreads = [numbers["methods"][method][f"{alpha:g}"] for alpha in alphas]
        middle, least, largest = (
            np.array([s["w2_exact"][name] for s in spreads], float) for name in ("median", "least", "largest")
        )
        axis.errorbar(
            alphas + shift,
            middle,
            [middle - least, largest - middle],
            color=colour,
            marker=marker,
            markersize=5,
            capsize=3,
            linestyle="--" if method == "start" else "-",
            label=label,
        )
        if any(spread["diverged"] for spread in spreads):
            lowest += 0.03
            for alpha, spread in zip(alphas, spreads, strict=True):
                axis.text(
                    alpha, lowest, f"{spread['diverged']}/{spread['runs']}", color=colour, fontsize=9, ha="center"
                )
            axis.text(0.5, lowest + 0.05, "of these runs diverged:", color=colour, fontsize=9, ha="center")
            lowest += 0.08
    axis.axhline(numbers["floor"], color="black", linestyle=":", linewidth=1, label="two normal samples")
    if numbers["best_of_sweep"]:
        best = sorted((float(alpha), value["w2_exact"]) for alpha, value in numbers["best_of_sweep"].items())
        axis.plot(*zip(*best, strict=True), color=PURPLE, marker="*", linestyle="", label="best of a sweep: biased low")
    axis.set_xlabel(r"share $\alpha$ of X in the mixture")
    axis.set_ylabel(r"$W_2$ to $\mathcal{N}(0, I)$")
    axis.set_xlim(-0.08, 1.08)
    axis.set_ylim(0, axis.get_ylim()[1] * 1.3)
    axis.set_title(f"(c) distance over mixtures\nmedian and range, {numbers['size']['seeds']} seeds", fontsize=10)
    axis.legend(fontsize=9, frameon=False, loc="upper left")


def figure3(
    sunshine: Array, finals: Sequence[tuple[str, Array]], rows: Sequence[Row], normal: dict[str, float], path: Path
) -> None:
    """Draw figure 3: the sunshine, its final samples by beta2, and E2MC against the radial loss.

    Args:
        sunshine: starting points.
        finals: title and final points, by panel (six at most).
        rows: sweep rows of runs on X and on the sunshine.
        normal: metrics of a normal sample of the runs' size.
        path: PNG to write.
    """
    figure = Figure(figsize=(16, 6.8), layout="constrained")
    grid = figure.add_gridspec(2, 5)
    scatter(figure.add_subplot(grid[0, 0]), sunshine, "(a) sunshine")
    places = [grid[0, 1], grid[0, 2], grid[0, 3], grid[0, 4], grid[1, 0], grid[1, 1]]
    circle = np.linspace(0, 2 * np.pi, 200)
    for number, (place, (title, cloud)) in enumerate(zip(places, finals, strict=False)):
        axis = figure.add_subplot(place)
        scatter(axis, cloud, title)
        for radius, colour, label in ((1, ORANGE, r"$\sqrt{d-1}$"), (math.sqrt(2), PURPLE, r"$\sqrt{d}$")):
            axis.plot(radius * np.cos(circle), radius * np.sin(circle), color=colour, linewidth=1, label=label)
        if number == 0:
            axis.legend(fontsize=7.5, loc="upper right", title="radius", title_fontsize=7.5)
    _correlation(figure, figure.add_subplot(grid[1, 2:]), rows, normal)
    _save(figure, path)


def scatter(axis: Axes, points: Array, title: str, half: float | None = None) -> None:
    """Draw the first two coordinates of some of the points, in equal aspect.

    Args:
        axis: where to draw.
        points: shape ``(N, d)``.
        title: of the panel.
        half: half-width of the window; None is 4, or more where the points need it. The title tells of points outside
            and of a window that is not 4.
    """
    plane = _plane(points)
    if half is None:
        reach = np.quantile(np.abs(plane), 0.998) * 1.1
        half = HALF_WIDTH if reach <= HALF_WIDTH else float(math.ceil(reach))
        title += "" if half == HALF_WIDTH else f"\naxes to {half:g}"
    outside = int((np.abs(plane).max(1) > half).sum())
    title += f", {outside} of {len(plane):,} outside" if outside else ""
    axis.scatter(plane[:POINTS_SHOWN, 0], plane[:POINTS_SHOWN, 1], s=3, color=BLUE, alpha=0.45, linewidths=0)
    _square(axis, title, half)


def _plane(points: Array) -> Array:
    return points[:, :2] if points.shape[1] > 1 else np.column_stack([points[:, 0], np.zeros(len(points))])


def _square(axis: Axes, title: str, half: float) -> None:
    axis.set(xlim=(-half, half), ylim=(-half, half), aspect="equal", xlabel="$z_1$", ylabel="$z_2$")
    axis.set_title(title, fontsize=10)
    axis.locator_params(nbins=5)


def _paths(axis: Axes, result: RunResult) -> None:
    track = np.stack([_plane(points)[:PATHS_SHOWN] for _, points in result.snapshots])
    axis.plot(track[:, :, 0], track[:, :, 1], color=GREY, linewidth=0.6)
    axis.scatter(track[0, :, 0], track[0, :, 1], s=8, color=ORANGE, label="start", zorder=3)
    axis.scatter(track[-1, :, 0], track[-1, :, 1], s=8, color=BLUE, label="finish", zorder=3)
    _square(axis, f"paths of {track.shape[1]} points through {len(track)} snapshots", HALF_WIDTH)
    axis.legend(fontsize=8, loc="upper right")


def _density(axis: Axes, points: Array) -> None:
    plane = _plane(points)
    bins = np.linspace(-HALF_WIDTH, HALF_WIDTH, 61)
    counts, _, _ = np.histogram2d(plane[:, 0], plane[:, 1], bins=[bins, bins])
    image = axis.pcolormesh(bins, bins, counts.T / len(plane) / (bins[1] - bins[0]) ** 2, cmap="cividis")
    circle = np.linspace(0, 2 * np.pi, 200)
    for radius in (1, 2, 3):
        axis.plot(radius * np.cos(circle), radius * np.sin(circle), color="white", linewidth=0.7, alpha=0.7)
    _square(axis, "density of the finish (circles: radius 1, 2, 3)", HALF_WIDTH)
    axis.figure.colorbar(image, ax=axis, label="points per unit area, share of all", shrink=0.85)


def _radii(axis: Axes, result: RunResult) -> None:
    dim = result.config.dim
    start, end = (np.linalg.norm(points, axis=1) for points in (result.start, result.end))
    top = float(np.quantile(np.concatenate([start, end]), 0.999)) * 1.05
    grid = np.linspace(0, max(top, scipy.stats.chi.ppf(0.999, dim)), 300)
    bins = np.linspace(0, grid[-1], 61).tolist()
    axis.hist(start, bins, density=True, histtype="step", color=ORANGE, linewidth=1.3, label="start")
    axis.hist(end, bins, density=True, color=BLUE, alpha=0.45, label="finish")
    axis.plot(grid, scipy.stats.chi.pdf(grid, dim), color="black", linewidth=1.3, label=rf"$\chi({dim})$")
    axis.set(xlabel=r"radius $\|z\|$", ylabel="density")
    axis.set_title("radii against chi", fontsize=10)
    axis.legend(fontsize=8, frameon=False)


def _history(axis: Axes, result: RunResult) -> None:
    steps = [row["step"] for row in result.history]
    names = [name for name in result.history[0] if name != "step"]
    styles = ("-", "--", ":", "-.", (0, (5, 1)))
    for name, colour, style in zip(names, (GREY, ORANGE, PURPLE, BLUE, GREEN), styles, strict=False):
        values = [row[name] for row in result.history]
        axis.plot(steps, values, color=colour, linestyle=style, label=name.replace("_", " "))
    axis.set(xlabel="step", ylabel="term, unweighted (loss: weighted sum)")
    axis.set_title("loss terms", fontsize=10)
    axis.set_yscale("symlog", linthresh=0.01)
    axis.legend(fontsize=8, frameon=False)


def _correlation(figure: Figure, axis: Axes, rows: Sequence[Row], normal: dict[str, float]) -> None:
    finished = [row for row in rows if row["after"] is not None]
    norm = LogNorm(*np.quantile([row["after"]["w2_exact"] for row in finished], [0, 1]))
    for name, marker, label in (("x", "X", "X"), ("sunshine", "o", "sunshine")):
        metrics = [row["after"] for row in finished if row["config"]["distribution"] == name]
        image = axis.scatter(
            [m["radial_kl"] for m in metrics],
            [m["e2mc"] for m in metrics],
            c=[m["w2_exact"] for m in metrics],
            marker=marker,
            norm=norm,
            cmap="cividis",
            s=34,
            edgecolors="black",
            linewidths=0.4,
            label=f"{label} ({len(metrics)} runs)",
        )
    label = f"a normal sample ({normal['radial_kl']:.3f}, {normal['e2mc']:.3f})"
    axis.scatter(normal["radial_kl"], normal["e2mc"], marker="*", s=170, color=ORANGE, edgecolors="black", label=label)
    axis.set_xscale("log")
    # A linear axis would press all but a few runs onto zero; the estimate can pass it by a little.
    axis.set_yscale("log" if min(row["after"]["e2mc"] for row in finished) > 0 else "symlog")
    axis.set_xlabel("radial loss at the end: KL of the radii to chi (nats)")
    axis.set_ylabel("E2MC loss at the end:\n$-$ marginal entropy + 0.1 hypercovariance")
    axis.set_title("(c) the E2MC loss (the authors' code logs + marginal entropy) against the radial loss", fontsize=10)
    axis.legend(fontsize=8)
    figure.colorbar(image, ax=axis, label=r"$W_2$ to $\mathcal{N}(0, I)$")


def _save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=DPI)
