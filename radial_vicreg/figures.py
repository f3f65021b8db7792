"""Figures of the radii. matplotlib is imported when one is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from radial_vicreg.diagnostics import radius_histogram
from radial_vicreg.files import atomic_file

RADII_COLOUR, CHI_COLOUR = "#0072B2", "#D55E00"  # Okabe and Ito: told apart by colour-blind readers

Radii = Tensor | Mapping[str, Sequence[float]]
"""Radii ``(N,)``, or their histogram: ``edges`` and ``density``."""


def draw_radii(panels: Sequence[tuple[str, Radii]], dim: int, path: str | Path) -> list[Path]:
    """Draw histograms of radii with the density of chi(d), one panel each (the paper's figure 2a to 2c).

    Args:
        panels: title and radii of each panel.
        dim: dimension d of the embeddings.
        path: target without its suffix; a PNG and a PDF are written.

    Returns:
        The two files.
    """
    return save_figure(radii_figure(panels, dim), path)


def radii_figure(panels: Sequence[tuple[str, Radii]], dim: int) -> Any:
    """Draw the figure of :func:`draw_radii` with an Agg canvas, without writing it.

    All panels show the same range of radii, so that they can be compared.

    Args:
        panels: title and radii of each panel.
        dim: dimension d of the embeddings.

    Returns:
        A matplotlib figure.
    """
    from scipy.stats import chi

    figure, axes = new_figure(columns=len(panels))
    found = [radius_histogram(radii) if isinstance(radii, Tensor) else radii for _, radii in panels]
    histograms = [[np.asarray(histogram[key], dtype=float) for key in ("edges", "density")] for histogram in found]
    low = min(chi.ppf(1e-4, dim), *(edges[0] for edges, _ in histograms))
    high = max(chi.ppf(1 - 1e-4, dim), *(edges[-1] for edges, _ in histograms))
    margin = 0.05 * (high - low)
    grid = np.linspace(max(0.0, low - margin), high + margin, 1024)
    for axis, (title, _), (edges, density) in zip(axes[0], panels, histograms, strict=True):
        axis.stairs(density, edges, fill=True, color=RADII_COLOUR, alpha=0.65, label="embeddings")
        axis.plot(grid, chi.pdf(grid, dim), color=CHI_COLOUR, linewidth=2, label=rf"$\chi({dim})$")
        axis.set(title=title, xlabel=r"radius $\|z\|_2$", xlim=(grid[0], grid[-1]))
        axis.legend(frameon=False)
    axes[0][0].set_ylabel("density")
    return figure


def new_figure(columns: int = 1, width: float = 4.2, height: float = 3.2, rows: int = 1) -> tuple[Any, Any]:
    """Make a figure with an Agg canvas, which needs no display and leaves pyplot's state alone.

    Args:
        columns: of panels.
        width: of a panel in inches.
        height: of a panel in inches.
        rows: of panels.

    Returns:
        The figure and its axes, an array of shape ``(rows, columns)``.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False)


def save_figure(figure: Any, path: str | Path) -> list[Path]:
    """Write a figure as PNG and PDF.

    Args:
        figure: matplotlib's.
        path: target without its suffix; its folder is created.

    Returns:
        The two files.
    """
    written = [Path(f"{path}{suffix}") for suffix in (".png", ".pdf")]
    written[0].parent.mkdir(parents=True, exist_ok=True)
    for file in written:
        with atomic_file(file) as stream:
            figure.savefig(stream, format=file.suffix[1:], dpi=150)
    return written
