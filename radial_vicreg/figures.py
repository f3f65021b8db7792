"""Figures of the radii. matplotlib is imported when one is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from torch import Tensor

RADII_COLOUR, CHI_COLOUR = "#0072B2", "#D55E00"  # Okabe and Ito: told apart by colour-blind readers


def draw_radii(panels: Sequence[tuple[str, Tensor]], dim: int, path: str | Path) -> list[Path]:
    """Draws histograms of radii with the density of chi(d), one panel each (the paper's figure 2a to 2c).

    Args:
        panels: title and radii ``(N,)`` of each panel.
        dim: dimension d of the embeddings.
        path: target without its suffix; a PNG and a PDF are written.

    Returns:
        The two files.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from scipy.stats import chi

    figure = Figure(figsize=(4.2 * len(panels), 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (title, radii) in zip(axes, panels, strict=True):
        values = radii.double().cpu().numpy()
        low = min(values.min(), chi.ppf(1e-4, dim))
        high = max(values.max(), chi.ppf(1 - 1e-4, dim))
        margin = 0.05 * (high - low)
        grid = np.linspace(max(0.0, low - margin), high + margin, 512)
        axis.hist(values, bins="auto", density=True, color=RADII_COLOUR, alpha=0.65, label="embeddings")
        axis.plot(grid, chi.pdf(grid, dim), color=CHI_COLOUR, linewidth=2, label=rf"$\chi({dim})$")
        axis.set(title=title, xlabel=r"radius $\|z\|_2$", xlim=(grid[0], grid[-1]))
        axis.legend(frameon=False)
    axes[0].set_ylabel("density")
    written = [Path(path).with_suffix(suffix) for suffix in (".png", ".pdf")]
    written[0].parent.mkdir(parents=True, exist_ok=True)
    for file in written:
        figure.savefig(file, dpi=150)
    return written
