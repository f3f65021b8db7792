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
    pages.filters.update(code=_code, paper=_paper, png=_png, css_width=_css_width)
    return pages.get_template(_TEMPLATE).render(
        title=title, summary=summary, sections=sections, figures=figures, problems=problems
    )


def _code(note: str) -> Markup:
    """Format text in backticks as code."""
    return Markup(re.sub("`([^`]*)`", r"<code>\1</code>", str(escape(note))))


def _paper(heading: str) -> Markup:
    """Return the HTML class attribute of a column that holds the paper's values; empty for other columns."""
    return Markup(" class=paper" if heading.endswith(", paper") else "")


def _png(figure: Figure) -> str:
    stream = io.BytesIO()
    figure.savefig(stream, format="png")
    return base64.b64encode(stream.getvalue()).decode()


def _css_width(figure: Figure) -> int:
    """Return the width at which text is displayed in its nominal size."""
    return round(figure.get_figwidth() * _CSS_PIXELS)
