"""The pages of the studies hold what ``python -m benchmarks.studies`` makes of the kept results, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import offset, studies
from radial_vicreg.compose import compose, run_config
from radial_vicreg.report.setting import Setting
from radial_vicreg.results import RunResults

ROOT = Path(__file__).parents[2]
STUDIES = [name for name in studies.STUDIES if (studies.EVIDENCE / f"{name}_tune").is_dir()]


@pytest.mark.parametrize("name", STUDIES)
def test_the_page_holds_every_table_of_the_script(name: str) -> None:
    page = (ROOT / "docs" / f"{name}.md").read_text()
    tables = studies.tables(name)
    assert tables
    for title, table in tables.items():
        assert table in page, f"docs/{name}.md lacks this table ({title}) of `python -m benchmarks.studies`:\n{table}"


@pytest.mark.parametrize("name", [name for name in STUDIES if (studies.EVIDENCE / name).is_dir()])
def test_final_runs_have_the_rates_that_were_chosen(name: str) -> None:
    trials, finals = (studies.runs_of(studies.EVIDENCE / f"{name}{suffix}") for suffix in ("_tune", ""))
    chosen = {method: studies.best_rate(trials, method) for method in studies.methods_of(trials)}
    assert {(run.setting.kind, studies.rate_of(run)) for run in finals} == set(chosen.items())
    for file in (ROOT / "yaml" / name).glob("*.yaml"):
        config = run_config(compose("cell", [f"+{name}={file.stem}"]))
        content = {"schema_version": 2, "status": "finished", "config": config.plain()}
        method = Setting.of(RunResults.model_validate(content)).kind
        assert config.optimizer.lr == chosen[method], file


def test_a_change_with_length_is_paired_by_seed() -> None:
    # (first - second) grows by 1, 2 and 3 points: mean 2, t interval 2 +- 4.30 / sqrt(3).
    first, second = {5: 41.0, 6: 44.0, 7: 40.0}, {5: 40.0, 6: 42.0, 7: 37.0}
    short = dict.fromkeys(first, 0.0)
    found = studies.compare({seed: first[seed] - second[seed] for seed in first}, short)
    assert (found.value, found.low, found.high) == pytest.approx((2.0, 2 - 2.4841, 2 + 2.4841), abs=1e-4)
    wider = studies.compare(first, second, level=0.975)
    assert wider.low is not None
    assert found.low is not None
    assert wider.low < found.low


def test_the_figure_of_the_offset_plots_every_method_that_trained_longest() -> None:
    if not any((studies.EVIDENCE / name).is_dir() for name in offset.STUDIES):
        pytest.skip("no final run of the second study yet")
    runs = offset.longest_runs()
    figure = offset.offset_figure(runs)
    for axis in figure.axes:
        assert len(axis.lines) == len(studies.methods_of(runs))
