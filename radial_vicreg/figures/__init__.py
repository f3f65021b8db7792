"""Figures: a common style, one colour and marker per method, and histograms of radii with the density of chi."""

from radial_vicreg.figures.methods import (
    UNTRAINED,
    MethodStyle,
    configured_method,
    method_key,
    method_label,
    method_styles,
)
from radial_vicreg.figures.radius_histograms import draw_radii, radii_figure
from radial_vicreg.figures.style import (
    SUFFIXES,
    Dashes,
    LineLook,
    add_legend,
    figure_files,
    figure_style,
    literal,
    name_panels,
    new_figure,
    save_figure,
)

__all__ = [
    "SUFFIXES",
    "UNTRAINED",
    "Dashes",
    "LineLook",
    "MethodStyle",
    "add_legend",
    "configured_method",
    "draw_radii",
    "figure_files",
    "figure_style",
    "literal",
    "method_key",
    "method_label",
    "method_styles",
    "name_panels",
    "new_figure",
    "radii_figure",
    "save_figure",
]
