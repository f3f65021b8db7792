"""One HTML page with everything in it."""

from __future__ import annotations

import base64
import html
import io
import re
from collections.abc import Sequence

from radial_vicreg.report.collect import Problem
from radial_vicreg.report.drawing import Drawn
from radial_vicreg.report.formats import Row

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1200px; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a; }
table { border-collapse: collapse; margin: .5rem 0; font-size: 13px; display: block; overflow-x: auto; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #ddd; text-align: left; white-space: nowrap; }
th { border-bottom: 2px solid #555; } td.paper, th.paper { color: #666; }
img { max-width: 100%; } figure { margin: 1rem 0; } figcaption, .notes { color: #444; font-size: 13px; }
code { background: #f3f3f3; padding: 0 .25rem; }
"""
_DPI = 110


def build_page(
    title: str,
    summary: str,
    tables: Sequence[tuple[str, list[str], Sequence[Row], list[str]]],
    figures: Sequence[Drawn],
    problems: Sequence[Problem],
) -> str:
    """The page; images are inside it and it loads nothing.

    Args:
        title: heading.
        summary: one sentence on the runs.
        tables: caption, header, body and notes of each.
        figures: with their captions.
        problems: files that were left out.

    Returns:
        HTML.
    """
    parts = [f"<h1>{html.escape(title)}</h1>", f"<p>{html.escape(summary)}</p>"]
    for caption, header, body, notes in tables:
        parts += [f"<h2>{html.escape(caption)}</h2>", _table(header, body), _notes(notes)]
    parts.append("<h2>Figures</h2>")
    parts += [_figure(drawn) for drawn in figures]
    if problems:
        lines = [(_escape(problem.path), problem.kind, _escape(problem.reason)) for problem in problems]
        rows = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in line) + "</tr>" for line in lines)
        parts += ["<h2>Not used</h2>", f"<table><tr><th>File</th><th>Kind</th><th>Why</th></tr>{rows}</table>"]
    content = "\n".join(parts)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body>\n{content}\n</body></html>\n"
    )


def _table(header: Sequence[str], body: Sequence[Row]) -> str:
    paper = [name.endswith(", paper") for name in header]
    head = "".join(
        f"<th{' class=paper' * grey}>{html.escape(name)}</th>" for name, grey in zip(header, paper, strict=True)
    )
    rows = []
    for row in body:
        cells = (
            " / ".join((f"<b>{html.escape(t.text)}</b>" if t.bold else html.escape(t.text)) + t.suffix for t in cell)
            for cell in row
        )
        rows.append("".join(f"<td{' class=paper' * grey}>{cell}</td>" for cell, grey in zip(cells, paper, strict=True)))
    return f"<table><tr>{head}</tr>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>"


def _notes(notes: Sequence[str]) -> str:
    marked = (re.sub("`([^`]*)`", r"<code>\1</code>", _escape(note)) for note in notes)
    items = "".join(f"<li>{note}</li>" for note in marked)
    return f'<ul class="notes">{items}</ul>' if items else ""


def _figure(drawn: Drawn) -> str:
    caption = f"<figcaption>{_escape(drawn.caption)}</figcaption>"
    if drawn.figure is None:
        return f"<figure>{caption}</figure>"
    stream = io.BytesIO()
    drawn.figure.savefig(stream, format="png", dpi=_DPI)
    data = base64.b64encode(stream.getvalue()).decode()
    return f'<figure><img alt="{drawn.name}" src="data:image/png;base64,{data}">{caption}</figure>'


def _escape(text: str) -> str:
    return html.escape(text, quote=False)
