"""Figure 5: sensitivity to the two weights of the radial terms."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from radial_vicreg.figures import literal, name_panels, new_figure
from radial_vicreg.names.counts import counted
from radial_vicreg.probes.registry import probe_in_words
from radial_vicreg.report.captioned import CaptionedFigure, accuracy
from radial_vicreg.report.collect import Experiment
from radial_vicreg.report.naming import differences
from radial_vicreg.report.setting import Setting

_MOST_MAPS = 6
_COLUMNS = 2
_IN_A_TITLE = ("method", "beta1", "beta2", "lr", "proj_hidden_dim", "crop_size")
_Grid = tuple[str, bool | None]  # hash of the settings, and whether the cross-entropy is divided by d
_Cells = dict[tuple[float, float], list[float]]  # scores of the seeds by beta1 and beta2


def heat_maps(experiments: Sequence[Experiment]) -> CaptionedFigure:
    """Plot the accuracy over beta1 and beta2, one panel per grid; grids on the same images share a colour scale."""
    what = "Figure 5: sensitivity to beta1 and beta2"
    grids, examples = _grids(experiments)
    usable = {
        key: grid for key, grid in grids.items() if len({b1 for b1, _ in grid}) > 1 and len({b2 for _, b2 in grid}) > 1
    }
    if not usable:
        return CaptionedFigure("figure5", None, f"{what}: needs a sweep over both (radial-vicreg sweep).")
    chosen = sorted(usable, key=lambda key: -len(usable[key]))[:_MOST_MAPS]
    rows = math.ceil(len(chosen) / _COLUMNS)
    wide = len(chosen) > 1
    figure, axes = new_figure(rows, _COLUMNS if wide else 1, wide=wide, aspect=0.45 * rows if wide else 0.9)
    used, spare = axes.flat[: len(chosen)], axes.flat[len(chosen) :]
    for axis in spare:
        axis.remove()
    others = differences([examples[key] for key in chosen], without=_IN_A_TITLE)
    name_panels(used, [_title(examples[key], usable[key], other) for key, other in zip(chosen, others, strict=True)])
    for axis, key in zip(used, chosen, strict=True):
        alike = [other for other in chosen if examples[other].images == examples[key].images]
        means = [float(np.mean(values)) for other in alike for values in usable[other].values()]
        _heat_map(axis, {cell: float(np.mean(values)) for cell, values in usable[key].items()}, min(means), max(means))
    left_out = len(usable) - len(chosen)
    return CaptionedFigure(
        "figure5",
        figure,
        f"{what}: online {probe_in_words()} (%), mean over n seeds; empty cells have no finished run."
        + (f" Omitted: {counted(left_out, 'smaller grid')}." if left_out else ""),
        f"Accuracy over beta1 and beta2. {'. '.join(_range(examples[key], usable[key]) for key in chosen)}.",
    )


def _grids(experiments: Sequence[Experiment]) -> tuple[dict[_Grid, _Cells], dict[_Grid, Setting]]:
    """Group the experiments into grids, and return an example setting for each grid."""
    grids: dict[_Grid, _Cells] = defaultdict(dict)
    examples: dict[_Grid, Setting] = {}
    scored = [each for each in experiments if each.setting.objective in ("kl", "none")]
    for experiment in scored:
        values = [value for run in experiment.runs if (value := accuracy(run)) is not None]
        for key in _grids_of(experiment, scored) if values else ():
            betas = (experiment.setting.weight("beta1"), experiment.setting.weight("beta2"))
            if len(values) > len(grids[key].get(betas, [])):  # never average experiments
                grids[key][betas] = values
            if key not in examples or len(experiment.setting.details) > len(examples[key].details):
                examples[key] = experiment.setting  # without a radial term some details are missing
    return grids, examples


def _grids_of(experiment: Experiment, others: Sequence[Experiment]) -> list[_Grid]:
    """List the grids of an experiment; without a cross-entropy, it belongs to those with and without 1/d."""
    setting = experiment.setting
    if "ce_normalize" in setting.details:
        return [(setting.grid, setting.details["ce_normalize"])]
    alike = [other.setting.details for other in others if other.setting.grid == setting.grid]
    readings = {details["ce_normalize"] for details in alike if "ce_normalize" in details}
    return [(setting.grid, reading) for reading in readings or {None}]


def _range(setting: Setting, cells: _Cells) -> str:
    """Write the best and the worst cell of a grid."""
    means = {betas: float(np.mean(values)) for betas, values in cells.items()}
    ends = [
        f"{means[b1, b2]:.1f} % at beta1 {b1:g}, beta2 {b2:g}"
        for b1, b2 in (max(means, key=means.__getitem__), min(means, key=means.__getitem__))
    ]
    grid = f"{setting.dataset}, {setting.backbone}, d {setting.dim}, lr {setting.details['lr']}"
    return f"{grid}: highest {ends[0]}; lowest {ends[1]}"


def _title(setting: Setting, cells: _Cells, other: str) -> str:
    seeds = sorted({len(values) for values in cells.values()})
    count = f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"{seeds[0]}"
    lines = [
        f"{setting.dataset}, {setting.backbone}, d {setting.dim}",
        f"lr {setting.details['lr']}, n = {count}",
        other,
    ]
    return "\n".join(literal(line) for line in lines if line)


def _heat_map(axis: Any, grid: dict[tuple[float, float], float], low: float, high: float) -> None:
    rows, columns = sorted({b1 for b1, _ in grid}), sorted({b2 for _, b2 in grid})
    values = np.array([[grid.get((b1, b2), np.nan) for b2 in columns] for b1 in rows])
    image = axis.imshow(values, cmap="cividis", aspect="auto", origin="lower", vmin=low, vmax=high)
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            colour = "black" if value > (low + high) / 2 else "white"
            axis.text(column, row, f"{value:.1f}", ha="center", va="center", color=colour)
    axis.set_xticks(range(len(columns)), [f"{value:g}" for value in columns])
    axis.set_yticks(range(len(rows)), [f"{value:g}" for value in rows])
    axis.set(xlabel=r"$\beta_2$ (entropy)", ylabel=r"$\beta_1$ (cross-entropy)")
    axis.figure.colorbar(image, ax=axis, label="accuracy (%)")
