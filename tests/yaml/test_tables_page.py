"""The page of the tables names every cell, sweep and script, with the paper's values."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]
PACKAGE = Path(str(resources.files("radial_vicreg")))
PAGE = (REPOSITORY / "docs" / "tables.md").read_text()
PAPER: dict[str, Any] = json.loads((PACKAGE / "report" / "paper.json").read_text())
SWEEPS = sorted(
    str(p.relative_to(PACKAGE / "yaml" / "sweeps").with_suffix("")) for p in PACKAGE.glob("yaml/sweeps/**/*.yaml")
)


def pairs(value: Any) -> list[list[float]]:
    """Every [mean, deviation] of a table."""
    if isinstance(value, list):
        return [value]
    return [pair for item in value.values() if isinstance(item, (dict, list)) for pair in pairs(item)]


@pytest.mark.parametrize("cell", sorted(PAPER["configs"]))
def test_every_cell_is_on_the_page(cell: str) -> None:
    assert f"`{cell}`" in PAGE


@pytest.mark.parametrize("sweep", SWEEPS)
def test_every_sweep_is_on_the_page(sweep: str) -> None:
    assert f"`{sweep}`" in PAGE


@pytest.mark.parametrize("number", sorted(PAPER["tables"]))
def test_the_papers_values_are_on_the_page(number: str) -> None:
    section = PAGE.split(f"## Table {number}:")[1].split("\n## ")[0]
    for mean, deviation in pairs(PAPER["tables"][number]):
        assert f"{mean:.2f} ± {deviation:.2f}" in section


def test_every_script_that_the_page_names_exists() -> None:
    named = set(re.findall(r"bash/(?:sweeps|slurm)/[\w.]+|yaml/[\w./]+", PAGE)) - {"yaml/sweeps/FILE.yaml"}
    assert named
    assert [name for name in named if not (REPOSITORY / name).exists()] == []
