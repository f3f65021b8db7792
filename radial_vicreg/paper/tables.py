"""The paper's tables with our values next to the paper's: rows, notes, CSV."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace

from radial_vicreg.paper.cells import Cell, Table
from radial_vicreg.report.compare import BOLD_RULE, Lead, lead
from radial_vicreg.report.formats import MISSING, Text, text_of, to_csv


@dataclass(frozen=True)
class ColumnLead:
    """The best and the runner-up of one column and block, in one metric.

    Attributes:
        block: block of the rows.
        column: heading of the column.
        metric: key of the metric.
        best: cell of the best.
        labels: methods of the best and of the runner-up.
        lead: difference between them.
    """

    block: str
    column: str
    metric: str
    best: Cell
    labels: tuple[str, str]
    lead: Lead

    def __str__(self) -> str:
        """Write one note."""
        place = ", ".join(filter(None, (self.block, self.column, self.metric)))
        return f"{place}: {self.labels[0]} minus {self.labels[1]} {self.lead.difference}"


def table_rows(table: Table) -> tuple[list[str], list[list[list[Text]]]]:
    """Return header and body of one of the paper's tables.

    Our value and the paper's stand side by side. Ours is bold if it is clearly better than the runner-up of its column
    and block (:data:`BOLD_RULE`). A missing cell shows the number of the command that fills it.
    """
    blocks = any(block for block, _, _ in table.rows)
    header = [*(["Architecture"] if blocks else []), "Method"]
    for column in table.columns:
        header += [column, f"{column}, paper"]
    missing = _missing(table)
    bold = {(id(found.best), found.metric) for found in leads(table) if found.lead.bold}
    body = []
    for block, label, cells in table.rows:
        row = [[Text(text)] for text in ([block] if blocks else []) + [label]]
        for cell in cells:
            row.append(_ours(cell, {metric for best, metric in bold if best == id(cell)}, missing))
            row.append([Text(f"{mean:.2f} ± {std:.2f}") for mean, std in cell.paper.values()])
        body.append(row)
    return header, body


def leads(table: Table) -> list[ColumnLead]:
    """Compare the best and the runner-up of every column, block and metric for which two methods have a value."""
    found = []
    for block in dict.fromkeys(block for block, _, _ in table.rows):
        rows = [(label, cells) for other, label, cells in table.rows if other == block]
        for position, column in enumerate(table.columns):
            cells = [cells[position] for _, cells in rows]
            for metric in cells[0].metrics:
                rivals: list[Mapping[Hashable, float]] = [cell.seeds.get(metric, {}) for cell in cells]
                result = lead(rivals)
                if result is not None:
                    labels = (rows[result.best][0], rows[result.second][0])
                    found.append(ColumnLead(block, column, metric, cells[result.best], labels, result))
    return found


def table_notes(table: Table) -> list[str]:
    """Return notes on missing cells, selected values, deviations and clear leads."""
    notes = list(table.notes)
    for number, (command, cells) in enumerate(_missing(table).items(), start=1):
        remarks = list(dict.fromkeys(remark for cell in cells for remark in cell.remarks))
        why = f" ({'; '.join(remarks)})" if remarks else ""
        notes.append(f"[{number}] missing{why}: `{command}`, and other seeds")
    for cell in table.cells:
        if cell.values and cell.experiment is not None:
            kinds = {"the paper": cell.differences(stated=True), "our choice": cell.differences(stated=False)}
            remarks = [f"differs from {whose}: {', '.join(found)}" for whose, found in kinds.items() if found]
            if remarks or cell.remarks:
                remarks = [*remarks, *cell.remarks]
                notes.append(
                    f"{cell.config}, {cell.features} ({cell.experiment.experiment_hash}): {'; '.join(remarks)}"
                )
    differences = leads(table)
    return [*notes, *([BOLD_RULE] if differences else []), *map(str, differences)]


def table_csv(table: Table) -> str:
    """Write one line per cell and metric, in full precision; the best of a column and block includes its lead."""
    columns = [
        *("table", "block", "method", "column", "metric", "mean", "std", "seeds", "paper_mean", "paper_std"),
        *("config", "experiment_hash", "deviations", "deviations_from_our_choice", "chosen", "chosen_from", "remarks"),
        *("command_if_missing", "bold", "runner_up", "difference", "difference_se", "difference_low"),
        *("difference_high", "difference_n", "paired"),
    ]
    best = {(id(found.best), found.metric): found for found in leads(table)}
    lines: list[list[object]] = []
    for block, label, cells in table.rows:
        for column, cell in zip(table.columns, cells, strict=True):
            for metric in cell.metrics:
                ours = cell.values.get(metric)
                place = [table.number, block, label, column, metric]
                found = [ours.mean, ours.std, ours.count] if ours else [None, None, 0]
                lines.append(
                    [
                        *(*place, *found, *cell.paper[metric], cell.config),
                        *(*_provenance(cell), None if ours else cell.command),
                        *_difference(best.get((id(cell), metric))),
                    ]
                )
    return to_csv(columns, lines)


def _provenance(cell: Cell) -> list[object]:
    return [
        cell.experiment.experiment_hash if cell.experiment else None,
        "; ".join(cell.differences(stated=True)),
        "; ".join(cell.differences(stated=False)),
        "; ".join(f"{key} {value}" for key, value in cell.chosen.items()),
        cell.candidates or None,
        "; ".join(cell.remarks),
    ]


def _difference(found: ColumnLead | None) -> list[object]:
    if found is None:
        return [False, *[None] * 7]
    difference = found.lead.difference
    return [
        *(found.lead.bold, found.labels[1], difference.value, difference.error, difference.low, difference.high),
        *("/".join(map(str, difference.counts)), difference.paired),
    ]


def _missing(table: Table) -> dict[str, list[Cell]]:
    """Group cells without a value by the command that fills them; one run can fill several."""
    found: dict[str, list[Cell]] = {}
    for cell in table.cells:
        if not cell.values:
            found.setdefault(cell.command, []).append(cell)
    return found


def _ours(cell: Cell, bold: set[str], missing: dict[str, list[Cell]]) -> list[Text]:
    if not cell.values:
        return [Text(f"{MISSING} [{list(missing).index(cell.command) + 1}]")]
    parts = [text_of(cell.values.get(metric), metric in bold) for metric in cell.metrics]
    count = max(value.count for value in cell.values.values())
    return [*parts[:-1], replace(parts[-1], suffix=f" (n {count})")]
