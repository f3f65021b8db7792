"""What the documents say of the paper, held against its numbers."""

from __future__ import annotations

from pathlib import Path

import yaml
from radial_vicreg.export import CITATION

REPOSITORY = Path(__file__).parents[2]


def test_the_paper_is_cited_alike_in_the_readme_on_a_card_and_in_the_citation_file() -> None:
    readme = (REPOSITORY / "README.md").read_text()
    paper = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())["preferred-citation"]
    authors = ", ".join(f"{author['given-names']} {author['family-names']}" for author in paper["authors"])
    assert f"{authors}: {paper['title']}" in CITATION
    assert f"url           = {{{paper['url']}}}" in readme
    assert paper["identifiers"][0]["value"] == "arXiv:2602.14272"
    assert all(part in readme for part in ("2602.14272", "pQ2LZnZDDp", "UniReps"))
    assert all(part in CITATION for part in ("2602.14272", "2026", "UniReps workshop 2025"))
