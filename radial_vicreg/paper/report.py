"""The report with the paper's tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from radial_vicreg.figures import method_styles
from radial_vicreg.paper.cells import Table, build_tables
from radial_vicreg.paper.heat_maps import heat_maps
from radial_vicreg.paper.radius_figures import figure2, figure4
from radial_vicreg.paper.scatter import FROZEN, accuracy_against_w1
from radial_vicreg.paper.tables import table_csv, table_notes, table_rows
from radial_vicreg.paper.values import paper_rank
from radial_vicreg.report import build
from radial_vicreg.report.captioned import CaptionedFigure
from radial_vicreg.report.collect import Experiment
from radial_vicreg.report.curves import training_curves
from radial_vicreg.report.formats import Section


@dataclass
class PaperReport(build.Report):
    """A report that was written.

    Attributes:
        filled: number of cells of the paper's tables that have a value, and of all cells.
    """

    filled: tuple[int, int]


def build_report(
    runs_dir: str | Path,
    out: str | Path,
    source: str = "online",
    select: str = "paper",
    against: str | None = None,
) -> PaperReport:
    """Write the report of :func:`radial_vicreg.report.build.build_report` with tables 1 to 4 and figures 2, 4 and 5.

    Args:
        runs_dir: folder of the runs; every ``results.json`` below it is read, and no other file.
        out: folder to write.
        source: ``"online"`` or ``"offline"`` probes for the tables.
        select: ``"paper"`` (the experiment nearest to the paper's settings) or ``"best"`` (over the swept settings).
        against: experiment that all others are compared with.

    Returns:
        The report.

    Raises:
        UserError: the source or the selection is unknown, or that function raises it.
    """
    tables: list[Table] = []

    def added(experiments: Sequence[Experiment]) -> list[build.Added]:
        tables.extend(build_tables(experiments, source, select))
        return [_added(table) for table in tables]

    made = build.build_report(runs_dir, out, against, added, draw_all)
    cells = [cell for table in tables for cell in table.cells]
    filled = (sum(bool(cell.values) for cell in cells), len(cells))
    return PaperReport(made.out, made.summary, made.experiments, made.problems, filled)


def draw_all(experiments: Sequence[Experiment]) -> list[CaptionedFigure]:
    """Plot every figure, in the paper's order; the caption of a figure without data gives the reason.

    A method has the same colour and marker in all figures. Call it within :func:`radial_vicreg.figures.figure_style`.
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


def _added(table: Table) -> build.Added:
    header, body = table_rows(table)
    filled = any(cell.values for cell in table.cells)
    heading = f"Table {table.number}"
    named_by = tuple(range(header.index("Method") + 1))
    section = Section(
        f"{heading}: {table.caption}", header, body, table_notes(table), filled, heading=heading, named_by=named_by
    )
    return build.Added(f"table{table.number}", section, table.caption, table_csv(table))
