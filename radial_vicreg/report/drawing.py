"""The paper's figures 2, 4 and 5, and training curves, from results alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from radial_vicreg.figures import new_figure, radii_figure
from radial_vicreg.report.cells import deviations, matches, paper
from radial_vicreg.report.collect import Experiment
from radial_vicreg.report.statistics import Correlation, pearson, spearman

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
_MARKERS = "osD^vPX*"
_W1 = ("radii", "final", "eval", "w1_chi")
_ACCURACY = (("probes", "online_linear", "top1"), ("probes", "online_linear", "balanced_accuracy"))
_MOST_CURVES = len(COLOURS)
_MOST_MAPS = 6
_CURVES = {
    "train_vicreg_loss": "VICReg's terms of the loss",
    "val_acc1": "online linear probe (%)",
    "train_w1_chi": r"$W_1$ to $\chi$ (batch)",
}


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
    """Every figure, in the paper's order; those that cannot be drawn say why."""
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
        initial = runs[0].content["radii"]["initial"]
        panels.append((_panel_title("before training", initial, values["w1_initial"]), initial["histogram"]))
        keys = {"none": "w1_vicreg", "kl": "w1_radialvicreg"}
    else:
        keys = {"wasserstein": "w1_wasserstein", "kl": "w1_kl", "none": "w1_none"}
    for experiment, run, objective in zip(chosen, runs, objectives, strict=True):
        final = run.content["radii"]["final"]
        panels.append((_panel_title(experiment.setting.label, final, values[keys[objective]]), final["histogram"]))
    setting = chosen[0].setting
    figure = radii_figure(panels, setting.dim)
    same = setting.dataset == "cifar100" and setting.backbone == "resnet18" and setting.dim == 512
    remark = "" if same else " The paper's values are for CIFAR-100, d 512, 400 epochs: not the same setting."
    seeds = ", ".join(f"{run.seed}" for run in runs)
    return Drawn(
        name,
        figure,
        f"{what}, with the density of chi({setting.dim}): {setting.images}, {setting.backbone}, "
        f"{setting.details['max_epochs']} epochs, evaluation mode, seeds {seeds}.{remark}",
    )


def _panel_title(label: str, entry: dict[str, Any], paper_value: float) -> str:
    return f"{label}\n$W_1$ to $\\chi$ = {entry['eval']['w1_chi']:.2f} (paper: {paper_value:g})"


def _comparable(experiments: Sequence[Experiment], objectives: tuple[str, ...]) -> list[Experiment] | None:
    """One experiment for each objective from the family that is nearest to the paper's CIFAR-100, d 512."""
    families: dict[str, dict[str, list[Experiment]]] = defaultdict(lambda: defaultdict(list))
    for experiment in experiments:
        radii = experiment.runs[0].content.get("radii") or {}
        drawable = all("histogram" in (radii.get(key) or {}) for key in ("initial", "final"))
        if drawable and not experiment.setting.center and not experiment.setting.e2mc:
            families[experiment.setting.family][experiment.setting.objective].append(experiment)
    complete = [family for family in families.values() if all(family[objective] for objective in objectives)]
    if not complete:
        return None

    def nearness(family: dict[str, list[Experiment]]) -> tuple[bool, bool, int]:
        setting = family[objectives[0]][0].setting
        return setting.dataset == "cifar100", setting.dim == 512, sum(len(found) for found in family.values())

    best = max(complete, key=nearness)
    return [max(best[objective], key=_paper_cell) for objective in objectives]


def _paper_cell(experiment: Experiment) -> tuple[bool, bool, int]:
    """For choosing: exactly one of the paper's settings, one of its methods at least, number of seeds."""
    names = [name for name in paper()["configs"] if matches(experiment.setting, name)]
    exact = any(not deviations(experiment.setting, name) for name in names)
    return exact, bool(names), len(experiment.runs)


