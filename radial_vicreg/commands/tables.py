"""Tables of a command: as wide as the terminal, and a line a row in a pipe or a file."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

_UNLIMITED = 100_000  # columns of a file


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = ()) -> None:
    """Print rows under a header; where a terminal is too narrow, the cells of a row below its first one.

    Args:
        header: of the columns.
        rows: texts; the first cell tells the rows apart and is never cut.
        right: headers of columns of numbers.
    """
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = _UNLIMITED
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in header:
        table.add_column(name, justify="right" if name in right else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    if console.measure(table).maximum <= console.width:
        with console.capture() as text:
            console.print(table)
        print("\n".join(line.rstrip() for line in text.get().splitlines()))
        return
    for first, *others in rows:
        console.print(first, style="bold", soft_wrap=True)
        cells = [f"{name} {cell}" if len(header) > 2 else cell for name, cell in zip(header[1:], others, strict=True)]
        console.print(_indented("  ".join(cell for cell, text in zip(cells, others, strict=True) if text)))


def print_json(content: Any) -> None:
    """Print JSON for programs."""
    print(json.dumps(content, indent=2))


def _indented(text: str) -> Any:
    from rich.padding import Padding

    return Padding(text, (0, 0, 0, 2))
