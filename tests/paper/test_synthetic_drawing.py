"""What the figures of the synthetic experiments show, and that everything stays in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from figure_checks import check_layout
from matplotlib.colors import to_hex

from radial_vicreg.figures import UNTRAINED, figure_style, method_styles, new_figure
from radial_vicreg.paper.synthetic import paper_figures
from radial_vicreg.paper.synthetic import run_figure as drawing
from radial_vicreg.paper.synthetic.run import run
from radial_vicreg.paper.synthetic.settings import SyntheticConfig

STYLES = method_styles(["vicreg", "radial_kl", "e2mc"])
ALPHAS = (0.01, 0.25, 0.5, 0.75, 0.99)
NORMAL = {"radial_kl": 0.08, "e2mc": 0.26}


def drawn(function: Callable[..., Any], *arguments: Any) -> Any:
    """Draw a figure; what every figure has to be is checked."""
    with figure_style():
        figure = function(*arguments)
        check_layout(figure)
    return figure


def numbers(diverged: int) -> dict[str, Any]:
    spread = {"runs": 4, "diverged": 0, "w2_exact": {"median": 0.4, "least": 0.3, "largest": 0.9}}
    methods = {method: {f"{alpha:g}": spread for alpha in ALPHAS} for method in paper_figures.METHODS}
    methods["radial_vcreg"] = {alpha: {**spread, "diverged": diverged} for alpha in methods["radial_vcreg"]}
    panel = {"seed": 3, "w2_exact": 0.31, "diverged": False}
    size = {"alphas": ALPHAS, "seeds": 4}
    return {"size": size, "methods": methods, "floor": 0.2, "best_of_sweep": None, "panels": [panel] * 3}


@pytest.mark.parametrize(
    ("changes", "method"), [({"beta1": 0.0, "beta2": 0.0}, "vicreg"), ({"objective": "e2mc"}, "e2mc")]
)
def test_a_run_has_the_colour_of_its_method_and_its_start_is_grey(changes: dict, method: str) -> None:
    result = run(SyntheticConfig(num_samples=60, steps=20, lr=0.01, **changes), snapshots=2, records=5)
    figure = drawn(drawing.run_figure, result)
    start, finish, _, _, _, terms = figure.axes[:6]
    assert to_hex(start.collections[0].get_facecolor()[0]).upper() == UNTRAINED.colour
    assert to_hex(finish.collections[0].get_facecolor()[0]).upper() == STYLES[method].colour
    assert {line.get_color() for line in terms.lines} == {"black"}
    assert len({str(line._unscaled_dash_pattern) for line in terms.lines}) == len(terms.lines)


def test_points_far_out_are_told_and_the_window_of_the_others_is_drawn() -> None:
    with figure_style():
        axis = new_figure()[1][0][0]
        drawing.scatter(axis, np.array([[7.0, 0.0], *[[0.0, 1.0]] * 999]) * 2, "title", UNTRAINED.colour)
        assert axis.get_title(loc="left") == "title\n1 of 1,000 outside"
        drawing.scatter(axis, np.array([[7.0, 0.0]] * 3), "title", UNTRAINED.colour)
    assert axis.get_title(loc="left") == "title\naxes to 8"
    (window,) = axis.lines
    assert set(np.abs(window.get_xydata()).ravel()) == {drawing.HALF_WIDTH}


@pytest.mark.parametrize("diverged", [0, 3])
def test_figure_1_counts_diverged_runs_and_has_one_colour_for_both_rates(diverged: int) -> None:
    clouds = [np.random.default_rng(0).normal(size=(50, 2))] * 3
    titles = ["(a) X", "(b) published weights, lr 0.05", "(b') the same, stable lr 0.0005"]
    figure = drawn(paper_figures.figure1, list(zip(titles, clouds, strict=True)), numbers(diverged))
    assert len({axis.get_xlim() for axis in figure.axes[:3]}) == 1
    assert "n = 50" in figure.axes[0].get_title(loc="left")
    panel = figure.axes[3]
    title, texts = panel.get_title(loc="left"), [text.get_text() for text in panel.texts]
    assert texts.count(f"{diverged}/4") == (len(ALPHAS) if diverged else 0)
    assert all(text.get_position()[1] < 0 for text in panel.texts)
    assert "n = 4 seeds" in title
    assert ("less those that diverged" in title) == bool(diverged)
    assert any("not in the median" in text for text in texts) == bool(diverged)
    curves = {bar.get_label(): bar.lines[0] for bar in panel.containers}
    published, stable = curves["Radial-VCReg as published"], curves["the same, stable rate"]
    assert published.get_color() == stable.get_color() == STYLES["radial_kl"].colour
    assert published.get_marker() == stable.get_marker() == STYLES["radial_kl"].marker
    assert (published.get_fillstyle(), stable.get_fillstyle()) == ("full", "none")
    assert curves["VCReg"].get_color() == STYLES["vicreg"].colour


def test_figure_3_names_its_panels_apart_and_hides_no_point() -> None:
    rng = np.random.default_rng(0)
    cloud = rng.normal(size=(60, 2))
    title = "$\\beta_1=100$, $\\beta_2=0.1$\n$\\lambda_2=25$"
    finals = [(f"(b{number}) {title}", cloud * number) for number in range(1, 7)]
    rows = [
        {"config": {"distribution": name}, "after": {"radial_kl": kl, "e2mc": kl, "w2_exact": kl}}
        for name in ("x", "sunshine")
        for kl in (0.1, 1.0, 10.0)
    ]
    figure = drawn(paper_figures.figure3, cloud, finals, rows, NORMAL)
    for panel in figure.axes[1:7]:
        (points,) = panel.collections
        circles = [line for line in panel.lines if len(line.get_xdata()) > 5]
        assert len(circles) == 2
        assert all(circle.get_zorder() < points.get_zorder() for circle in circles)
    star = figure.axes[7].collections[2]
    assert star.get_facecolor().size == 0  # hollow: runs at the same place are seen
