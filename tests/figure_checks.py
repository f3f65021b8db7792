"""What every figure has to be, whoever draws it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from matplotlib.text import Text

ONE_COLUMN, TWO_COLUMNS = 3.25 * 72, 6.75 * 72  # points


def check_files(stem: Path) -> None:
    """Check the files of a figure: PNG, an SVG whose text is text, a PDF of a column's width without Type 3 fonts."""
    assert Path(f"{stem}.png").read_bytes().startswith(b"\x89PNG")
    assert "</text>" in Path(f"{stem}.svg").read_text(encoding="utf-8")
    pdf = Path(f"{stem}.pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    assert pdf_fonts(pdf) == {"Type0", "CIDFontType2"}, stem  # TrueType, by its composite font and its descendant
    (width,) = re.findall(rb"/MediaBox \[ 0 0 ([\d.]+) ", pdf)
    assert float(width) in (ONE_COLUMN, TWO_COLUMNS), stem


def pdf_fonts(pdf: bytes) -> set[str]:
    """List the kinds of fonts of a PDF of matplotlib, whose dictionaries are not compressed."""
    assert b"/ObjStm" not in pdf
    return {kind.decode() for kind in re.findall(rb"/Type /Font\s+/Subtype /(\w+)", pdf)}


def check_layout(figure: Any, size: float = 8) -> None:
    """Check that all text has one size and stays inside the figure, and that no legend stands over a panel."""
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    shown = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
    assert {text.get_size() for text in shown} == {size}
    box = figure.get_tightbbox(renderer)  # inches
    width, height = figure.get_size_inches()
    assert min(box.x0, box.y0) >= -0.01, box
    assert box.x1 <= width + 0.01, box
    assert box.y1 <= height + 0.01, box
    titles = [axis.get_title(loc="left") for axis in figure.axes if axis.get_title(loc="left")]
    assert len(titles) == 1 or all(re.match(r"\([a-z]['\d]?\) ", title) for title in titles), titles
    assert len(titles) == len(set(titles))
    for axis in figure.axes:
        assert axis.get_legend() is None  # it would stand over points
        for legend in figure.legends:
            assert not axis.get_tightbbox(renderer).padded(-1).overlaps(legend.get_window_extent(renderer))
    _check_titles_apart(figure, renderer)


def _check_titles_apart(figure: Any, renderer: Any) -> None:
    boxes = [axis._left_title.get_window_extent(renderer) for axis in figure.axes if axis.get_title(loc="left")]
    for index, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[index + 1 :])
