from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from omegaconf import OmegaConf

from radial_vicreg.synthetic import paper, sweep
from radial_vicreg.synthetic.cli import Options, main
from radial_vicreg.synthetic.run import RunConfig

YAML = Path(__file__).parents[2] / "yaml" / "synthetic.yaml"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Presets of a few tiny runs."""
    grid = sweep.Grid(
        RunConfig(distribution="mixture", num_samples=60, steps=50, lr=0.02),
        {"alpha": (0.25, 0.99), "beta1": (0.0, 1.0), "beta2": (0.0, 1.0)},
        subsample=30,
    )
    monkeypatch.setitem(sweep.PRESETS, "quick", grid)
    monkeypatch.setitem(paper.SIZES, "quick", paper.Size(60, 50, 2, 30, (0.02,)))
    betas = {"beta1": (0.0, 1.0), "beta2": (0.0, 1.0)}
    full = sweep.PRESETS["full"]
    monkeypatch.setitem(sweep.PRESETS, "full", sweep.Grid(full.base, {**full.axes, **betas}, full.subsample))


def test_yaml_states_the_defaults_of_the_options() -> None:
    assert OmegaConf.to_container(OmegaConf.load(YAML)) == asdict(Options())


def test_a_run_writes_results_snapshots_and_a_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert main(["distribution=sunshine", "num_samples=80", "steps=60", "snapshots=2", f"out={out}"]) == 0
    results = json.loads((out / "results.json").read_text())
    assert results["config"]["distribution"] == "sunshine"
    assert results["key"] == RunConfig(distribution="sunshine", num_samples=80, steps=60).key
    assert set(results["before"]) == set(results["after"])
    snapshots = np.load(out / "snapshots.npz")
    assert snapshots["points"].shape == (3, 80, 2)
    assert (out / "run.png").read_bytes().startswith(b"\x89PNG")
    assert "w2_exact" in capsys.readouterr().out


@pytest.mark.parametrize("dim", [1, 3])
def test_other_dimensions_run_to_the_end(dim: int, tmp_path: Path) -> None:
    arguments = ["distribution=gaussian", f"dim={dim}", "num_samples=50", "steps=20", "objective=wasserstein"]
    assert main([*arguments, f"out={tmp_path}"]) == 0
    assert (tmp_path / "run.png").exists()


def test_a_sweep_prints_the_shape_of_figure_1c(small: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "--out", str(tmp_path), "--workers", "1", "--shard", "0/1"]) == 0
    printed = capsys.readouterr().out
    assert "8 runs, 0 diverged" in printed
    assert "Radial-VCReg" in printed


def test_figure_1_chooses_on_other_seeds_than_it_shows(small: None, tmp_path: Path) -> None:
    assert main(["figure", "1", "--out", str(tmp_path), "--workers", "1", "--seeds", "2"]) == 0
    numbers = json.loads((tmp_path / "figure1.json").read_text())
    assert set(numbers["w2_exact"]) == {"start", "vcreg", "radial_vcreg", "radial_vcreg_1_1"}
    assert all(len(values) == 2 for by_alpha in numbers["w2_exact"].values() for values in by_alpha.values())
    chosen, shown = ({row["config"]["seed"] for row in sweep.read_rows(tmp_path / name)} for name in ("choice", "runs"))
    assert not chosen & shown
    assert (tmp_path / "figure1.png").exists()


def test_figure_1_takes_a_sweep_that_was_made_before(small: None, tmp_path: Path) -> None:
    assert main(["sweep", "--out", str(tmp_path / "sweep"), "--workers", "1"]) == 0
    arguments = ["figure", "1", "--sweep", str(tmp_path / "sweep"), "--out", str(tmp_path / "figure"), "--workers", "1"]
    assert main(arguments) == 0
    assert not (tmp_path / "figure" / "choice").exists()


def test_figure_3_covers_x_and_sunshine(small: None, tmp_path: Path) -> None:
    assert main(["figure", "3", "--out", str(tmp_path), "--workers", "1"]) == 0
    numbers = json.loads((tmp_path / "figure3.json").read_text())
    assert numbers["runs"] == 8
    assert len(numbers["radius"]) == 6
    assert (tmp_path / "figure3.png").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["beta1=abc"], "beta1: Value 'abc'"),
        (["beta1=-1"], "beta1 is a loss weight"),
        (["beta3=1"], "did you mean beta"),
        (["distribution=y"], "unknown distribution 'y'"),
        (["m=1.5"], "m: Value '1.5'"),
        (["snapshots=0", "steps=10"], "snapshots and records must be at least 1"),
        (["engine=gpu", "steps=10"], "engine must be cpu or torch, got 'gpu'"),
        (["engine=torch", "device=nowhere", "steps=10"], "device 'nowhere' is not available"),
        (["'"], ""),
        (["figure"], "the following arguments are required: number"),
        (["figure", "2"], "invalid choice: '2'"),
        (["figure", "1", "--seeds", "0"], "seeds must be at least 1, got 0"),
        (["figure", "1", "--sweep", "nowhere"], "no sweep results in nowhere"),
        (["sweep", "--shard", "2/2"], "a shard is i/n"),
        (["sweep", "--workers", "0", "--out", "unused"], "workers must be at least 1"),
    ],
)
def test_wrong_input_gets_one_line_and_status_2(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


@pytest.mark.parametrize("arguments", [["--help"], ["figure", "--help"], ["sweep", "--help"], ["--cfg"]])
def test_help_exits_well(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    assert capsys.readouterr().out
