"""The page of the tables names every cell, sweep and script, with the paper's values; the paper is cited alike."""

from __future__ import annotations

import functools
import json
import math
import re
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from helpers import composed

import yaml
from radial_vicreg.compose import run_config
from radial_vicreg.config import RunConfig
from radial_vicreg.export import CITATION
from radial_vicreg.losses import RadialEquilibrium
from radial_vicreg.names.configurations import sweep_names
from radial_vicreg.nets.stability import equilibrium_of, stability_of
from radial_vicreg.sweeps import load_sweep
from radial_vicreg.sweeps.predictions import predictions_of

REPOSITORY = Path(__file__).parents[2]
PACKAGE = Path(str(resources.files("radial_vicreg")))
PAGE = (REPOSITORY / "docs" / "tables.md").read_text()
PAPER: dict[str, Any] = json.loads((PACKAGE / "paper" / "paper.json").read_text())
SWEEPS = sweep_names()
QUICK = {"cifar100_vit_tiny_d512"}


def read(name: str) -> RunConfig:
    return run_config(composed(name))


def pairs(value: Any) -> list[list[float]]:
    """Every [mean, deviation] of a table."""
    if isinstance(value, list):
        return [value]
    return [pair for item in value.values() if isinstance(item, (dict, list)) for pair in pairs(item)]


def test_every_cell_and_every_sweep_is_on_the_page() -> None:
    of_the_paper = [name for name in SWEEPS if not name.startswith("study")]
    assert [name for name in (*PAPER["configs"], *of_the_paper) if f"`{name}`" not in PAGE] == []


def test_the_papers_values_are_on_the_page() -> None:
    for number, table in PAPER["tables"].items():
        section = PAGE.split(f"## Table {number}:")[1].split("\n## ")[0]
        for mean, deviation in pairs(table):
            assert f"{mean:.2f} ± {deviation:.2f}" in section, number


def test_every_script_that_the_page_names_exists() -> None:
    named = set(re.findall(r"bash/(?:sweeps|slurm)/[\w.]+|yaml/[\w./]+", PAGE)) - {"yaml/radialvicreg/sweeps/FILE.yaml"}
    assert named
    assert [name for name in named if not (REPOSITORY / name).exists()] == []


def amount(found: RadialEquilibrium | None) -> str:
    """An equilibrium as the page writes it."""
    if found is None:
        return "none"
    return f"{found.mean:.1f} ± {found.std:.2f}, {found.w1:.2f}" if math.isfinite(found.w1) else "no bound"


def equilibrium_row(cell: str) -> str:
    """A cell's line: betas, 1/d, the equilibrium with its own and the other flag, curvature times rate."""
    cfg = read(cell)
    kwargs, stability = cfg.method_kwargs, stability_of(cfg)
    flag = kwargs.radial_ce_normalize
    betas = f"{kwargs.radial_ce_loss_weight:g} / {kwargs.radial_ent_loss_weight:g}"
    changed = kwargs.model_copy(update={"radial_ce_normalize": not flag})
    other = cfg.model_copy(update={"method_kwargs": changed})
    pulls = [
        "-" if one is None else f"{float(f'{one.curvature * one.rate:.2g}'):g}"
        for one in (stability, stability_of(other))
    ]
    found = (amount(equilibrium_of(cfg)), amount(equilibrium_of(other)))
    return f"| `{cell}` | {betas} | {'on' if flag else 'off'} | {found[0]} | {pulls[0]} | {found[1]} | {pulls[1]} |"


@functools.cache
def marked(sweep: str, factor: bool) -> tuple[int, int]:
    """How many of a sweep's runs are past stability and how many pull away, with one value of the flag."""
    runs = load_sweep(sweep).runs()
    seeds = {run.overrides[-1] for run in runs}  # alike in both: one is enough
    predictions = predictions_of(
        [run for run in runs if run.overrides[-1] == min(seeds)],
        [f"method_kwargs.radial_ce_normalize={str(factor).lower()}"],
    )
    counts = (
        sum(prediction.past_stability is not None for prediction in predictions),
        sum(prediction.has_distant_equilibrium for prediction in predictions),
    )
    return counts[0] * len(seeds), counts[1] * len(seeds)


def sweep_row(sweep: str) -> str:
    """A sweep's line: 1/d, then what is past stability and what pulls away with its own and the other flag."""
    own = composed(load_sweep(sweep).config_name).method_kwargs.radial_ce_normalize
    (past, away), (other_past, other_away) = marked(sweep, own), marked(sweep, not own)
    runs = len(load_sweep(sweep).runs())
    return f"| `{sweep}` | {runs} | {'on' if own else 'off'} | {past} | {away} | {other_past} | {other_away} |"


def test_the_equilibrium_of_every_cell_is_on_the_page() -> None:
    radial = [cell for cell in sorted(PAPER["configs"]) if "beta1" in PAPER["configs"][cell]]
    assert [row for row in map(equilibrium_row, radial) if row not in PAGE] == []


@pytest.mark.parametrize(
    "sweep",
    [
        sweep if sweep in QUICK else pytest.param(sweep, marks=pytest.mark.slow)
        for sweep in SWEEPS
        if re.search(r"_d\d+$", sweep)
    ],
)
def test_what_a_sweep_holds_of_unstable_runs_is_on_the_page(sweep: str) -> None:
    assert sweep_row(sweep) in PAGE


def test_the_paper_is_cited_alike_in_the_readme_on_a_card_and_in_the_citation_file() -> None:
    readme = (REPOSITORY / "README.md").read_text()
    paper = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())["preferred-citation"]
    authors = ", ".join(f"{author['given-names']} {author['family-names']}" for author in paper["authors"])
    assert f"{authors}: {paper['title']}" in CITATION
    assert f"url           = {{{paper['url']}}}" in readme
    assert paper["identifiers"][0]["value"] == "arXiv:2602.14272"
    assert all(part in readme for part in ("2602.14272", "pQ2LZnZDDp", "UniReps"))
    assert all(part in CITATION for part in ("2602.14272", "2026", "UniReps workshop 2025"))
