"""The paper's figures 2, 4 and 5, and training curves, from results alone."""

from __future__ import annotations

from collections.abc import Sequence

from radial_vicreg.figures import method_styles
from radial_vicreg.paper.heat_maps import heat_maps
from radial_vicreg.paper.radius_figures import figure2, figure4
from radial_vicreg.paper.scatter import FROZEN, accuracy_against_w1
from radial_vicreg.paper.values import paper_rank
from radial_vicreg.report.collect import Experiment
from radial_vicreg.report.curves import training_curves
from radial_vicreg.report.drawn import Drawn


def draw_all(experiments: Sequence[Experiment]) -> list[Drawn]:
    """Draw every figure, in the paper's order; those that cannot be drawn say why.

    A method has one colour and one marker in all of them. Call it within :func:`radial_vicreg.figures.figure_style`.
    """
    styles = method_styles(experiment.setting.key for experiment in experiments)
    return [
        figure2(experiments, styles),
        accuracy_against_w1(experiments, styles),
        accuracy_against_w1(experiments, styles, FROZEN),
        figure4(experiments, styles),
        heat_maps(experiments),
        training_curves(experiments, styles, paper_rank),
    ]
