"""Figure 2d: accuracy against the distance of the radii to chi."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from radial_vicreg.figures import LineLook, MethodStyle, add_legend, literal, new_figure
from radial_vicreg.names.probes import HEADLINES
from radial_vicreg.probes.registry import probe_in_words
from radial_vicreg.report.captioned import CaptionedFigure, Styles, accuracy
from radial_vicreg.report.collect import Experiment, Run, frozen_figure, radius_figure
from radial_vicreg.report.formats import number_text
from radial_vicreg.report.statistics import Correlation, pearson, spearman

_W1 = radius_figure("final", "w1_chi")
_SMALLEST, _USUAL, _LARGEST = 3.0, 5.0, 8.0
"""Marker diameters in points: for the smallest rate, where size has no meaning, and for the largest rate."""
_TRAINED = frozen_figure("trained", HEADLINES[0])
_Point = tuple[Experiment, float, float]


@dataclass(frozen=True)
class Probe:
    """The measure of accuracy in the figure.

    Attributes:
        name: file name of the figure without suffix.
        label: label of the axis.
        probe: name of the probe in the caption.
        score: function that reads the accuracy from a run.
    """

    name: str
    label: str
    probe: str
    score: Callable[[Run], float | None]


_ONLINE = Probe("figure2d", f"online {probe_in_words()} (%)", f"online {probe_in_words()}", accuracy)
FROZEN = Probe(
    "figure2d_frozen",
    f"frozen {probe_in_words()} (%)",
    f"{probe_in_words()} of the frozen, trained encoder",
    lambda run: run.figure(_TRAINED),
)


def accuracy_against_w1(experiments: Sequence[Experiment], styles: Styles, probe: Probe = _ONLINE) -> CaptionedFigure:
    """Plot one point per run of the largest set of comparable runs.

    The size of a point encodes the learning rate if a method has several.
    """
    what = f"Figure 2d: accuracy ({probe.probe}) against the distance of the radii to chi"
    families: dict[str, list[_Point]] = defaultdict(list)
    for experiment in experiments:
        for run in experiment.runs:
            w1, score = run.figure(_W1), probe.score(run)
            if w1 is not None and score is not None:
                families[experiment.setting.family].append((experiment, w1, score))
    points = max(families.values(), key=len, default=[])
    correlations = [compute([p[1] for p in points], [p[2] for p in points]) for compute in (pearson, spearman)]
    if correlations[0] is None or correlations[1] is None:
        return CaptionedFigure(probe.name, None, f"{what}: needs at least four comparable runs, found {len(points)}.")
    figure, axes = new_figure(aspect=1.0)
    axis = axes[0][0]
    sizes = _sizes([experiment for experiment, _, _ in points])
    for experiment, w1, score in sorted(points, key=lambda point: -_rate(point[0])):  # small points on top
        axis.plot(w1, score, **_look(styles[experiment.setting.key], sizes[_rate(experiment)]))
    axis.set(xlabel=r"$W_1$ of the radii to $\chi(d)$ (evaluation mode)", ylabel=probe.label)
    axis.set_title(
        f"Pearson {_interval(correlations[0])}\nSpearman {_interval(correlations[1])}\nn = {len(points)} runs"
    )
    add_legend(figure, _handles([experiment for experiment, _, _ in points], styles, sizes))
    setting = points[0][0].setting
    where = f"{setting.images}, {setting.backbone}, d {setting.dim}"
    return CaptionedFigure(
        probe.name,
        figure,
        f"{what}: {len(points)} runs on {where}; {_rates_in_words(sizes)}; 95 % intervals "
        "(Fisher; Bonett and Wright). Runs of one experiment are not independent.",
        f"Accuracy against W1, n = {len(points)} runs: Pearson {_interval(correlations[0])}, Spearman "
        f"{_interval(correlations[1])}. Means of the methods: {_means(points)}.",
    )


def _rate(experiment: Experiment) -> float:
    return float(experiment.setting.details["lr"])


def _sizes(experiments: Sequence[Experiment]) -> dict[float, float]:
    """Map each rate, largest first, to a diameter; all diameters are equal if no method has several rates.

    In that case sizes would repeat the colours and make some methods hard to see.
    """
    pairs = {(experiment.setting.key, _rate(experiment)) for experiment in experiments}
    rates = sorted({rate for _, rate in pairs}, reverse=True)
    if len(pairs) == len({key for key, _ in pairs}):
        return dict.fromkeys(rates, _USUAL)
    step = (_LARGEST - _SMALLEST) / (len(rates) - 1)
    return {rate: _LARGEST - index * step for index, rate in enumerate(rates)}


def _rates_in_words(sizes: dict[float, float]) -> str:
    if _shows_rates(sizes):
        return "larger points have a larger learning rate"
    return f"learning rate {next(iter(sizes)):g}" if len(sizes) == 1 else "each method has its own learning rate"


def _shows_rates(sizes: dict[float, float]) -> bool:
    return len(set(sizes.values())) > 1


def _look(style: MethodStyle, size: float) -> LineLook:
    return {
        "color": style.colour,
        "marker": style.marker,
        "markersize": size,
        "linestyle": "",
        "fillstyle": "none",  # a point shows through those that lie on it
        "markeredgewidth": 0.9,
    }


def _handles(experiments: Sequence[Experiment], styles: Styles, sizes: dict[float, float]) -> list[Any]:
    """Return legend handles for methods (in the tables' order) and, if sizes differ, for learning rates."""
    from matplotlib.lines import Line2D

    kinds = {experiment.setting.key: experiment.setting.kind for experiment in experiments}
    handles = [Line2D([], [], label=literal(kind), **_look(styles[key], _USUAL)) for key, kind in kinds.items()]
    grey = MethodStyle("grey", "o")
    rates = sizes if _shows_rates(sizes) else {}
    return handles + [Line2D([], [], label=f"lr {rate:g}", **_look(grey, size)) for rate, size in rates.items()]


def _means(points: Sequence[_Point]) -> str:
    """Write mean accuracy and W1 of each method: ``VICReg 38.40 % at W1 8.02``."""
    methods: dict[str, list[_Point]] = defaultdict(list)
    for point in points:
        methods[point[0].setting.kind].append(point)
    means = {kind: (fmean(p[1] for p in found), fmean(p[2] for p in found)) for kind, found in methods.items()}
    return "; ".join(f"{kind} {number_text(score)} % at W1 {number_text(w1)}" for kind, (w1, score) in means.items())


def _interval(found: Correlation) -> str:
    return f"{number_text(found.value)} [{number_text(found.low)}, {number_text(found.high)}]"
