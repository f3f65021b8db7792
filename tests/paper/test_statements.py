"""What the documents say of the paper, held against its numbers."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import yaml
from radial_vicreg.export import CITATION

REPOSITORY = Path(__file__).parents[2]


def gain(rows: dict, dim: str) -> str:
    """Points of top-1 over VICReg, as the README writes them."""
    points = round(rows["radialvicreg"][dim]["top1"][0] - rows["vicreg"][dim]["top1"][0], 2)
    return f"+{points:.2f}" if points else "0.00"


def test_the_readme_gives_every_gain_of_the_papers_linear_probes() -> None:
    tables = json.loads(resources.files("radial_vicreg").joinpath("paper/paper.json").read_text())["tables"]
    resnet, vit, ten = tables["1"]["resnet18"], tables["1"]["vit_tiny"], tables["2"]
    said = " ".join((REPOSITORY / "README.md").read_text().split())
    assert (
        f"CIFAR-100 with a ResNet-18 {gain(resnet, '512')} (d 512), {gain(resnet, '2048')} (2048), with a ViT-Tiny"
        f" {gain(vit, '512')}, {gain(vit, '2048')}; ImageNet-10 {gain(ten, '512')}, {gain(ten, '2048')},"
        f" {gain(ten, '8192')} (8192)"
    ) in said


def test_the_paper_is_cited_alike_in_the_readme_on_a_card_and_in_the_citation_file() -> None:
    readme = (REPOSITORY / "README.md").read_text()
    paper = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())["preferred-citation"]
    authors = ", ".join(f"{author['given-names']} {author['family-names']}" for author in paper["authors"])
    assert f"{authors}: {paper['title']}" in CITATION
    assert f"url           = {{{paper['url']}}}" in readme
    assert paper["identifiers"][0]["value"] == "arXiv:2602.14272"
    assert all(part in readme for part in ("2602.14272", "pQ2LZnZDDp", "UniReps"))
    assert all(part in CITATION for part in ("2602.14272", "2026", "UniReps workshop 2025"))
