"""The paper's figures 2, 4 and 5, and training curves, from results alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from radial_vicreg.figures import new_figure, radii_figure
from radial_vicreg.report.collect import Experiment, probe_figure, radius_figure
from radial_vicreg.report.curves import COLOURS, draw_curves, has_curves
from radial_vicreg.report.naming import differences
from radial_vicreg.report.paper import deviations, matches, nearness, paper
from radial_vicreg.report.setting import Setting
from radial_vicreg.report.statistics import Correlation, pearson, spearman
from radial_vicreg.results import RadiusEntry

_MARKERS = "osD^vPX*"
_W1 = radius_figure("final", "w1_chi")
_ACCURACY = (probe_figure("online_linear", "top1"), probe_figure("online_linear", "balanced_accuracy"))
_MOST_MAPS = 6
_Grid = tuple[str, bool | None]  # of the settings, and the reading of 1/d
_IN_A_TITLE = ("method", "beta1", "beta2", "lr", "proj_hidden_dim", "crop_size")


@dataclass
class Drawn:
    """A figure with the words under it.

    Attributes:
        name: of its files.
        figure: matplotlib's; None when the runs do not allow it.
        caption: what is seen, or what is missing.
    """

    name: str
    figure: Any
    caption: str


def draw_all(experiments: Sequence[Experiment]) -> list[Drawn]:
    """Draw every figure, in the paper's order; those that cannot be drawn say why."""
    return [
        _radii(
            experiments,
            "figure2",
            ("none", "kl"),
            "Figure 2a-c: radii before training, after VICReg, after Radial-VICReg",
        ),
        _scatter(experiments),
        _radii(experiments, "figure4", ("wasserstein", "kl", "none"), "Figure 4: radii under three objectives"),
        _heat_maps(experiments),
        _curves(experiments),
    ]


def _radii(experiments: Sequence[Experiment], name: str, objectives: tuple[str, ...], what: str) -> Drawn:
    chosen = _comparable(experiments, objectives)
    if chosen is None:
        wanted = " and ".join(objectives)
        return Drawn(
            name, None, f"{what}: needs finished runs of {wanted} with equal settings otherwise, with diagnostics."
        )
    runs = [experiment.runs[0] for experiment in chosen]
    values = paper()["figures"][name[-1]]
    panels = []
    if name == "figure2":
        panels.append(_panel("before training", runs[0].results.radii.initial, values["w1_initial"]))
        keys = {"none": "w1_vicreg", "kl": "w1_radialvicreg"}
    else:
        keys = {"wasserstein": "w1_wasserstein", "kl": "w1_kl", "none": "w1_none"}
    for experiment, run, objective in zip(chosen, runs, objectives, strict=True):
        panels.append(_panel(experiment.setting.label, run.results.radii.final, values[keys[objective]]))
    setting = chosen[0].setting
    figure = radii_figure(panels, setting.dim)
    same = setting.dataset == "cifar100" and setting.backbone == "resnet18" and setting.dim == 512
    remark = "" if same else " The paper's values are for CIFAR-100, d 512, 400 epochs: not the same setting."
    seeds = ", ".join(f"{run.seed}" for run in runs)
    return Drawn(
        name,
        figure,
        f"{what}, with the density of chi({setting.dim}): {setting.images}, {setting.backbone}, "
        f"{setting.details.get('max_epochs')} epochs, evaluation mode, seeds {seeds}.{remark}",
    )


def _panel(label: str, entry: RadiusEntry | None, paper_value: float) -> tuple[str, dict[str, Any]]:
    """Return title and histogram of a measurement that :func:`_is_drawable`."""
    assert entry is not None
    assert entry.histogram is not None
    title = f"{label}\n$W_1$ to $\\chi$ = {entry.eval.w1_chi:.2f} (paper: {paper_value:g})"
    return title, entry.histogram.plain()


def _is_drawable(entry: RadiusEntry | None) -> bool:
    return entry is not None and entry.histogram is not None and entry.eval.w1_chi is not None


