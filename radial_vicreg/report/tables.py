"""Tables as Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from radial_vicreg.report.cells import Cell, Table
from radial_vicreg.report.collect import Experiment
from radial_vicreg.report.statistics import Summary, summarise

MISSING = "—"
_ROUNDED = 2  # decimals shown, and compared when the best is marked
_EXPERIMENT_FIGURES = {
    "linear (%)": (("probes", "online_linear", "top1"), max),
    "balanced acc. (%)": (("probes", "online_linear", "balanced_accuracy"), max),
    "projector (%)": (("probes", "online_projector_linear", "top1"), max),
    "MLP (%)": (("probes", "online_mlp", "top1"), max),
    "kNN 20 (%)": (("probes", "online_knn20", "top1"), max),
    "offline linear (%)": (("probes", "offline_linear_encoder", "top1"), max),
    "W1 before": (("radii", "initial", "eval", "w1_chi"), None),
    "W1 after": (("radii", "final", "eval", "w1_chi"), min),
    "norm of mean z": (("radii", "final", "eval", "embedding_mean_norm"), None),
}


@dataclass(frozen=True)
class Text:
    """A cell's text; ``bold`` marks the best of its column, ``suffix`` follows in plain type."""

    text: str
    bold: bool = False
    suffix: str = ""


Row = Sequence[Sequence[Text]]
"""One row: cells, each of parts that are joined with " / "."""


def table_rows(table: Table) -> tuple[list[str], list[list[list[Text]]]]:
    """Header and body of one of the paper's tables.

    Ours and the paper's value side by side; ours is bold where its mean is the best of its column and block, to the
    decimals shown. A missing cell carries the number of its command.
    """
    blocks = any(block for block, _, _ in table.rows)
    header = [*(["Architecture"] if blocks else []), "Method"]
    for column in table.columns:
        header += [column, f"{column}, paper"]
    missing = _missing(table)
    body = []
    for block, label, cells in table.rows:
        row = [[Text(text)] for text in ([block] if blocks else []) + [label]]
        for position, cell in enumerate(cells):
            rivals = [others[position] for other, _, others in table.rows if other == block]
            row.append(_ours(cell, rivals, missing))
            row.append([Text(f"{mean:.2f} ± {std:.2f}") for mean, std in cell.paper.values()])
        body.append(row)
    return header, body


def table_notes(table: Table) -> list[str]:
    """What a reader must know of the cells: commands for the missing ones, deviations, what was not used."""
    notes = []
    for number, (command, cells) in enumerate(_missing(table).items(), start=1):
        remarks = list(dict.fromkeys(remark for cell in cells for remark in cell.remarks))
        why = f" ({'; '.join(remarks)})" if remarks else ""
        notes.append(f"[{number}] missing{why}: `{command}`, and other seeds")
    for cell in table.cells:
        if cell.values and cell.experiment is not None:
            remarks = [f"differs from the paper: {', '.join(cell.deviations)}"] if cell.deviations else []
            remarks += cell.remarks
            if remarks:
                notes.append(
                    f"{cell.config}, {cell.features} ({cell.experiment.experiment_hash}): {'; '.join(remarks)}"
                )
    return notes


def experiment_rows(experiments: Sequence[Experiment]) -> tuple[list[str], list[list[list[Text]]]]:
    """Header and body of the list of all experiments; best of each family of comparable ones in bold."""
    figures = {
        name: [summarise(experiment.values(*keys)) for experiment in experiments]
        for name, (keys, _) in _EXPERIMENT_FIGURES.items()
    }
    shown = {name: values for name, values in figures.items() if any(values)}
    header = ["Images", "Backbone", "d", "Method", "lr", "Epochs", "n", *shown, "Experiment"]
    families = [experiment.setting.family for experiment in experiments]
    body = []
    for index, experiment in enumerate(experiments):
        setting = experiment.setting
        plain = [setting.images, setting.backbone, setting.dim, setting.label, setting.details["lr"]]
        plain += [setting.details["max_epochs"], len(experiment.runs)]
        row = [[Text(str(value))] for value in plain]
        for name, values in shown.items():
            rivals = [
                value.mean for value, family in zip(values, families, strict=True) if value and family == setting.family
            ]
            row.append([_text(values[index], rivals, _EXPERIMENT_FIGURES[name][1])])
        body.append([*row, [Text(experiment.experiment_hash)]])
    return header, body


