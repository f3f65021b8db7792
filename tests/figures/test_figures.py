"""Figures: their style, their files, and the colour and marker of a method."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from figure_checks import check_files, check_layout
from matplotlib import rc_context, rcParams
from matplotlib.colors import to_rgb

from radial_vicreg.figures import (
    UNTRAINED,
    draw_radii,
    figure_style,
    method_key,
    method_label,
    method_styles,
    new_figure,
    radii_figure,
    save_figure,
)
from radial_vicreg.figures.methods import KNOWN
from radial_vicreg.names.terms import RADIAL_OBJECTIVES


def test_radii_are_drawn_as_png_pdf_and_svg_the_same_each_time(tmp_path: Path) -> None:
    panels = [("all equal", torch.full((50,), 2.0))]
    files = draw_radii(panels, 16, tmp_path / "radii")
    assert [file.name for file in files] == ["radii.png", "radii.pdf", "radii.svg"]
    check_files(tmp_path / "radii")
    for one, other in zip(files, draw_radii(panels, 16, tmp_path / "again" / "radii"), strict=True):
        assert one.read_bytes() == other.read_bytes(), one.suffix


def test_panels_of_radii_share_both_ranges_and_tell_of_a_bar_that_is_cut_off() -> None:
    panels = [("before", torch.linspace(2, 2.01, 50)), ("after", torch.randn(500, 16).norm(dim=1))]
    with figure_style():
        figure = radii_figure(panels, 16, [UNTRAINED, KNOWN["radial_kl"]])
        check_layout(figure)
    before, after = figure.axes
    assert before.get_xlim() == after.get_xlim()
    assert before.get_ylim() == after.get_ylim()
    (told,) = before.texts
    tallest = before.patches[0].get_data().values.max()
    assert tallest > before.get_ylim()[1]
    assert told.get_text() == rf"$\uparrow$ {tallest:.3g}"
    assert not after.texts


def test_the_style_has_its_widths_and_text_whatever_the_user_s_own_settings() -> None:
    with rc_context({"font.size": 30, "figure.figsize": (1, 1), "axes.titlesize": 50}):
        with figure_style():
            figures = [new_figure(wide=wide)[0] for wide in (False, True)]
            assert tuple(figure.get_figwidth() for figure in figures) == (3.25, 6.75)
            figures[0].axes[0].set(title="title", xlabel="x", ylabel="y")
            check_layout(figures[0], 8)
        assert rcParams["font.size"] == 30


def test_a_figure_that_cannot_be_written_leaves_the_older_file_whole(tmp_path: Path) -> None:
    save_figure(new_figure()[0], tmp_path / "figure")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    broken, axes = new_figure()
    axes[0][0].set_title("$\\nosuchsymbol$")
    with pytest.raises(ValueError, match="nosuchsymbol"):
        save_figure(broken, tmp_path / "figure")
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_every_objective_has_a_style_of_its_own_whatever_else_is_drawn() -> None:
    keys = {method_key(objective) for objective in RADIAL_OBJECTIVES} | {method_key("kl", centred=True)}
    keys |= {method_key("kl", mean=True), method_key("none", mean=True)}
    keys |= {method_key("none", e2mc=True), method_key("lejepa"), method_key("visreg"), method_key("barlow")}
    assert keys >= set(KNOWN)  # a new objective has a style that its name decides
    assert method_key("kl", e2mc=True) not in KNOWN  # a mixture gets one by its name
    assert len(set(method_styles(keys).values())) == len(keys)
    alone = method_styles(["mine"])["mine"]
    assert method_styles([*KNOWN, "mine"]) == {**KNOWN, "mine": alone}
    assert alone not in KNOWN.values()


def test_markers_alone_tell_methods_apart_and_common_ones_differ_in_grey() -> None:
    assert len({style.marker for style in (UNTRAINED, *KNOWN.values())}) == len(KNOWN) + 1
    common = [KNOWN[key] for key in ("vicreg", "radial_kl", "radial_wasserstein", "radial_kl_centred")]
    for one, other in itertools.combinations(common, 2):
        assert abs(lightness(one.colour) - lightness(other.colour)) > 9


def test_colours_stand_out_from_white() -> None:
    drawn = {**{key: style.colour for key, style in KNOWN.items()}, "untrained": UNTRAINED.colour}
    drawn |= {name: style.colour for name, style in method_styles(f"method {index}" for index in range(28)).items()}
    faint = {name: round(contrast_to_white(colour), 2) for name, colour in drawn.items()}
    assert not {name: ratio for name, ratio in faint.items() if ratio < 3}  # WCAG 2.2, 1.4.11


@pytest.mark.parametrize("sight", ["normal", "deuteranopia", "protanopia"])
def test_every_two_colours_differ_for_colour_blind_readers_too(sight: str) -> None:
    colours = {**{key: style.colour for key, style in KNOWN.items()}, "untrained": UNTRAINED.colour}
    seen = {name: lab(SIGHT[sight] @ linear(colour)) for name, colour in colours.items()}
    near = {
        (one, other): round(float(distance), 1)
        for one, other in itertools.combinations(seen, 2)
        if (distance := np.linalg.norm(seen[one] - seen[other])) < 15
    }
    assert not near


def test_the_documentation_names_the_colours_and_markers_of_the_code() -> None:
    page = (Path(__file__).parents[2] / "docs" / "report.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+?) \| [^|]+ \| `(#[0-9A-F]{6})`, `(.)` \|$", page, flags=re.MULTILINE)
    styles = {**{method_label(key): style for key, style in KNOWN.items()}, "before training": UNTRAINED}
    assert sorted(rows) == sorted((name, style.colour, style.marker) for name, style in styles.items())


def test_many_methods_that_are_not_known_differ_from_one_another_also_in_grey() -> None:
    styles = method_styles([f"method {index}" for index in range(28)] + list(KNOWN))
    assert len(set(styles.values())) == 28 + len(KNOWN)
    for one, other in itertools.combinations(styles.values(), 2):
        assert one.marker != other.marker or abs(lightness(one.colour) - lightness(other.colour)) > 2.5
    assert len(method_styles([f"method {index}" for index in range(40)])) == 40  # more than styles


TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])  # of linear sRGB
WHITE = TO_XYZ.sum(axis=1)
#: Of linear sRGB: Machado, Oliveira and Fernandes (2009), severity 1.
SIGHT = {
    "normal": np.eye(3),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
}


def linear(colour: str) -> np.ndarray:
    """Linear sRGB."""
    found = np.array(to_rgb(colour))
    return np.where(found <= 0.04045, found / 12.92, ((found + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIELAB of linear sRGB."""
    share = TO_XYZ @ rgb.clip(0, 1) / WHITE
    x, y, z = np.where(share > (6 / 29) ** 3, np.cbrt(share), share / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast_to_white(colour: str) -> float:
    """WCAG's contrast ratio, 1 to 21."""
    return 1.05 / (float(TO_XYZ[1] @ linear(colour)) + 0.05)


def lightness(colour: str) -> float:
    """CIE L*, 0 to 100: what is left of a colour in grey."""
    return float(lab(linear(colour))[0])