def _comparable(experiments: Sequence[Experiment], objectives: tuple[str, ...]) -> list[Experiment] | None:
    """Take one experiment for each objective from the family that is nearest to the paper's CIFAR-100, d 512."""
    families: dict[str, dict[str, list[Experiment]]] = defaultdict(lambda: defaultdict(list))
    for experiment in experiments:
        radii = experiment.runs[0].results.radii
        drawable = _is_drawable(radii.initial) and _is_drawable(radii.final)
        if drawable and not experiment.setting.center and not experiment.setting.e2mc:
            families[experiment.setting.family][experiment.setting.objective].append(experiment)
    complete = [family for family in families.values() if all(family[objective] for objective in objectives)]
    if not complete:
        return None

    def rank(family: dict[str, list[Experiment]]) -> tuple[bool, bool, int]:
        setting = family[objectives[0]][0].setting
        return setting.dataset == "cifar100", setting.dim == 512, sum(len(found) for found in family.values())

    best = max(complete, key=rank)
    return [min(best[objective], key=_paper_rank) for objective in objectives]


def _paper_rank(experiment: Experiment) -> tuple[float, ...]:
    """Rank for sorting: nearest to one of the paper's settings first, then most seeds."""
    setting = experiment.setting
    near = [nearness(deviations(setting, name)) for name in paper()["configs"] if matches(setting, name)]
    return (*min(near, default=(float("inf"),)), -len(experiment.runs))


def _scatter(experiments: Sequence[Experiment]) -> Drawn:
    what = "Figure 2d: accuracy against the distance of the radii to chi"
    families: dict[str, list[tuple[Experiment, float, float]]] = defaultdict(list)
    for experiment in experiments:
        for run in experiment.runs:
            w1 = run.figure(_W1)
            accuracy = next((value for figure in _ACCURACY if (value := run.figure(figure)) is not None), None)
            if w1 is not None and accuracy is not None:
                families[experiment.setting.family].append((experiment, w1, accuracy))
    points = max(families.values(), key=len, default=[])
    correlations = [compute([p[1] for p in points], [p[2] for p in points]) for compute in (pearson, spearman)]
    if correlations[0] is None or correlations[1] is None:
        return Drawn("figure2d", None, f"{what}: needs four or more comparable runs, found {len(points)}.")
    figure, axes = new_figure(width=5.6, height=4.2)
    axis = axes[0][0]
    objectives = sorted({point[0].setting.objective for point in points})
    rates = sorted({float(point[0].setting.details["lr"]) for point in points}, reverse=True)
    for experiment, w1, accuracy in points:
        marker = _MARKERS[rates.index(float(experiment.setting.details["lr"])) % len(_MARKERS)]
        colour = COLOURS[objectives.index(experiment.setting.objective)]
        axis.scatter(w1, accuracy, color=colour, marker=marker, alpha=0.7, edgecolors="white", linewidths=0.4)
    axis.set(xlabel=r"$W_1$ of the radii to $\chi(d)$ (evaluation mode)", ylabel="online linear probe (%)")
    axis.set_title(f"Pearson {_interval(correlations[0])}\nSpearman {_interval(correlations[1])}", fontsize=10)
    _scatter_legend(figure, objectives, rates)
    setting = points[0][0].setting
    return Drawn(
        "figure2d",
        figure,
        f"{what}: {len(points)} runs on {setting.images}, {setting.backbone}, d {setting.dim}; shapes "
        "are learning rates; 95 % intervals (Fisher; Bonett and Wright). Runs of one experiment are not independent of "
        "one another.",
    )


def _scatter_legend(figure: Any, objectives: Sequence[str], rates: Sequence[float]) -> None:
    """Explain colours (objectives) and shapes (learning rates)."""
    from matplotlib.lines import Line2D

    def handle(colour: str, marker: str, label: str) -> Any:
        return Line2D([], [], color=colour, marker=marker, linestyle="", label=label)

    handles = [handle(colour, "o", _objective_name(name)) for colour, name in zip(COLOURS, objectives, strict=False)]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, title="objective")
    shapes = [handle("grey", _MARKERS[index % len(_MARKERS)], f"{rate:g}") for index, rate in enumerate(rates)]
    figure.legend(handles=shapes, loc="outside right upper", frameon=False, title="lr")


def _interval(found: Correlation) -> str:
    return f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]"


def _objective_name(objective: str) -> str:
    return {"none": "VICReg", "kl": "KL", "wasserstein": "Wasserstein", "reverse_kl": "reverse KL"}.get(
        objective, objective
    )


