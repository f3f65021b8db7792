"""Common parts of all figures of the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from radial_vicreg.figures import MethodStyle
from radial_vicreg.names.probes import HEADLINES, online_key
from radial_vicreg.report.collect import Run, probe_figure

Styles = Mapping[str, MethodStyle]
"""Styles by :attr:`~.setting.Setting.key`."""
_ACCURACY = tuple(probe_figure(online_key(), metric) for metric in HEADLINES)


@dataclass
class CaptionedFigure:
    """A figure with its caption.

    Attributes:
        name: file name without suffix.
        figure: matplotlib figure; None if the runs lack the data for it.
        caption: description of the figure, or of the missing data.
        alt: what the figure shows, with its numbers, for readers who do not see it; empty without a figure.
    """

    name: str
    figure: Any
    caption: str
    alt: str = ""


def accuracy(run: Run) -> float | None:
    """Look up the online linear probe in percent: top-1, or balanced accuracy of attributes."""
    return next((value for figure in _ACCURACY if (value := run.figure(figure)) is not None), None)
