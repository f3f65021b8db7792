"""One HTML page with everything in it."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from matplotlib.figure import Figure

from radial_vicreg.report.collect import Problem
from radial_vicreg.report.drawn import Drawn
from radial_vicreg.report.formats import Section

_TEMPLATE = "page.html.j2"
_CSS_PIXELS = 96  # an inch


def build_page(
    title: str,
    summary: str,
    sections: Sequence[Section],
    figures: Sequence[Drawn],
    problems: Sequence[Problem],
) -> str:
    """Build the page; images are inside it and it loads nothing.

    What the runs have filled comes first, and what is missing last.

    Args:
        title: heading.
        summary: one sentence on the runs.
        sections: the tables.
        figures: with their captions.
        problems: files that were left out.

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
    """Mark what stands in backticks as code."""
    return Markup(re.sub("`([^`]*)`", r"<code>\1</code>", str(escape(note))))


def _paper(heading: str) -> Markup:
    """Return the class of the columns that hold the paper's values."""
    return Markup(" class=paper" if heading.endswith(", paper") else "")


def _png(figure: Figure) -> str:
    stream = io.BytesIO()
    figure.savefig(stream, format="png")
    return base64.b64encode(stream.getvalue()).decode()


def _css_width(figure: Figure) -> int:
    """Return the width at which the text has its own size."""
    return round(figure.get_figwidth() * _CSS_PIXELS)
