"""The report's page on its own."""

from __future__ import annotations

import csv
import io

from matplotlib.figure import Figure

from radial_vicreg.report.captioned import CaptionedFigure
from radial_vicreg.report.collect import Problem
from radial_vicreg.report.formats import Section, Text, to_csv, to_markdown
from radial_vicreg.report.page import build_page


def test_the_page_marks_code_bold_and_the_papers_columns_and_escapes_all_else() -> None:
    row = [[Text("a & b")], [Text("1.00", bold=True), Text("<2", suffix=" (n 3)")], [Text("3")]]
    table = Section("<caption>", ["Method", "d 512", "d 512, paper"], [row], ["run `pretrain --x <y>`"])
    page = build_page(
        "<title>", "R&D", [table], [CaptionedFigure("radii", None, "<no> runs")], [Problem("<file>", "odd", "a<b")]
    )
    for expected in (
        "<h1>&lt;title&gt;</h1>",
        "<p>R&amp;D</p>",
        "<h2>&lt;caption&gt;</h2>",
        "<th>d 512</th><th class=paper>d 512, paper</th>",
        "<td>a &amp; b</td><td><b>1.00</b> / &lt;2 (n 3)</td><td class=paper>3</td>",
        "<li>run <code>pretrain --x &lt;y&gt;</code></li>",
        '<p class="notes">&lt;no&gt; runs</p>',
        '<td>&lt;file&gt;</td><td>odd</td><td class="why">a&lt;b</td>',
        'aria-label="&lt;caption&gt;"',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
    ):
        assert expected in page


def test_texts_of_a_table_are_no_formulas() -> None:
    texts = ["=cmd|' /C calc'!A0", "+1+cmd", "-2+3", "@SUM(A1)", "\t=1", "-", "-x"]
    numbers = [-1.5, "-1.5", "+3", "-1e-05", -7, "0.5", None, "a=b", "—"]
    lines = to_csv(["=x", "y"], [[text] for text in (*texts, *numbers)])
    found = [row[0] for row in csv.reader(io.StringIO(lines))]
    assert found[:1] == ["'=x"]
    assert found[1 : 1 + len(texts)] == [f"'{text}" for text in texts]
    assert found[1 + len(texts) :] == ["-1.5", "-1.5", "+3", "-1e-05", "-7", "0.5", "", "a=b", "—"]


def test_markdown_holds_no_html_links_or_images_of_settings() -> None:
    strange = "<script>alert(1)</script>\n![x](http://a/b.png)|"
    table = to_markdown(["<b>"], [[[Text(strange)]], [[Text("1.00 ± 0.50"), Text("[1]")]]])
    assert table.splitlines() == [
        "| &lt;b> |",
        "| --- |",
        "| &lt;script>alert(1)&lt;/script> ![x]\\(http://a/b.png)\\| |",
        "| 1.00 ± 0.50 / [1] |",
    ]


def test_the_page_holds_its_images_and_says_nothing_of_problems_without_any() -> None:
    page = build_page("title", "", [], [CaptionedFigure("radii", Figure((1, 1)), "radii")], [])
    assert '<img alt="radii" width="96" src="data:image/png;base64,iVBOR' in page
    assert "Not used" not in page
    assert "Missing" not in page


def test_a_table_without_a_value_is_folded_away_below_the_figures() -> None:
    tables = [Section("empty", ["a"], [], [], filled=False), Section("full", ["a"], [], [])]
    page = build_page("title", "", tables, [CaptionedFigure("radii", Figure((1, 1)), "radii")], [])
    assert page.index("<h2>full</h2>") < page.index("<h2>Figures</h2>") < page.index("<h2>Missing</h2>")
    assert "<details><summary>empty</summary>" in page
