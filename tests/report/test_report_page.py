"""The report's page on its own."""

from __future__ import annotations

import csv
import io
import re

from matplotlib.figure import Figure

from radial_vicreg.report.captioned import CaptionedFigure
from radial_vicreg.report.collect import Problem
from radial_vicreg.report.compare import compare
from radial_vicreg.report.formats import Section, Text, number_text, to_csv, to_markdown
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
        '<th scope="col">d 512</th><th scope="col" class=paper>d 512, paper</th>',
        '<th scope="row">a &amp; b</th><td><b>1.00</b> / &lt;2 (n 3)</td><td class=paper>3</td>',
        "<table><caption>&lt;caption&gt;</caption>",
        "<li>run <code>pretrain --x &lt;y&gt;</code></li>",
        '<p class="notes">&lt;no&gt; runs</p>',
        '<th scope="row" class="file">&lt;file&gt;</th><td>odd</td><td class="why">a&lt;b</td>',
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


def test_a_table_wider_than_paper_has_parts_for_print_each_with_the_columns_that_name_a_row() -> None:
    header = ["Images", "Method", *(f"figure {place}" for place in range(30)), "Experiment"]
    row = [[Text(f"{name} value")] for name in header]
    table = Section("wide", header, [row], [], named_by=(1, len(header) - 1))
    page = build_page("title", "", [table], [], [])
    _, screen, *parts = page.split("<table")
    assert 'class="split"' in screen
    assert len(parts) > 1
    headers = [re.findall('<th scope="col">(.*?)</th>', part) for part in parts]
    assert all(found[:2] == ["Method", "Experiment"] for found in headers)
    assert [name for found in headers for name in found[2:]] == [header[0], *header[2:-1]]
    for number, part in enumerate(parts, 1):
        assert f"<caption>wide, part {number} of {len(parts)}</caption>" in part
        assert re.findall('<th scope="row">(.*?)</th>', part) == ["Method value", "Experiment value"]


def test_a_value_of_the_paper_is_printed_in_the_part_of_ours() -> None:
    header = ["Method", *(f"{place}{whose}" for place in range(20) for whose in ("", ", paper"))]
    page = build_page("title", "", [Section("wide", header, [[[Text("1.00 ± 0.50")]] * len(header)], [])], [], [])
    _, _, *parts = page.split("<table")
    headers = [re.findall('<th scope="col".*?>(.*?)</th>', part) for part in parts]
    assert len(headers) > 1
    assert all(f"{name}, paper" in found for found in headers for name in found[1:] if "paper" not in name)


def test_numbers_and_notes_have_one_minus_sign_and_zero_none() -> None:
    assert [number_text(value) for value in (-0.104, -0.004, 1234.5)] == ["−0.10", "0.00", "1234.50"]
    assert [number_text(value, sign="+") for value in (0.104, -0.004)] == ["+0.10", "+0.00"]
    for other in ({5: 3.0, 6: 4.5}, {5: 3.0}):
        note = str(compare({5: 1.0, 6: 2.0}, other))
        assert "−" in note
        assert "-" not in note


def test_the_page_holds_its_images_and_folds_empty_tables_away_below_the_figures() -> None:
    tables = [Section("empty", ["a"], [], [], filled=False), Section("full", ["a", "b"], [[[Text("1")]] * 2], [])]
    image = CaptionedFigure("radii", Figure((1, 1)), "radii", "W1 1.50")
    page = build_page("title", "", tables, [image], [])
    assert '<img alt="W1 1.50" width="96" src="data:image/png;base64,iVBOR' in page
    assert page.index("<h2>full</h2>") < page.index("<h2>Figures</h2>") < page.index("<h2>Missing</h2>")
    assert "<details><summary>empty</summary>" in page
    assert page.count("<table") == 2  # those that fit are there once
    page = build_page("title", "", tables[1:], [image], [])
    assert "Not used" not in page
    assert "Missing" not in page
