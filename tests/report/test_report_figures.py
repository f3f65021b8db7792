"""What the figures of the report show: names, ranges, colours, markers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from figure_checks import check_layout
from matplotlib.colors import to_hex
from matplotlib.text import Text

from radial_vicreg.figures import UNTRAINED, figure_style, method_styles
from radial_vicreg.figures.methods import KNOWN
from radial_vicreg.paper.report import draw_all
from radial_vicreg.paper.scatter import accuracy_against_w1
from radial_vicreg.report.collect import Experiment
from radial_vicreg.report.curves import draw_curves
from radial_vicreg.report.naming import distinguish

KL, VICREG = "cifar100/resnet18/radialvicreg_d512", "cifar100/resnet18/vicreg_d512"


def weights(beta1: float, beta2: float) -> list[str]:
    return [f"method_kwargs.radial_{name}_loss_weight={b}" for name, b in (("ce", beta1), ("ent", beta2))]


def drawn(experiments: list[Experiment], *names: str) -> list[Any]:
    """Draw figures in the style of papers; what every figure has to be is checked."""
    with figure_style():
        figures = {figure.name: figure for figure in draw_all(experiments)}
        for name in names:
            assert figures[name].figure is not None, figures[name].caption
            check_layout(figures[name].figure)
    return [figures[name] for name in names]


def test_a_name_says_what_differs_and_nothing_else(make_run: Callable, experiments: Callable) -> None:
    make_run(VICREG)
    make_run(KL, "optimizer.batch_size=512")
    names, common = distinguish(experiments())
    assert names == ["VICReg, lr 0.03", "Radial-VICReg, lr 0.3"]
    assert common == "different, but without a name: batch_size"


def test_one_method_s_experiments_differ_by_rate_or_hash(make_run: Callable, experiments: Callable) -> None:
    make_run(KL)
    make_run(KL, "optimizer.lr=0.03")
    names, common = distinguish(experiments())
    assert sorted(names) == ["lr 0.03", "lr 0.3"]
    assert common == "Radial-VICReg"
    make_run(KL, "scheduler.warmup_epochs=3")
    same = [experiment for experiment in experiments() if experiment.setting.details["lr"] == 0.3]
    names, _ = distinguish(same)
    assert names == [f"Radial-VICReg (β1 100, β2 0) [{each.experiment_hash[:7]}]" for each in same]


def test_a_legend_of_long_names_stays_inside_the_figure(make_run: Callable, experiments: Callable) -> None:
    for rate in (0.3, 0.03):
        make_run(VICREG, f"optimizer.lr={rate}", epochs=2)
        for beta1 in (0.001, 1234):
            extra = ["method_kwargs.e2mc_loss_weight=0.12345", f"method_kwargs.radial_center={str(rate > 0.1).lower()}"]
            make_run(KL, *weights(beta1, 0.25), *extra, f"optimizer.lr={rate}", epochs=2)
    found = experiments()
    with figure_style():
        figure, _ = draw_curves(found, method_styles(experiment.setting.key for experiment in found))
        check_layout(figure)
    (legend,) = figure.legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert len(texts) == len(set(texts)) == 6


#: Of methods: names that a file may have, which a configuration asks for.
STRANGE_NAMES = ("$_{$", "5 $ for", "$x^2$", "$^$", "long " * 60)


@pytest.mark.slow
def test_names_are_no_mathematics(make_run: Callable, experiments: Callable) -> None:
    strange = "$\\nosuch$"
    for objective in ("none", "wasserstein"):
        edit(make_run(KL, f"method_kwargs.radial_objective={objective}", epochs=2), strange, {})
    for beta1, beta2 in ((1, 0), (1, 1), (2, 0), (2, 1)):
        edit(make_run(KL, *weights(beta1, beta2), w1=beta1, top1=beta2, epochs=2), strange, {})
    for place, name in enumerate(STRANGE_NAMES):
        settings = {"loss": {"_target_": f"mine.Loss{place}"}, "method": name}
        edit(make_run(KL, epochs=2, top1=3 * place % 5, w1=place + 1), "a", settings)
    found = experiments()
    methods = [experiment for experiment in found if experiment.setting.dataset == "a"]
    with figure_style():
        drawn = {each.name: each.figure for each in draw_all(found)}
        styles = method_styles(experiment.setting.key for experiment in found)
        drawn["curves of methods"] = draw_curves(methods, styles)[0]
        points = accuracy_against_w1(methods, styles)
        assert points.figure is not None, points.caption
        drawn["points of methods"] = points.figure
        del drawn["figure2d_frozen"]  # of other figures, drawn as figure2d is
        for name, figure in drawn.items():
            assert figure is not None, name
            figure.canvas.draw()
    methods_name = r"\$_{\$"
    shown = {"figure5": r"\$\nosuch\$", "curves of methods": methods_name, "points of methods": methods_name}
    for name, expected in shown.items():
        texts = [text.get_text() for text in drawn[name].findobj(Text)]
        assert any(expected in text for text in texts), (name, texts)


def edit(file: Path, name: str, changes: dict[str, Any]) -> None:
    """Give a run a data set and a network of that name, and other settings."""
    content = json.loads(file.read_text())
    config = content["config"]
    config["data"]["name"] = config["backbone"]["name"] = name
    file.write_text(json.dumps({**content, "config": {**config, **changes}}))


def test_figure_2d_shows_rates_by_size_and_hides_no_point(make_run: Callable, experiments: Callable) -> None:
    for rate in (0.3, 0.03):
        for beta1 in (1, 100):
            make_run(KL, *weights(beta1, 0), f"optimizer.lr={rate}", w1=beta1 * rate, top1=60 + rate + beta1 / 9)
    figure = drawn(experiments(), "figure2d")[0].figure
    (axis,) = figure.axes
    points = {float(line.get_xdata()[0]): line for line in axis.lines}
    assert points[30.0].get_markersize() == points[0.3].get_markersize() > points[0.03].get_markersize()
    assert {(line.get_color(), line.get_marker()) for line in axis.lines} == {style_of("radial_kl")}
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["Radial-VICReg", "lr 0.3", "lr 0.03"]
    assert {line.get_fillstyle() for line in (*axis.lines, *legend.legend_handles)} == {"none"}
    assert "n = 4 runs" in axis.get_title(loc="left")


def test_the_text_for_readers_who_see_no_figure_holds_its_result(make_run: Callable, experiments: Callable) -> None:
    for place, name in enumerate((VICREG, KL) * 2):
        make_run(name, seed=place, w1=8.0 - 7 * (place % 2), top1=60 - place, epochs=2)
    for beta1 in (1, 10):
        for beta2 in (0, 0.5):
            make_run(KL, *weights(beta1, beta2), "data.name=grid", top1=50 + beta1 + beta2)
    with figure_style():
        told = {figure.name: figure.alt for figure in draw_all(experiments())}
    assert told["figure2"] == (
        "Histograms of radii. W1 to chi(512): before training 17.00, VICReg 8.00, Radial-VICReg 1.00."
    )
    means = "Means of the methods: VICReg 59.00 % at W1 8.00; Radial-VICReg 58.00 % at W1 1.00."
    assert told["figure2d"].startswith("Accuracy against W1, n = 4 runs: Pearson ")
    assert told["figure2d"].endswith(means)
    assert "highest 60.5 % at beta1 10, beta2 0.5; lowest 51.0 % at beta1 1, beta2 0" in told["figure5"]
    assert (
        "VICReg, lr 0.03: loss, VICReg's terms 8.00, linear probe (%) 59.00, W1 to chi (batch) 8.00" in told["curves"]
    )
    assert told["figure4"] == ""  # there is no such figure


def test_a_method_has_one_colour_and_marker_in_every_figure(make_run: Callable, experiments: Callable) -> None:
    runs = {"vicreg": VICREG, "radial_kl": KL, "radial_wasserstein": "cifar100/resnet18/radialvicreg_w1_d512"}
    for index, name in enumerate(runs.values()):
        make_run(name, w1=index + 0.5, top1=60 + index, epochs=3)
    make_run(KL, "optimizer.lr=0.03", w1=0.7, top1=61, epochs=3)
    figures = drawn(experiments(), "figure2", "figure4", "figure2d", "curves")
    histograms, panels, points, curves = (found.figure.axes for found in figures)
    assert fill_of(histograms[0]) == UNTRAINED.colour
    assert [fill_of(axis) for axis in histograms[1:]] == [KNOWN[key].colour for key in ("vicreg", "radial_kl")]
    order = ("radial_wasserstein", "radial_kl", "vicreg")
    assert [fill_of(axis) for axis in panels] == [KNOWN[key].colour for key in order]
    assert {float(p.get_xdata()[0]): (p.get_color(), p.get_marker()) for p in points[0].lines} == {
        0.5: style_of("vicreg"),
        1.5: style_of("radial_kl"),
        0.7: style_of("radial_kl"),
        2.5: style_of("radial_wasserstein"),
    }
    for axis in curves:
        lines = [(line.get_color(), line.get_marker()) for line in axis.lines]
        assert sorted(lines) == sorted([style_of(key) for key in (*runs, "radial_kl")])
        looks = {(line.get_color(), line.get_linestyle(), line.get_fillstyle()) for line in axis.lines}
        assert len(looks) == 4  # two runs of one method differ in their dashes


def test_figure_2_has_one_range_and_the_papers_values(make_run: Callable, experiments: Callable) -> None:
    make_run(VICREG, w1=8.0)
    make_run(KL, w1=0.5)
    (found,) = drawn(experiments(), "figure2")
    axes = found.figure.axes
    assert len({axis.get_xlim() for axis in axes}) == len({axis.get_ylim() for axis in axes}) == 1
    low, high = axes[0].get_xlim()
    assert low < 512**0.5 - 18  # the untrained network's smallest radius
    assert high > 25  # chi(512) ends there
    assert [title.count("(paper: ") for title in titles(found.figure)] == [1, 1, 1]
    assert "the paper's values" in found.caption


@pytest.mark.parametrize(
    "other",
    [["data.dataset=custom", "data.name=mine", "data.train_path=mine/train"], ["method_kwargs.proj_output_dim=256"]],
    ids=["other images", "another d"],
)
def test_elsewhere_the_papers_values_are_not_drawn(make_run: Callable, experiments: Callable, other: list[str]) -> None:
    make_run(VICREG, *other, w1=8.0)
    make_run(KL, *other, w1=0.5)
    (found,) = drawn(experiments(), "figure2")
    assert not any("paper" in title for title in titles(found.figure))
    assert "the paper's values" not in found.caption


def test_the_curves_of_celeba_show_balanced_accuracy(make_run: Callable, experiments: Callable) -> None:
    history = [{"epoch": e, "train_vicreg_loss": 1.0, "val_balanced_accuracy": 60.0 + e} for e in (1, 2)]
    make_run("celeba/resnet18/vicreg_d512", history=history)
    axis = drawn(experiments(), "curves")[0].figure.axes[1]
    assert "balanced" in axis.get_title(loc="left")
    assert list(axis.lines[0].get_ydata()) == [61.0, 62.0]


def test_heat_maps_share_colours_and_name_their_reading(make_run: Callable, experiments: Callable) -> None:
    for flag, top1 in (("true", 60), ("false", 40)):
        for beta1 in (1, 10):
            for beta2 in (0, 0.5):
                made = f"method_kwargs.radial_ce_normalize={flag}"
                make_run(KL, *weights(beta1, beta2), made, top1=top1 + beta1)
    figure = drawn(experiments(), "figure5")[0].figure
    assert sorted(title.splitlines()[2] for title in titles(figure)) == ["ce_normalize False", "ce_normalize True"]
    assert all("n = 1" in title for title in titles(figure))
    assert [axis.images[0].get_clim() for axis in figure.axes if axis.images] == [(41.0, 70.0)] * 2


def titles(figure: Any) -> list[str]:
    return [axis.get_title(loc="left") for axis in figure.axes if axis.get_title(loc="left")]


def style_of(key: str) -> tuple[str, str]:
    return KNOWN[key].colour, KNOWN[key].marker


def fill_of(axis: Any) -> str:
    (histogram,) = axis.patches
    return to_hex(histogram.get_facecolor()).upper()
