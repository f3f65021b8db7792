"""The report's page on its own."""

from __future__ import annotations

from matplotlib.figure import Figure

from radial_vicreg.report.collect import Problem
from radial_vicreg.report.drawing import Drawn
from radial_vicreg.report.formats import Text
from radial_vicreg.report.page import build_page


def test_the_page_marks_code_bold_and_the_papers_columns_and_escapes_all_else() -> None:
    row = [[Text("a & b")], [Text("1.00", bold=True), Text("<2", suffix=" (n 3)")], [Text("3")]]
    table = ("<caption>", ["Method", "d 512", "d 512, paper"], [row], ["run `pretrain --x <y>`"])
    page = build_page("<title>", "R&D", [table], [Drawn("radii", None, "<no> runs")], [Problem("<file>", "odd", "a<b")])
    for expected in (
        "<h1>&lt;title&gt;</h1>",
        "<p>R&amp;D</p>",
        "<h2>&lt;caption&gt;</h2>",
        "<th>d 512</th><th class=paper>d 512, paper</th>",
        "<td>a &amp; b</td><td><b>1.00</b> / &lt;2 (n 3)</td><td class=paper>3</td>",
        "<li>run <code>pretrain --x &lt;y&gt;</code></li>",
        "<figure><figcaption>&lt;no&gt; runs</figcaption></figure>",
        "<td>&lt;file&gt;</td><td>odd</td><td>a&lt;b</td>",
    ):
        assert expected in page


def test_the_page_holds_its_images_and_says_nothing_of_problems_without_any() -> None:
    page = build_page("title", "", [], [Drawn("radii", Figure((1, 1)), "radii")], [])
    assert '<img alt="radii" src="data:image/png;base64,iVBOR' in page
    assert "Not used" not in page
