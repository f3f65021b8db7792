"""Synthetic results of the first release (commit fc2057d): the sweep goes on from them, and the figures read them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from old_runs import SYNTHETIC_GRID

from radial_vicreg.cli import main
from radial_vicreg.synthetic import figure1
from radial_vicreg.synthetic.config import SyntheticConfig
from radial_vicreg.synthetic.selection import METHODS, best_settings, summary_lines
from radial_vicreg.synthetic.sweep import PRESETS, read_rows

SWEEP = ["synthetic", "sweep", "--out", "synthetic/sweep", "--workers", "1"]
RESULTS = Path("synthetic/sweep/results-0-of-1.jsonl")


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch, release: Path) -> None:
    """The presets as small as when the fixtures were made."""
    monkeypatch.setitem(PRESETS, "quick", SYNTHETIC_GRID)
    monkeypatch.setitem(figure1.SIZES, "quick", figure1.Size(64, 6, 50, 0.05, 0.005, (0.25, 0.99), 2, 32))


def test_every_row_is_known_to_the_sweep_and_made_once(capsys: pytest.CaptureFixture[str]) -> None:
    before = RESULTS.read_bytes()
    assert main(SWEEP) == 0
    assert "32 of 32 runs of this sweep" in capsys.readouterr().out
    assert RESULTS.read_bytes() == before


@pytest.mark.slow
def test_a_missing_row_is_made_again_and_is_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {json.dumps(row["config"], sort_keys=True): row for row in read_rows(RESULTS.parent)}
    kept, torn = RESULTS.read_text().splitlines(keepends=True)[:-1], '{"key": "torn by a ki'
    RESULTS.write_text("".join(kept) + torn)
    assert main(SWEEP) == 0
    assert "32 of 32 runs of this sweep" in capsys.readouterr().out
    made = read_rows(RESULTS.parent)[-1]
    for name, value in rows[json.dumps(made["config"], sort_keys=True)]["after"].items():
        assert made["after"][name] == pytest.approx(value, rel=1e-6), name


def test_the_best_settings_are_chosen_from_the_rows() -> None:
    rows = read_rows(RESULTS.parent)
    assert set(best_settings(rows)) == {(alpha, method) for alpha in (0.25, 0.99) for method in METHODS}
    assert summary_lines(rows)[-1].startswith("32 runs, 2 diverged")


@pytest.mark.slow
def test_figure_1_draws_the_best_settings_of_the_rows_beside() -> None:
    given = ["--sweep", "synthetic/sweep", "--out", "figure1", "--workers", "1"]
    assert main(["synthetic", "figure", "1", *given]) == 0
    best = json.loads(Path("figure1/results.json").read_text())["best_of_sweep"]
    assert set(best) == {"0.25", "0.99"}
    assert Path("figure1/figure1.png").is_file()


def test_a_single_run_s_results_say_how_it_started() -> None:
    results = json.loads(Path("synthetic/run/results.json").read_text())
    with np.load("synthetic/run/snapshots.npz") as snapshots:
        steps, points = snapshots["steps"], snapshots["points"]
    assert steps.tolist() == [0, 25, 50]
    np.testing.assert_allclose(SyntheticConfig(**results["config"]).start(), points[0], rtol=1e-6)
