"""Text of tables: Markdown, LaTeX, CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

from radial_vicreg.report.statistics import Summary

MISSING = "—"
"""Placeholder for a missing value."""


@dataclass(frozen=True)
class Text:
    """A cell's text; ``bold`` marks the clearly best value of a column, ``suffix`` follows in plain type."""

    text: str
    bold: bool = False
    suffix: str = ""


Row = Sequence[Sequence[Text]]
"""One row of cells; the parts of a cell are joined with " / "."""


@dataclass(frozen=True)
class Section:
    """A table of the report.

    Attributes:
        caption: caption.
        header: column names.
        body: rows.
        notes: notes below the table.
        filled: whether the table holds a value from the runs.
        heading: short heading above the table on the page; the caption if empty.
        named_by: positions of the columns that name a row. Printed, each part of a wide table has them.
    """

    caption: str
    header: Sequence[str]
    body: Sequence[Row]
    notes: Sequence[str]
    filled: bool = True
    heading: str = ""
    named_by: tuple[int, ...] = (0,)


def text_of(value: Summary | None, bold: bool = False, decimals: int = 2) -> Text:
    """Write ``mean ± deviation``."""
    if value is None:
        return Text(MISSING)
    spread = "" if value.std is None else f" ± {value.std:.{decimals}f}"
    return Text(f"{number_text(value.mean, decimals)}{spread}", bold)


def number_text(value: float, decimals: int = 2, sign: str = "") -> str:
    """Write a number as tables, notes and figures show it; CSV holds the number itself.

    Args:
        value: number.
        decimals: number of decimals.
        sign: ``"+"`` to write the sign of positive numbers as well.

    Returns:
        The number with a minus sign (U+2212) if it is negative, as matplotlib writes it at the axes; zero has no minus.
    """
    return f"{round(value, decimals) + 0.0:{sign}.{decimals}f}".replace("-", "−")


def to_markdown(header: Sequence[str], body: Sequence[Row]) -> str:
    """Write a pipe table."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(markdown_text(cell).replace("|", "\\|") for cell in cells) + " |"

    rows = [
        [" / ".join((f"**{t.text}**" if t.bold else t.text) + t.suffix for t in cell) for cell in row] for row in body
    ]
    return "\n".join([line(header), line(["---"] * len(header)), *map(line, rows)]) + "\n"


def markdown_text(text: str) -> str:
    """Write a text on one line, escaped so that HTML, links and images in a run's settings have no effect."""
    return " ".join(text.split()).replace("<", "&lt;").replace("](", "]\\(")


def to_latex(header: Sequence[str], body: Sequence[Row], caption: str, label: str, notes: Sequence[str] = ()) -> str:
    """Write a floating table with booktabs rules; the notes are LaTeX comments before it."""

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
        *(f"% {' '.join(note.split())}" for note in notes),
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


def to_csv(columns: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    """Write a header and lines, separated by commas.

    Text that a spreadsheet would interpret as a formula is prefixed with an apostrophe; numbers are unchanged.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(map(_cell, columns))
    writer.writerows(map(_cell, line) for line in lines)
    return stream.getvalue()


def _cell(value: object) -> object:
    is_formula = isinstance(value, str) and value.startswith(_FORMULA) and not _NUMBER.fullmatch(value)
    return f"'{value}" if is_formula else value


_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{
        "±": r"$\pm$",
        "β": r"$\beta$",
        "γ": r"$\gamma$",
        "—": "--",
        "−": r"$-$",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
    },
    "\\": r"\textbackslash{}",
}


def _latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)
