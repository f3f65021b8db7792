"""The figure of several sources."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import matplotlib.text
import numpy as np
import pytest
from matplotlib.colors import to_hex

from radial_vicreg.figures import UNTRAINED, figure_style, method_styles
from radial_vicreg.gaussianity import references
from radial_vicreg.gaussianity.figure import diagnose_figure
from radial_vicreg.gaussianity.measure import diagnose
from radial_vicreg.gaussianity.settings import Settings


@pytest.fixture(autouse=True)
def _style() -> Iterator[None]:
    with figure_style():
        yield


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    arrays = {
        "normal": rng.normal(size=(60, 6)),
        "shifted": rng.normal(size=(60, 6)) + 9,
        "small": rng.normal(size=(2, 3)),
    }
    folder = tmp_path_factory.mktemp("matrices")
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(references, "_FULL_UP_TO", 0)  # few normal samples, which take most of the time
        patch.setattr(references, "_SECONDS", 0)
        found = diagnose([str(folder / f"{name}.npy") for name in arrays], Settings())
    references.normal_reference.cache_clear()
    return found


@pytest.fixture
def content(measured: dict[str, Any]) -> dict[str, Any]:
    """What was measured, to be changed at will."""
    return copy.deepcopy(measured)


def test_a_row_an_output_has_a_line_for_each_source_and_each_normal_sample(content: dict[str, Any]) -> None:
    content["sources"][0]["outputs"]["encoder"] = content["sources"][0]["outputs"]["embeddings"]
    content["sources"][0]["label"] = "$\\nosuch$"  # labels are no mathematics
    figure = diagnose_figure(content)
    rows = np.reshape(figure.axes, (-1, 3))
    assert [row[0].get_title("left") for row in rows] == ["(a) embeddings, raw", "(d) encoder, standardised"]
    assert [len(panel.lines) for panel in rows[0]] == [2, 5, 5]  # chi(3) and chi(6); 3 sources, 2 sizes
    assert [len(panel.lines) for panel in rows[1]] == [1, 2, 2]
    assert [len(panel.collections) for panel in rows[0]] == [2, 2, 2]  # densities and bands of both sizes
    assert rows[0][0].patches[1].get_data().edges[0] > 15  # not standardised

    figure.canvas.draw()
    texts = [text for text in figure.findobj(matplotlib.text.Text) if text.get_text()]
    assert {text.get_fontsize() for text in texts} <= {8.0, 8.0 * 0.7}  # exponents
    legend = figure.legends[0]
    assert all(not legend.get_window_extent().overlaps(axis.get_window_extent()) for axis in figure.axes)
    assert [text.get_text() for text in legend.get_texts()][:3] == [r"\$\nosuch\$", "shifted", "small"]


def test_runs_have_colour_and_name_of_their_method_and_equal_colours_other_dashes(content: dict[str, Any]) -> None:
    source = content["sources"][0]
    vicreg = {"kind": "run", "method": "vicreg"}
    details = {
        "untrained": {**vicreg, "untrained": True},
        "vicreg 1": vicreg,
        "radialvicreg": {"kind": "run", "method": "radial_kl"},
        "vicreg 2": vicreg,
        "normal": {"kind": "npy"},
        "other": {"kind": "npy"},
    }
    content["sources"] = [{**source, "label": label, "details": of} for label, of in details.items()]
    figure = diagnose_figure(content)
    named = [text.get_text() for text in figure.legends[0].get_texts()]
    assert named[:6] == ["untrained", "VICReg 1", "Radial-VICReg", "VICReg 2", "normal", "other"]
    drawn = [(to_hex(patch.get_edgecolor()).upper(), patch.get_linestyle()) for patch in figure.axes[0].patches]
    styles = method_styles(["vicreg", "radial_kl"])
    known = [UNTRAINED.colour, styles["vicreg"].colour, styles["radial_kl"].colour, styles["vicreg"].colour]
    assert [colour for colour, _ in drawn[:4]] == known
    assert not {colour for colour, _ in drawn[4:]} & set(known)
    assert len({str(style) for style in drawn}) == 6
