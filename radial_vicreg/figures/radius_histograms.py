"""Histograms of radii with the density of chi."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from radial_vicreg.diagnostics import radius_histogram
from radial_vicreg.figures.methods import UNTRAINED, MethodStyle
from radial_vicreg.figures.style import add_legend, figure_style, name_panels, new_figure, save_figure

Radii = Tensor | Mapping[str, Sequence[float]]
"""Radii ``(N,)``, or their histogram: ``edges`` and ``density``."""
_TALLEST = 2.0
"""Bars are clipped at this multiple of chi's peak, since the radii of an untrained network would flatten the others."""


def draw_radii(
    panels: Sequence[tuple[str, Radii]], dim: int, path: str | Path, styles: Sequence[MethodStyle] = ()
) -> list[Path]:
    """Plot histograms of radii with the density of chi(d), one panel each (the paper's figure 2a to 2c).

    Args:
        panels: title and radii of each panel.
        dim: dimension d of the embeddings.
        path: target without its suffix.
        styles: styles of the panels; default: grey.

    Returns:
        The files, see :func:`~.style.save_figure`.
    """
    with figure_style():
        return save_figure(radii_figure(panels, dim, styles), path)


def radii_figure(panels: Sequence[tuple[str, Radii]], dim: int, styles: Sequence[MethodStyle] = ()) -> Any:
    """Plot the figure of :func:`draw_radii` without writing it.

    All panels share the ranges of both axes, so that they can be compared; a clipped bar is annotated with its height.

    Args:
        panels: title and radii of each panel.
        dim: dimension d of the embeddings.
        styles: styles of the panels; default: grey.

    Returns:
        A matplotlib figure.
    """
    from scipy.stats import chi

    wide = len(panels) > 1
    figure, axes = new_figure(columns=len(panels), wide=wide, aspect=0.36 if wide else 0.75)
    found = [radius_histogram(radii) if isinstance(radii, Tensor) else radii for _, radii in panels]
    histograms = [[np.asarray(histogram[key], dtype=float) for key in ("edges", "density")] for histogram in found]
    low = min(chi.ppf(1e-4, dim), *(edges[0] for edges, _ in histograms))
    high = max(chi.ppf(1 - 1e-4, dim), *(edges[-1] for edges, _ in histograms))
    margin = 0.05 * (high - low)
    grid = np.linspace(max(0.0, low - margin), high + margin, 1024)
    target = chi.pdf(grid, dim)
    tallest = max(density.max() for _, density in histograms)
    top = 1.08 * max(target.max(), min(tallest, _TALLEST * target.max()))
    name_panels(axes[0], [title for title, _ in panels])
    for axis, (edges, density), style in zip(axes[0], histograms, styles or [UNTRAINED] * len(panels), strict=True):
        axis.stairs(density, edges, fill=True, color=style.colour, alpha=0.7)
        (line,) = axis.plot(grid, target, color="black", label=rf"density of $\chi({dim})$")
        axis.set(xlabel=r"radius $\|z\|_2$", xlim=(grid[0], grid[-1]), ylim=(0, top))
        if density.max() > top:
            _label_height(axis, edges, density)
        axis.label_outer()
    axes[0][0].set_ylabel("density")
    add_legend(figure, [line])
    return figure


def _label_height(axis: Any, edges: np.ndarray, density: np.ndarray) -> None:
    """Write the height of a clipped bar next to it, on the side with more room."""
    peak = int(density.argmax())
    left, right = axis.get_xlim()
    right_of_it = edges[peak] - left < right - edges[peak + 1]
    axis.annotate(
        rf"$\uparrow$ {density.max():.3g}",
        (edges[peak + 1] if right_of_it else edges[peak], axis.get_ylim()[1]),
        xytext=(4 if right_of_it else -4, -2),
        textcoords="offset points",
        ha="left" if right_of_it else "right",
        va="top",
    )