def _scatter(experiments: Sequence[Experiment]) -> Drawn:
    what = "Figure 2d: accuracy against the distance of the radii to chi"
    families: dict[str, list[tuple[Experiment, float, float]]] = defaultdict(list)
    for experiment in experiments:
        for run in experiment.runs:
            w1 = run.figure(*_W1)
            accuracy = next((value for keys in _ACCURACY if (value := run.figure(*keys)) is not None), None)
            if w1 is not None and accuracy is not None:
                families[experiment.setting.family].append((experiment, w1, accuracy))
    points = max(families.values(), key=len, default=[])
    correlations = [compute([p[1] for p in points], [p[2] for p in points]) for compute in (pearson, spearman)]
    if correlations[0] is None or correlations[1] is None:
        return Drawn("figure2d", None, f"{what}: needs four or more comparable runs, found {len(points)}.")
    figure, axes = new_figure(width=5.2, height=3.8)
    axis = axes[0][0]
    objectives = sorted({point[0].setting.objective for point in points})
    for index, objective in enumerate(objectives):
        chosen = [point for point in points if point[0].setting.objective == objective]
        style = {"color": COLOURS[index], "marker": _MARKERS[index], "alpha": 0.8}
        axis.scatter([p[1] for p in chosen], [p[2] for p in chosen], label=_objective_name(objective), **style)
    axis.set(xlabel=r"$W_1$ of the radii to $\chi(d)$ (evaluation mode)", ylabel="online linear probe (%)")
    axis.set_title(f"Pearson {_interval(correlations[0])}\nSpearman {_interval(correlations[1])}", fontsize=10)
    axis.legend(frameon=False)
    setting = points[0][0].setting
    return Drawn(
        "figure2d",
        figure,
        f"{what}: {len(points)} runs on {setting.images}, {setting.backbone}, d {setting.dim}; 95 % intervals (Fisher; "
        "Bonett and Wright). Runs of one experiment are not independent of one another.",
    )


def _interval(found: Correlation) -> str:
    return f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]"


def _objective_name(objective: str) -> str:
    return {"none": "VICReg", "kl": "KL", "wasserstein": "Wasserstein", "reverse_kl": "reverse KL"}.get(
        objective, objective
    )


def _heat_maps(experiments: Sequence[Experiment]) -> Drawn:
    what = "Figure 5: sensitivity to beta1 and beta2"
    grids: dict[str, dict[tuple[float, float], list[float]]] = defaultdict(dict)
    settings = {}
    for experiment in experiments:
        values = [value for keys in _ACCURACY for value in experiment.values(*keys)]
        if experiment.setting.objective in ("kl", "none") and values:
            key = experiment.setting.grid
            grids[key][experiment.setting.beta1, experiment.setting.beta2] = values
            settings[key] = experiment.setting
    usable = {
        key: grid for key, grid in grids.items() if len({b1 for b1, _ in grid}) > 1 and len({b2 for _, b2 in grid}) > 1
    }
    if not usable:
        return Drawn("figure5", None, f"{what}: needs a sweep over both (radial-vicreg sweep).")
    chosen = sorted(usable, key=lambda key: -len(usable[key]))[:_MOST_MAPS]
    figure, axes = new_figure(columns=len(chosen), width=4.6, height=3.4)
    for axis, key in zip(axes[0], chosen, strict=True):
        setting = settings[key]
        title = f"{setting.dataset}, {setting.backbone}, d {setting.dim}, lr {setting.details['lr']}"
        _heat_map(axis, {cell: float(np.mean(values)) for cell, values in usable[key].items()}, title)
    left_out = f" {len(usable) - len(chosen)} smaller grids are left out." if len(usable) > len(chosen) else ""
    return Drawn(
        "figure5", figure, f"{what}: online linear probe (%), mean over seeds; empty where no run finished.{left_out}"
    )


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
        if len(experiment.runs[0].content.get("history") or []) > 1:
            families[experiment.setting.family].append(experiment)
    largest: list[Experiment] = max(families.values(), key=len, default=[])
    chosen = sorted(largest, key=_paper_cell, reverse=True)
    if not chosen:
        return Drawn("curves", None, "Training curves: no finished run of two epochs or more.")
    figure, axes = new_figure(columns=len(_CURVES), width=4.2, height=3.6)
    for axis, (key, label) in zip(axes[0], _CURVES.items(), strict=True):
        for colour, experiment in zip(COLOURS, chosen[:_MOST_CURVES], strict=False):
            _curve(axis, experiment, key, colour)
        axis.set(xlabel="epoch", ylabel=label)
        axis.xaxis.get_major_locator().set_params(integer=True)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 4), frameon=False)
    more = f" {len(chosen) - _MOST_CURVES} more are left out." if len(chosen) > _MOST_CURVES else ""
    setting = chosen[0].setting
    return Drawn(
        "curves",
        figure,
        f"Training curves: {setting.images}, {setting.backbone}, d {setting.dim}; mean over seeds, the band from the "
        f"lowest to the highest seed.{more}",
    )


def _curve(axis: Any, experiment: Experiment, key: str, colour: str) -> None:
    series: dict[float, list[float]] = defaultdict(list)
    for run in experiment.runs:
        for entry in run.content["history"]:
            if isinstance(entry.get(key), (int, float)):
                series[entry["epoch"]].append(entry[key])
    epochs = sorted(series)

    def over(reduce: Callable[[list[float]], Any]) -> list[float]:
        return [float(reduce(series[epoch])) for epoch in epochs]

    axis.plot(epochs, over(np.mean), color=colour, linewidth=1.6, label=experiment.setting.label)
    axis.fill_between(epochs, over(min), over(max), color=colour, alpha=0.2, linewidth=0)
