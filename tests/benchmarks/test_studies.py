"""The pages of the studies hold what ``python -m benchmarks.studies`` makes of the kept results, and nothing else."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from benchmarks import offset, studies
from radial_vicreg.compose import compose, run_config
from radial_vicreg.report.collect import Run, group
from radial_vicreg.report.experiments import experiment_rows
from radial_vicreg.report.formats import to_markdown
from radial_vicreg.report.setting import Setting
from radial_vicreg.runs.results import RESULTS, RunResults

ROOT = Path(__file__).parents[2]
STUDIES = [name for name in studies.STUDIES if (studies.EVIDENCE / f"{name}_tune").is_dir()]


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_the_page_holds_every_table_of_the_script(name: str) -> None:
    page = (ROOT / "docs" / f"{name}.md").read_text()
    tables = studies.tables(name)
    assert tables
    for title, table in tables.items():
        assert table in page, f"docs/{name}.md lacks this table ({title}) of `python -m benchmarks.studies`:\n{table}"


def test_the_demonstration_has_the_table_of_its_report() -> None:
    runs = studies.runs_of(studies.EVIDENCE / "demonstration")
    header, body = experiment_rows(group(runs)[0])
    assert len(runs) == 8
    shown = [index for index, name in enumerate(header) if name not in ("s/step", "memory (MB)")]
    table = to_markdown([header[index] for index in shown], [[row[index] for index in shown] for row in body])
    assert table in (ROOT / "docs" / "report.md").read_text(), f"docs/report.md lacks this table:\n{table}"


@pytest.mark.slow  # each composition takes a quarter of a second
@pytest.mark.parametrize("name", [name for name in STUDIES if (studies.EVIDENCE / name).is_dir()])
def test_final_runs_have_the_rates_that_were_chosen(name: str) -> None:
    trials, finals = (studies.runs_of(studies.EVIDENCE / f"{name}{suffix}") for suffix in ("_tune", ""))
    chosen = {method: studies.best_rate(trials, method) for method in studies.methods_of(trials)}
    assert {(run.setting.kind, studies.rate_of(run)) for run in finals} == set(chosen.items())
    for file in (ROOT / "yaml" / "radialvicreg" / name).glob("*.yaml"):
        config = run_config(compose("cell", [f"+radialvicreg/{name}={file.stem}"]))
        content = {"schema_version": 2, "status": "finished", "config": config.plain()}
        method = Setting.of(RunResults.model_validate(content)).kind
        assert config.optimizer.lr == chosen[method], file


def keep(folder: Path, run: Run, accuracy: float, **changes: object) -> None:
    """Leave a kept result with another accuracy, and with other settings at the top of its configuration."""
    content = run.results.plain()
    content["config"] |= changes
    content["probes"]["frozen_linear"]["trained"]["top1"] = accuracy
    file = folder / f"{len(list(folder.glob('*')))}" / RESULTS
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(content))


@cache
def kept_runs(method: str) -> list[Run]:
    """The kept final runs of a method, seeds 15, 16 and 17."""
    runs = studies.runs_of(studies.EVIDENCE / "study2")
    return sorted((run for run in runs if run.setting.kind == method), key=lambda run: run.seed or 0)[:3]


def test_a_change_with_length_is_paired_by_seed(tmp_path: Path) -> None:
    # From 12 to 100 epochs the difference grows by 1, 2 and 3 points: 2, and 4.303 / sqrt(3) on either side.
    for method, early, late in ((studies.KL, (40, 42, 37), (50, 50, 50)), (studies.MEAN, (41, 44, 40), (52, 54, 56))):
        for run, *accuracies in zip(kept_runs(method), early, late, strict=True):
            keep(tmp_path / "study2", run, accuracies[0])
            keep(tmp_path / "study2_length", run, accuracies[1], max_epochs=100)
    table = studies.tables("study2", tmp_path)["change with length"].splitlines()[-1]
    assert table.startswith("| 12 to 100 epochs ")
    assert "+2.00 [−0.48, 4.48]" in table
    assert "| 3 " in table


def test_a_rate_at_which_a_seed_is_missing_is_not_chosen(tmp_path: Path) -> None:
    for rate, accuracies in ((0.002, (41, 42)), (0.004, (50,))):
        for run, accuracy in zip(kept_runs(studies.KL), accuracies, strict=False):
            keep(tmp_path, run, accuracy, optimizer={**run.results.config["optimizer"], "lr": rate})
    assert studies.best_rate(studies.runs_of(tmp_path), studies.KL) == 0.002


def test_the_figure_of_the_offset_plots_every_method_that_trained_longest() -> None:
    runs = offset.longest_runs()
    figure = offset.offset_figure(runs)
    for axis in figure.axes:
        assert len(axis.lines) == len(studies.methods_of(runs))
