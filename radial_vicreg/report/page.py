"""The report as a single, self-contained HTML page."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from matplotlib.figure import Figure

from radial_vicreg.report.captioned import CaptionedFigure
from radial_vicreg.report.collect import Problem
from radial_vicreg.report.formats import Section

_TEMPLATE = "page.html.j2"
_CSS_PIXELS = 96  # per inch
_PAPER = ", paper"  # ends the heading of a column with the paper's values
_PRINTED_CHARACTERS = 105  # of a row on upright A4 or letter paper, in the size of printed tables
_GAP = 2  # characters between columns


def build_page(
    title: str,
    summary: str,
    sections: Sequence[Section],
    figures: Sequence[CaptionedFigure],
    problems: Sequence[Problem],
) -> str:
    """Build the page; images are embedded, and it loads no other files.

    Tables and figures with values come first, empty ones last.

    Args:
        title: heading.
        summary: summary of the runs in one sentence.
        sections: tables.
        figures: figures with their captions.
        problems: files that no table uses.

    Returns:
        HTML.
    """
    pages = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    pages.filters.update(code=_code, paper=_paper, parts=_parts, png=_png, css_width=_css_width)
    return pages.get_template(_TEMPLATE).render(
        title=title, summary=summary, sections=sections, figures=figures, problems=problems
    )


def _code(note: str) -> Markup:
    """Format text in backticks as code."""
    return Markup(re.sub("`([^`]*)`", r"<code>\1</code>", str(escape(note))))


def _paper(heading: str) -> Markup:
    """Return the HTML class attribute of a column that holds the paper's values; empty for other columns."""
    return Markup(" class=paper" if heading.endswith(_PAPER) else "")


def _parts(section: Section) -> list[list[int]]:
    """Split the columns of a table into parts that fit onto a printed page.

    Args:
        section: the table.

    Returns:
        Columns of each part. If there are several, each begins with the columns that name a row.
    """
    widths = [_printed_width(section, column) for column in range(len(section.header))]
    if sum(widths) <= _PRINTED_CHARACTERS:
        return [list(range(len(widths)))]
    names = list(section.named_by)
    room = _PRINTED_CHARACTERS - sum(widths[column] for column in names)
    parts: list[list[int]] = []
    used = room
    for group in _groups(section):
        width = sum(widths[column] for column in group)
        if not parts or used + width > room:
            parts.append([*names])
            used = 0
        parts[-1] += group
        used += width
    return parts


def _groups(section: Section) -> list[list[int]]:
    """Group the columns that do not name a row: a column of ours and the paper's next to it."""
    groups: list[list[int]] = []
    for column, heading in enumerate(section.header):
        if column in section.named_by:
            continue
        if groups and heading.endswith(_PAPER):
            groups[-1].append(column)
        else:
            groups.append([column])
    return groups


def _printed_width(section: Section, column: int) -> int:
    """Return the width of a column in characters; names and headings wrap between words, values do not."""
    cells = [" / ".join(text.text + text.suffix for text in row[column]) for row in section.body]
    words = [section.header[column], *(cells if column in section.named_by else [])]
    whole = [] if column in section.named_by else cells
    return max(map(len, [*(word for text in words for word in text.split()), *whole]), default=0) + _GAP


def _png(figure: Figure) -> str:
    stream = io.BytesIO()
    figure.savefig(stream, format="png")
    return base64.b64encode(stream.getvalue()).decode()


def _css_width(figure: Figure) -> int:
    """Return the width at which text is displayed in its nominal size."""
    return round(figure.get_figwidth() * _CSS_PIXELS)
