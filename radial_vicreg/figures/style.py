"""How every figure looks: widths, text, fonts, panels, and the files that it is written to.

matplotlib is imported when one is drawn.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypedDict

from radial_vicreg.io.files import atomic_file

Dashes = Literal["-", "--", "-.", ":", ""] | tuple[float, tuple[float, ...]]
"""A style of lines: matplotlib's sign of it, or an offset with lengths of strokes and gaps."""


class LineLook(TypedDict, total=False):
    """Arguments of matplotlib that say how lines and markers look."""

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
"""A figure is written as each of them."""
_COLUMN, _PAGE = 3.25, 6.75  # inches: width of one column of a conference's page, and of the page
_LONGEST_TEXT = 120  # characters; a figure has no room for more
_FILES: Any = {
    "pdf.fonttype": 42,  # TrueType; the default, Type 3, is refused by the checks of conferences
    "ps.fonttype": 42,
    "svg.fonttype": "none",  # text stays text: the SVG is there to be edited, and the PDF to be printed
    "svg.hashsalt": "radial-vicreg",  # drawn again, the file is the same
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
    "legend.handlelength": 2.6,  # a dash pattern shows twice
}


@contextmanager
def figure_style() -> Iterator[None]:
    """Draw figures that go into a manuscript as they are, whatever the user's own matplotlibrc says."""
    from matplotlib import style

    with style.context(["default", _STYLE]):
        yield


def new_figure(rows: int = 1, columns: int = 1, *, wide: bool = False, aspect: float = 0.75) -> tuple[Any, Any]:
    """Make a figure with an Agg canvas, which needs no display and leaves pyplot's state alone.

    Args:
        rows: of panels; 0 for a figure whose axes the caller adds.
        columns: of panels.
        wide: as wide as a page of two columns; otherwise as one column.
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
    """Give panels their letters and titles; a single panel has no letter."""
    for index, (axis, title) in enumerate(zip(axes, titles, strict=True)):
        axis.set_title(f"({chr(ord('a') + index)}) {title}" if len(axes) > 1 else title)


def literal(text: object) -> str:
    """Write a text of a user's or a stranger's for a figure: a dollar sign begins no mathematics, and no line is long.

    Args:
        text: a method's name, a folder, ...
    """
    shown = "".join(character if character.isprintable() or character == "\n" else "?" for character in str(text))
    cut = shown if len(shown) <= _LONGEST_TEXT else f"{shown[:_LONGEST_TEXT]}..."
    return cut.replace("$", r"\$")


def add_legend(figure: Any, handles: Sequence[Any]) -> None:
    """Explain labelled artists below the panels, where the legend hides no point.

    Args:
        figure: matplotlib's; its width decides how many stand in a row.
        handles: the artists.
    """
    for columns in range(len(handles), 0, -1):
        legend = figure.legend(handles=list(handles), loc="outside lower center", ncols=columns)
        if columns == 1 or legend.get_window_extent(figure.canvas.get_renderer()).width <= figure.bbox.width:
            return
        legend.remove()


def save_figure(figure: Any, path: str | Path) -> list[Path]:
    """Write a figure as PNG, PDF and SVG.

    Args:
        figure: matplotlib's.
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
        figure: matplotlib's.
        name: of the files without their suffix.

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