def to_markdown(header: Sequence[str], body: Sequence[Row]) -> str:
    """A pipe table."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    rows = [
        [" / ".join((f"**{t.text}**" if t.bold else t.text) + t.suffix for t in cell) for cell in row] for row in body
    ]
    return "\n".join([line(header), line(["---"] * len(header)), *map(line, rows)]) + "\n"


def to_latex(header: Sequence[str], body: Sequence[Row], caption: str, label: str) -> str:
    """A floating table with booktabs rules."""

    def line(cells: Sequence[str]) -> str:
        return " & ".join(cells) + r" \\"

    rows = [
        [
            " / ".join((rf"\textbf{{{_latex(t.text)}}}" if t.bold else _latex(t.text)) + t.suffix for t in cell)
            for cell in row
        ]
        for row in body
    ]
    lines = [
        "% needs \\usepackage{booktabs}",
        r"\begin{table}[ht]",
        r"  \centering",
        rf"  \caption{{{_latex(caption)}}}",
        rf"  \label{{{label}}}",
        rf"  \begin{{tabular}}{{{'l' * len(header)}}}",
        r"    \toprule",
        "    " + line([_latex(name) for name in header]),
        r"    \midrule",
        *("    " + line(row) for row in rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def table_csv(table: Table) -> str:
    """One line a cell and metric, full precision."""
    columns = [
        *("table", "block", "method", "column", "metric", "mean", "std", "seeds", "paper_mean", "paper_std"),
        *("config", "experiment_hash", "deviations", "remarks", "command_if_missing"),
    ]
    lines: list[list[object]] = []
    for block, label, cells in table.rows:
        for column, cell in zip(table.columns, cells, strict=True):
            for metric in cell.metrics:
                ours = cell.values.get(metric)
                found = [ours.mean, ours.std, ours.count] if ours else [None, None, 0]
                identity = cell.experiment.experiment_hash if cell.experiment else None
                notes = ["; ".join(cell.deviations), "; ".join(cell.remarks), None if ours else cell.command]
                place = [table.number, block, label, column, metric]
                lines.append([*place, *found, *cell.paper[metric], cell.config, identity, *notes])
    return _csv(columns, lines)


def experiment_csv(experiments: Sequence[Experiment]) -> str:
    """One line an experiment, full precision: mean, standard deviation and seeds of every figure."""
    settings = ["images", "backbone", "dim", "objective", "beta1", "beta2", "gamma", "center", "e2mc"]
    details = sorted({key for experiment in experiments for key in experiment.setting.details})
    columns = ["experiment_hash", *settings, *details, "seeds", "notes"]
    for name in _EXPERIMENT_FIGURES:
        columns += [f"{name} {part}" for part in ("mean", "std", "n")]
    lines: list[list[object]] = []
    for experiment in experiments:
        setting = experiment.setting
        line = [experiment.experiment_hash, *(getattr(setting, key) for key in settings)]
        line += [setting.details.get(key) for key in details]
        line += [" ".join(str(run.seed) for run in experiment.runs), "; ".join(experiment.notes)]
        for keys, _ in _EXPERIMENT_FIGURES.values():
            value = summarise(experiment.values(*keys))
            line += [value.mean, value.std, value.count] if value else [None, None, 0]
        lines.append(line)
    return _csv(columns, lines)


def _missing(table: Table) -> dict[str, list[Cell]]:
    """Cells without a value by the command that fills them; one run can fill several."""
    found: dict[str, list[Cell]] = {}
    for cell in table.cells:
        if not cell.values:
            found.setdefault(cell.command, []).append(cell)
    return found


def _ours(cell: Cell, rivals: Sequence[Cell], missing: dict[str, list[Cell]]) -> list[Text]:
    if not cell.values:
        return [Text(f"{MISSING} [{list(missing).index(cell.command) + 1}]")]
    parts = []
    for metric in cell.metrics:
        means = [rival.values[metric].mean for rival in rivals if metric in rival.values]
        parts.append(_text(cell.values.get(metric), means, max))
    count = max(value.count for value in cell.values.values())
    return [*parts[:-1], replace(parts[-1], suffix=f" (n {count})")]


def _text(value: Summary | None, rivals: Sequence[float], best: Callable[[Sequence[float]], float] | None) -> Text:
    if value is None:
        return Text(MISSING)
    text = f"{value.mean:.2f}" + (f" ± {value.std:.2f}" if value.std is not None else "")
    is_best = best is not None and len(rivals) > 1 and round(value.mean, _ROUNDED) == round(best(rivals), _ROUNDED)
    return Text(text, is_best)


def _csv(columns: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(lines)
    return stream.getvalue()


_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{
        "±": r"$\pm$",
        "β": r"$\beta$",
        "γ": r"$\gamma$",
        "—": "--",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
    },
    "\\": r"\textbackslash{}",
}


def _latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)
