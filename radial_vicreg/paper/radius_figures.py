"""Figures 2a to 2c and 4: histograms of the radii with the density of chi."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from radial_vicreg.figures import UNTRAINED, literal, radii_figure
from radial_vicreg.figures.radius_histograms import Radii
from radial_vicreg.names.terms import OBJECTIVE_LABELS
from radial_vicreg.paper.values import paper, paper_rank
from radial_vicreg.report.captioned import CaptionedFigure, Styles
from radial_vicreg.report.collect import Experiment
from radial_vicreg.report.formats import number_text
from radial_vicreg.report.setting import Setting
from radial_vicreg.runs.results import RadiusEntry

_Panel = tuple[str, Radii]
_PAPERS_DATA = ("cifar100", "resnet18", 512)


def figure2(experiments: Sequence[Experiment], styles: Styles) -> CaptionedFigure:
    """Plot the radii before training, after VICReg and after Radial-VICReg."""
    objectives = ("none", "kl")
    after = ", ".join(f"after {OBJECTIVE_LABELS[name]}" for name in objectives)
    what = f"Figure 2a-c: radii before training, {after}"
    values = paper()["figures"]["2"]
    chosen = _comparable(experiments, objectives)
    if chosen is None:
        return _missing("figure2", what, objectives)
    setting = chosen[0].setting
    start = _panel(
        ["before training"], chosen[0].runs[0].results.radii.initial, _of_the_paper(setting, values["w1_initial"])
    )
    keys = ("w1_vicreg", "w1_radialvicreg")
    return _drawn("figure2", what, chosen, [values[key] for key in keys], styles, [start])


def figure4(experiments: Sequence[Experiment], styles: Styles) -> CaptionedFigure:
    """Plot the radii after training with each of three objectives."""
    what = "Figure 4: radii under three objectives"
    objectives = ("wasserstein", "kl", "none")
    chosen = _comparable(experiments, objectives)
    if chosen is None:
        return _missing("figure4", what, objectives)
    values = paper()["figures"]["4"]
    return _drawn("figure4", what, chosen, [values[f"w1_{name}"] for name in objectives], styles, [])


def _missing(name: str, what: str, objectives: Sequence[str]) -> CaptionedFigure:
    wanted = " and ".join(objectives)
    return CaptionedFigure(
        name, None, f"{what}: needs finished runs of {wanted} with diagnostics and otherwise equal settings."
    )


def _drawn(
    name: str,
    what: str,
    chosen: Sequence[Experiment],
    values: Sequence[float],
    styles: Styles,
    before: list[_Panel],
) -> CaptionedFigure:
    """Plot the final radii of each experiment's first seed, after the panels in ``before``."""
    panels = list(before)
    for experiment, value in zip(chosen, values, strict=True):
        setting, entry = experiment.setting, experiment.runs[0].results.radii.final
        panels.append(_panel([setting.kind, setting.radial_weights], entry, _of_the_paper(setting, value)))
    setting = chosen[0].setting
    looks = [UNTRAINED] * len(before) + [styles[experiment.setting.key] for experiment in chosen]
    figure = radii_figure(panels, setting.dim, looks)
    epochs = setting.details.get("max_epochs")
    remark = " In brackets the paper's values, after 400 epochs." if _is_the_papers(setting) else ""
    seeds = ", ".join(f"{experiment.runs[0].seed}" for experiment in chosen)
    return CaptionedFigure(
        name,
        figure,
        f"{what}, with the density of chi({setting.dim}): {setting.images}, {setting.backbone}, {epochs} "
        f"epoch{'' if epochs == 1 else 's'}, "
        f"evaluation mode, n images each, seeds {seeds}.{remark}",
        f"Histograms of radii. {_results(chosen, before=bool(before))}.",
    )


def _results(chosen: Sequence[Experiment], before: bool) -> str:
    """Write W1 of each panel: ``W1 to chi(512): before training 21.91, VICReg 7.88``."""
    radii = [experiment.runs[0].results.radii for experiment in chosen]
    entries = [("before training", radii[0].initial)] if before else []
    entries += [(each.setting.kind, found.final) for each, found in zip(chosen, radii, strict=True)]
    values = [
        f"{name} {number_text(entry.eval.w1_chi)}" for name, entry in entries if entry and entry.eval.w1_chi is not None
    ]
    return f"W1 to chi({chosen[0].setting.dim}): {', '.join(values)}"


def _panel(words: Sequence[str], entry: RadiusEntry | None, paper_value: float | None) -> _Panel:
    """Return title and histogram of a measurement that passes :func:`_is_drawable`."""
    assert entry is not None
    assert entry.histogram is not None
    count = "" if entry.eval.count is None else f"n = {entry.eval.count:,.0f}"
    name, *weights = map(literal, words)
    distance = f"$W_1$ to $\\chi$ = {entry.eval.w1_chi:.2f}"
    distance += "" if paper_value is None else f" (paper: {paper_value:g})"
    second = ", ".join(filter(None, [*weights, count]))
    histogram = {"edges": entry.histogram.edges, "density": entry.histogram.density}
    return "\n".join(filter(None, [name, second, distance])), histogram


def _is_the_papers(setting: Setting) -> bool:
    return (setting.dataset, setting.backbone, setting.dim) == _PAPERS_DATA


def _of_the_paper(setting: Setting, value: float) -> float | None:
    """Return the paper's value for the paper's data, network and d; None for any other setting."""
    return value if _is_the_papers(setting) else None


def _is_drawable(entry: RadiusEntry | None) -> bool:
    return entry is not None and entry.histogram is not None and entry.eval.w1_chi is not None


def _comparable(experiments: Sequence[Experiment], objectives: tuple[str, ...]) -> list[Experiment] | None:
    """Select one experiment per objective from the family nearest to the paper's CIFAR-100 setting with d = 512."""
    families: dict[str, dict[str, list[Experiment]]] = defaultdict(lambda: defaultdict(list))
    for experiment in experiments:
        radii = experiment.runs[0].results.radii
        drawable = _is_drawable(radii.initial) and _is_drawable(radii.final)
        setting = experiment.setting
        if drawable and not (setting.center or setting.added):
            families[setting.family][setting.objective].append(experiment)
    complete = [family for family in families.values() if all(family[objective] for objective in objectives)]
    if not complete:
        return None

    def rank(family: dict[str, list[Experiment]]) -> tuple[bool, bool, int]:
        setting = family[objectives[0]][0].setting
        return setting.dataset == "cifar100", setting.dim == 512, sum(len(found) for found in family.values())

    best = max(complete, key=rank)
    return [min(best[objective], key=paper_rank) for objective in objectives]
