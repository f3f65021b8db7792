"""The figure of several sources."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.text
import numpy as np
import pytest
from matplotlib.colors import to_hex

from radial_vicreg.figures import UNTRAINED, figure_style, method_styles
from radial_vicreg.gaussianity.figure import diagnose_figure
from radial_vicreg.gaussianity.measure import diagnose
from radial_vicreg.gaussianity.settings import Settings


@pytest.fixture(autouse=True)
def _style() -> Iterator[None]:
    with figure_style():
        yield


@pytest.fixture
def content(tmp_path: Path) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    arrays = {
        "normal": rng.normal(size=(60, 6)),
        "shifted": rng.normal(size=(60, 6)) + 9,
        "small": rng.normal(size=(2, 3)),
    }
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    return diagnose([str(tmp_path / f"{name}.npy") for name in arrays], Settings())


def test_a_row_an_output_has_a_line_for_each_source_and_each_normal_sample(content: dict[str, Any]) -> None:
    content["sources"][0]["outputs"]["encoder"] = content["sources"][0]["outputs"]["embeddings"]
    figure = diagnose_figure(content)
    rows = np.reshape(figure.axes, (-1, 3))
    assert [row[0].get_title("left") for row in rows] == ["(a) embeddings, raw", "(d) encoder, standardised"]
    assert [len(panel.lines) for panel in rows[0]] == [2, 5, 5]  # chi(3) and chi(6); 3 sources, 2 sizes
    assert [len(panel.lines) for panel in rows[1]] == [1, 2, 2]
    assert [len(panel.collections) for panel in rows[0]] == [2, 2, 2]  # densities and bands of both sizes
    shifted = rows[0][0].patches[1].get_data()
    assert shifted.edges[0] > 15  # not standardised


def test_every_text_has_8_points_and_the_legend_is_outside(content: dict[str, Any]) -> None:
    figure = diagnose_figure(content)
    figure.canvas.draw()
    texts = [text for text in figure.findobj(matplotlib.text.Text) if text.get_text()]
    legend = figure.legends[0].get_window_extent()
    assert {text.get_fontsize() for text in texts} <= {8.0, 8.0 * 0.7}  # exponents
    assert all(not legend.overlaps(axis.get_window_extent()) for axis in figure.axes)
    assert [text.get_text() for text in figure.legends[0].get_texts()][:3] == ["normal", "shifted", "small"]


def test_labels_are_no_mathematics(content: dict[str, Any]) -> None:
    content["sources"][0]["label"] = "$\\nosuch$"
    figure = diagnose_figure(content)
    figure.canvas.draw()
    assert figure.legends[0].get_texts()[0].get_text() == r"\$\nosuch\$"


def test_runs_have_the_colour_of_their_method_and_equal_colours_other_dashes(content: dict[str, Any]) -> None:
    first, second, other = content["sources"]
    vicreg = {"kind": "run", "method": "vicreg"}
    details = [{**vicreg, "untrained": True}, vicreg, {"kind": "npy"}, {"kind": "npy"}, {"kind": "npy"}, vicreg]
    content["sources"] = [
        {**source, "details": of}
        for source, of in zip([first, second, other, first, second, second], details, strict=True)
    ]
    drawn = [
        (to_hex(patch.get_edgecolor()).upper(), patch.get_linestyle())
        for patch in diagnose_figure(content).axes[0].patches
    ]
    colour = method_styles(["vicreg"])["vicreg"].colour
    assert [of for of, _ in drawn[:2]] == [UNTRAINED.colour, colour]
    assert drawn[5][0] == colour
    assert not {of for of, _ in drawn[2:5]} & {UNTRAINED.colour, colour}
    assert len({str(style) for style in drawn}) == 6


def test_the_legend_names_the_methods_of_runs(content: dict[str, Any]) -> None:
    first = content["sources"][0]
    methods = [{"method": "vicreg", "untrained": True}, {"method": "vicreg"}, {"method": "radial_kl"}]
    details = [*methods, {"method": "vicreg"}, {"kind": "matrix"}]
    labels = ["untrained", "vicreg 1", "radialvicreg", "vicreg 2", "normal"]
    content["sources"] = [{**first, "label": label, "details": of} for label, of in zip(labels, details, strict=True)]
    named = [text.get_text() for text in diagnose_figure(content).legends[0].get_texts()]
    assert named[:5] == ["untrained", "VICReg 1", "Radial-VICReg", "VICReg 2", "normal"]
