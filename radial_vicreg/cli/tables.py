"""Tables on standard output: as wide as the terminal, and one line per row in a pipe or a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from radial_vicreg.runs.results import ResultsError

_GAP = 2
_NARROWEST = 40  # characters; least width of a column that may wrap


def print_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = (), folding: str | None = None
) -> None:
    """Print rows under a header; in a narrow terminal, print the cells of each row below its first cell.

    Args:
        header: column headers.
        rows: cells of each row; the first cell identifies the row. No text is truncated.
        right: headers of columns of numbers.
        folding: header of a column that may wrap in a terminal.
    """
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table

    rows = [[_one_line(cell) for cell in row] for row in rows]
    console = Console(highlight=False, markup=False, emoji=False)
    widths = [max(map(cell_len, column)) for column in zip(header, *rows, strict=True)]
    whole = sum(widths) + _GAP * (len(header) - 1)
    if not console.is_terminal:
        console.width = whole
    spared = 0 if folding is None else max(0, widths[list(header).index(folding)] - _NARROWEST)
    if whole - spared > console.width:
        _print_below(console, header, rows)
        return
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for name in header:
        table.add_column(name, justify="right" if name in right else "left", no_wrap=name != folding)
    for row in rows:
        table.add_row(*row)
    with console.capture() as text:
        console.print(table)
    print("\n".join(line.rstrip() for line in text.get().splitlines()))


def _one_line(cell: str) -> str:
    """Escape control characters, which an untrusted file may contain to manipulate the terminal."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in cell)


def name_bad_file(error: ResultsError) -> None:
    """Print to stderr which ``results.json`` a list skips, unless another program wrote the file."""
    if getattr(error, "has_version", True):
        print(f"not listed: {_one_line(str(error))}", file=sys.stderr)


def print_json(content: Any) -> None:
    """Print a value as indented JSON."""
    print(json.dumps(content, indent=2))


def _print_below(console: Any, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print the first cell of each row, and the others below it, with their headers if there are several."""
    from rich.padding import Padding

    for first, *others in rows:
        console.print(first, style="bold", soft_wrap=True)
        cells = [cell if len(header) == 2 else f"{name} {cell}" for name, cell in zip(header[1:], others, strict=True)]
        shown = [cell for cell, text in zip(cells, others, strict=True) if text]
        console.print(Padding("  ".join(shown), (0, 0, 0, _GAP), expand=False))
