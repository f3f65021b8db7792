"""Common style of all figures: widths, text, fonts, panels and output files.

matplotlib is imported only when a figure is made.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypedDict

from radial_vicreg.io.files import atomic_file

Dashes = Literal["-", "--", "-.", ":", ""] | tuple[float, tuple[float, ...]]
"""A matplotlib line style: its symbol, or an offset with the lengths of strokes and gaps."""


class LineLook(TypedDict, total=False):
    """Arguments of matplotlib for the style of lines and markers."""

    color: str
    marker: str
    markersize: float
    markeredgecolor: str
    markeredgewidth: float
    fillstyle: Literal["full", "none"]
    linestyle: Dashes
    linewidth: float
    alpha: float


SUFFIXES = (".png", ".pdf", ".svg")
"""File types of every figure."""
_COLUMN, _PAGE = 3.25, 6.75  # inches: width of one column of a conference paper, and of both
_LONGEST_TEXT = 120  # characters that fit into a figure
_FILES: Any = {
    "pdf.fonttype": 42,  # TrueType; conferences reject the default, Type 3
    "ps.fonttype": 42,
    "svg.fonttype": "none",  # keep text editable
    "svg.hashsalt": "radial-vicreg",  # makes files reproducible
}
_STYLE: Any = {
    **_FILES,
    "figure.figsize": (_COLUMN, 2.5),
    "figure.dpi": 200,
    "font.size": 8,
    "axes.titlesize": "medium",
    "figure.titlesize": "medium",
    "axes.titlelocation": "left",
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
    "legend.frameon": False,
    "legend.handlelength": 2.6,  # long enough for two periods of a dash pattern
}


@contextmanager
def figure_style() -> Iterator[None]:
    """Apply a style for figures that fit into a manuscript unchanged, independent of the user's matplotlibrc."""
    from matplotlib import style

    with style.context(["default", _STYLE]):
        yield


def new_figure(rows: int = 1, columns: int = 1, *, wide: bool = False, aspect: float = 0.75) -> tuple[Any, Any]:
    """Make a figure with an Agg canvas, which needs no display and leaves pyplot's state alone.

    Args:
        rows: rows of panels; 0 for a figure whose axes the caller adds.
        columns: columns of panels.
        wide: whether the figure spans two columns of a page instead of one.
        aspect: height of the figure as a share of its width.

    Returns:
        The figure and its axes, an array of shape ``(rows, columns)``.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    width = _PAGE if wide else _COLUMN
    figure = Figure(figsize=(width, width * aspect), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False) if rows else None


def name_panels(axes: Sequence[Any], titles: Sequence[str]) -> None:
    """Set the titles of panels, with a letter if there are several."""
    for index, (axis, title) in enumerate(zip(axes, titles, strict=True)):
        axis.set_title(f"({chr(ord('a') + index)}) {title}" if len(axes) > 1 else title)


def literal(text: object) -> str:
    """Make external text safe for a figure: escape dollar signs, replace control characters, limit the length.

    Args:
        text: a method's name or a folder, for example.
    """
    shown = "".join(character if character.isprintable() or character == "\n" else "?" for character in str(text))
    cut = shown if len(shown) <= _LONGEST_TEXT else f"{shown[:_LONGEST_TEXT]}..."
    return cut.replace("$", r"\$")


def add_legend(figure: Any, handles: Sequence[Any]) -> None:
    """Add a legend below the panels, where it hides no points.

    Args:
        figure: matplotlib figure; its width determines the number of legend columns.
        handles: labelled artists.
    """
    for columns in range(len(handles), 0, -1):
        legend = figure.legend(handles=list(handles), loc="outside lower center", ncols=columns)
        if columns == 1 or legend.get_window_extent(figure.canvas.get_renderer()).width <= figure.bbox.width:
            return
        legend.remove()


def save_figure(figure: Any, path: str | Path) -> list[Path]:
    """Write a figure as PNG, PDF and SVG.

    Args:
        figure: matplotlib figure.
        path: target without its suffix; its folder is created.

    Returns:
        The files, one for each of :data:`SUFFIXES`.
    """
    path = Path(path)
    contents = figure_files(figure, path.name)
    for name, content in contents.items():
        with atomic_file(path.with_name(name)) as stream:
            stream.write(content)
    return [path.with_name(name) for name in contents]


def figure_files(figure: Any, name: str) -> dict[str, bytes]:
    """Render a figure as PNG, PDF and SVG.

    Args:
        figure: matplotlib figure.
        name: file name without suffix.

    Returns:
        Contents by file name, one for each of :data:`SUFFIXES`.
    """
    from matplotlib import rc_context

    undated = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}
    contents = {}
    with rc_context(_FILES):
        for suffix in SUFFIXES:
            stream = io.BytesIO()
            figure.savefig(stream, format=suffix[1:], metadata=undated.get(suffix))
            contents[f"{name}{suffix}"] = stream.getvalue()
    return contents
