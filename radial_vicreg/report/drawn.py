"""What all figures of the report share."""

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
class Drawn:
    """A figure with the words under it.

    Attributes:
        name: of its files.
        figure: matplotlib's; None when the runs do not allow it.
        caption: what is seen, or what is missing.
    """

    name: str
    figure: Any
    caption: str


def accuracy(run: Run) -> float | None:
    """Look up the online linear probe in percent: top-1, or balanced accuracy of attributes."""
    return next((value for figure in _ACCURACY if (value := run.figure(figure)) is not None), None)
