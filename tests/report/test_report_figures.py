"""What the figures of the report show: names, ranges, markers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from radial_vicreg.report.collect import Experiment, collect, group
from radial_vicreg.report.curves import draw_curves
from radial_vicreg.report.drawing import draw_all
from radial_vicreg.report.naming import distinguish

KL, VICREG = "cifar100/resnet18/radialvicreg_d512", "cifar100/resnet18/vicreg_d512"


def weights(beta1: float, beta2: float) -> list[str]:
    return [f"method_kwargs.radial_{name}_loss_weight={b}" for name, b in (("ce", beta1), ("ent", beta2))]


@pytest.fixture
def experiments(tmp_path: Path) -> Callable[[], list[Experiment]]:
    return lambda: group(collect(tmp_path / "runs")[0])[0]


def drawn(experiments: list[Experiment], name: str) -> Any:
    (found,) = (figure for figure in draw_all(experiments) if figure.name == name)
    assert found.figure is not None, found.caption
    return found


def test_a_name_says_what_differs_and_nothing_else(make_run: Callable, experiments: Callable) -> None:
    make_run(VICREG)
    make_run(KL, "optimizer.batch_size=512")
    names, common = distinguish(experiments())
    assert names == ["VICReg, lr 0.03", "Radial-VICReg, lr 0.3"]
    assert common == "different but not named: batch_size"


def test_experiments_of_one_method_are_told_apart_by_their_rates(make_run: Callable, experiments: Callable) -> None:
    for rate in (0.3, 0.03):
        make_run(KL, f"optimizer.lr={rate}")
    names, common = distinguish(experiments())
    assert sorted(names) == ["lr 0.03", "lr 0.3"]
    assert common == "Radial-VICReg"


def test_experiments_that_no_setting_tells_apart_have_their_hash(make_run: Callable, experiments: Callable) -> None:
    make_run(KL)
    make_run(KL, "scheduler.warmup_epochs=3")
    found = experiments()
    names, _ = distinguish(found)
    assert names == [f"Radial-VICReg (β1 100, β2 0) [{e.experiment_hash[:7]}]" for e in found]


def test_a_legend_of_long_names_stays_inside_the_figure(make_run: Callable, experiments: Callable) -> None:
    for rate in (0.3, 0.03):
        make_run(VICREG, f"optimizer.lr={rate}", epochs=2)
        for beta1 in (0.001, 1234):
            extra = ["method_kwargs.e2mc_loss_weight=0.12345", f"method_kwargs.radial_center={str(rate > 0.1).lower()}"]
            make_run(KL, *weights(beta1, 0.25), *extra, f"optimizer.lr={rate}", epochs=2)
    figure, _ = draw_curves(experiments())
    figure.canvas.draw()
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert box.x0 >= 0
    assert box.y0 >= 0
    assert box.x1 <= figure.bbox.width
    texts = [text.get_text() for text in legend.get_texts()]
    assert len(texts) == len(set(texts)) == 6
    for axis in figure.axes:
        assert axis.get_tightbbox().y0 >= box.y1 - 1  # the panels stand above it
        assert axis.get_tightbbox().x0 >= 0


def test_the_panels_of_figure_2_share_their_range(make_run: Callable, experiments: Callable) -> None:
    make_run(VICREG, w1=8.0)
    make_run(KL, w1=0.5)
    axes = drawn(experiments(), "figure2").figure.axes
    assert len(axes) == 3
    assert len({axis.get_xlim() for axis in axes}) == 1
    low, high = axes[0].get_xlim()
    assert low < 512**0.5 - 18  # the untrained network's smallest radius
    assert high > 25  # chi(512) ends there


def test_figure_2d_tells_learning_rates_apart(make_run: Callable, experiments: Callable) -> None:
    for rate in (0.3, 0.03):
        for beta1 in (1, 100):
            make_run(KL, *weights(beta1, 0), f"optimizer.lr={rate}", w1=beta1 * rate, top1=60 + rate + beta1 / 9)
    figure = drawn(experiments(), "figure2d").figure
    (axis,) = figure.axes
    shapes = {len(points.get_paths()[0].vertices) for points in axis.collections}
    assert len(shapes) == 2
    assert [text.get_text() for text in figure.legends[1].get_texts()] == ["0.3", "0.03"]


def test_the_curves_of_celeba_show_balanced_accuracy(make_run: Callable, experiments: Callable) -> None:
    history = [{"epoch": e, "train_vicreg_loss": 1.0, "val_balanced_accuracy": 60.0 + e} for e in (1, 2)]
    make_run("celeba/resnet18/vicreg_d512", history=history)
    axis = drawn(experiments(), "curves").figure.axes[1]
    assert "balanced" in axis.get_ylabel()
    assert list(axis.lines[0].get_ydata()) == [61.0, 62.0]


def test_heat_maps_of_both_readings_of_the_cross_entropy_say_which_they_are(
    make_run: Callable, experiments: Callable
) -> None:
    for flag in ("true", "false"):
        for beta1 in (1, 10):
            for beta2 in (0, 0.5):
                make_run(KL, *weights(beta1, beta2), f"method_kwargs.radial_ce_normalize={flag}", top1=60 + beta1)
    titles = [axis.get_title() for axis in drawn(experiments(), "figure5").figure.axes if axis.get_title()]
    assert sorted(title.splitlines()[1] for title in titles) == ["ce_normalize False", "ce_normalize True"]