def _heat_maps(experiments: Sequence[Experiment]) -> Drawn:
    what = "Figure 5: sensitivity to beta1 and beta2"
    grids: dict[_Grid, dict[tuple[float, float], list[float]]] = defaultdict(dict)
    examples: dict[_Grid, Setting] = {}
    scored = [each for each in experiments if each.setting.objective in ("kl", "none")]
    for experiment in scored:
        values = [value for figure in _ACCURACY for value in experiment.values(figure)]
        for key in _grids_of(experiment, scored) if values else ():
            betas = (experiment.setting.beta1, experiment.setting.beta2)
            if len(values) > len(grids[key].get(betas, [])):  # two experiments are never averaged
                grids[key][betas] = values
            if key not in examples or len(experiment.setting.details) > len(examples[key].details):
                examples[key] = experiment.setting  # without a radial term some details are missing
    usable = {
        key: grid for key, grid in grids.items() if len({b1 for b1, _ in grid}) > 1 and len({b2 for _, b2 in grid}) > 1
    }
    if not usable:
        return Drawn("figure5", None, f"{what}: needs a sweep over both (radial-vicreg sweep).")
    chosen = sorted(usable, key=lambda key: -len(usable[key]))[:_MOST_MAPS]
    figure, axes = new_figure(columns=len(chosen), width=4.6, height=3.4)
    others = differences([examples[key] for key in chosen], without=_IN_A_TITLE)
    for axis, key, other in zip(axes[0], chosen, others, strict=True):
        setting = examples[key]
        title = f"{setting.dataset}, {setting.backbone}, d {setting.dim}, lr {setting.details['lr']}"
        title += f"\n{other}" if other else ""
        _heat_map(axis, {cell: float(np.mean(values)) for cell, values in usable[key].items()}, title)
    left_out = f" {len(usable) - len(chosen)} smaller grids are left out." if len(usable) > len(chosen) else ""
    return Drawn(
        "figure5", figure, f"{what}: online linear probe (%), mean over seeds; empty where no run finished.{left_out}"
    )


def _grids_of(experiment: Experiment, others: Sequence[Experiment]) -> list[_Grid]:
    """List the grids that an experiment is a point of: without a cross-entropy, those of both readings of its 1/d."""
    setting = experiment.setting
    if "ce_normalize" in setting.details:
        return [(setting.grid, setting.details["ce_normalize"])]
    alike = [other.setting.details for other in others if other.setting.grid == setting.grid]
    readings = {details["ce_normalize"] for details in alike if "ce_normalize" in details}
    return [(setting.grid, reading) for reading in readings or {None}]


def _heat_map(axis: Any, grid: dict[tuple[float, float], float], title: str) -> None:
    rows, columns = sorted({b1 for b1, _ in grid}), sorted({b2 for _, b2 in grid})
    values = np.array([[grid.get((b1, b2), np.nan) for b2 in columns] for b1 in rows])
    image = axis.imshow(values, cmap="cividis", aspect="auto", origin="lower")
    middle = (np.nanmin(values) + np.nanmax(values)) / 2
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            colour = "black" if value > middle else "white"
            axis.text(column, row, f"{value:.1f}", ha="center", va="center", color=colour, fontsize=8)
    axis.set_xticks(range(len(columns)), [f"{value:g}" for value in columns])
    axis.set_yticks(range(len(rows)), [f"{value:g}" for value in rows])
    axis.set(xlabel=r"$\beta_2$ (entropy)", ylabel=r"$\beta_1$ (cross-entropy)")
    axis.set_title(title, fontsize=10)
    axis.figure.colorbar(image, ax=axis, label="accuracy (%)")


def _curves(experiments: Sequence[Experiment]) -> Drawn:
    families: dict[str, list[Experiment]] = defaultdict(list)
    for experiment in experiments:
        if has_curves(experiment):
            families[experiment.setting.family].append(experiment)
    largest: list[Experiment] = max(families.values(), key=len, default=[])
    if not largest:
        return Drawn("curves", None, "Training curves: no finished run of two epochs or more.")
    chosen = sorted(largest, key=_paper_rank)
    figure, common = draw_curves(chosen)
    more = f" {len(chosen) - len(COLOURS)} more are left out." if len(chosen) > len(COLOURS) else ""
    setting = chosen[0].setting
    place = ", ".join(filter(None, (setting.images, setting.backbone, f"d {setting.dim}", common)))
    return Drawn(
        "curves",
        figure,
        f"Training curves: {place}; mean over seeds, the band from the lowest to the highest seed.{more}",
    )
