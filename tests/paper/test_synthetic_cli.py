from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from figure_checks import check_files
from helpers import one_line
from omegaconf import OmegaConf

from radial_vicreg import cli
from radial_vicreg.io.files import write_json
from radial_vicreg.paper.synthetic import figure1, figure3, sweep
from radial_vicreg.paper.synthetic.distances import measure
from radial_vicreg.paper.synthetic.distributions import sample
from radial_vicreg.paper.synthetic.settings import Options, SyntheticConfig


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Presets of a few tiny runs."""
    betas = {"beta1": (0.0, 1.0), "beta2": (0.0, 1.0)}
    base = SyntheticConfig(distribution="mixture", num_samples=60, steps=50, lr=0.02)
    monkeypatch.setitem(sweep.PRESETS, "quick", sweep.Grid(base, {"alpha": (0.25, 0.99), **betas}, subsample=30))
    monkeypatch.setitem(figure1.SIZES, "quick", figure1.Size(60, 6, 300, 0.01, 0.0005, (0.25, 0.99), 3, 30))
    monkeypatch.setitem(figure3.SIZES, "quick", figure3.Size(60, 50, 30, (0.02,)))
    full = sweep.PRESETS["full"]
    monkeypatch.setitem(sweep.PRESETS, "full", sweep.Grid(full.base, {**full.axes, **betas}, full.subsample))


def test_cfg_prints_every_key_with_its_value(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["synthetic", "--cfg", "beta2=0"]) == 0
    printed = OmegaConf.to_container(OmegaConf.create(capsys.readouterr().out))
    assert printed == {**asdict(Options()), "beta2": 0}


def test_a_run_of_a_file_of_ones_own_writes_results_snapshots_and_a_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    lines = f"defaults: [synthetic, _self_]\nnum_samples: 80\nsteps: 60\nsnapshots: 2\nout: {out}\n"
    (tmp_path / "mine.yaml").write_text(lines)
    command = ["synthetic", "--config-path", str(tmp_path), "--config-name", "mine"]
    assert cli.main([*command, "distribution=sunshine"]) == 0
    results = json.loads((out / "results.json").read_text())
    config = SyntheticConfig(distribution="sunshine", num_samples=80, steps=60)
    assert (results["config"], results["key"]) == (asdict(config), config.key)
    assert set(results["before"]) == set(results["after"])
    assert np.load(out / "snapshots.npz")["points"].shape == (3, 80, 2)
    check_files(out / "run")
    assert "w2_exact" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["figure", "1"], ["sweep"]], ids=["figure", "sweep"])
def test_the_results_of_a_training_are_kept_and_found_before_the_work(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(figure1, "make_figure1", None)  # nothing may call them
    monkeypatch.setattr(sweep, "sweep", None)
    content = {"schema_version": 2, "status": "finished", "config": {"method": "vicreg", "method_kwargs": {}}}
    file = write_json(tmp_path / "results.json", content)
    assert cli.main(["synthetic", *command, "--out", str(tmp_path)]) == 2
    one_line(capsys.readouterr().err, str(file))
    assert json.loads(file.read_text()) == content


@pytest.mark.slow
@pytest.mark.parametrize("dim", [1, 3])
def test_other_dimensions_run_to_the_end(dim: int, tmp_path: Path) -> None:
    arguments = ["distribution=gaussian", f"dim={dim}", "num_samples=50", "steps=20", "objective=wasserstein"]
    assert cli.main(["synthetic", *arguments, f"out={tmp_path}"]) == 0
    assert (tmp_path / "run.png").exists()


def test_a_sweep_prints_the_shape_of_figure_1c(small: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["synthetic", "sweep", "--out", str(tmp_path), "--workers", "1", "--shard", "0/1"]) == 0
    printed = capsys.readouterr().out
    assert "8 runs, 0 diverged" in printed
    assert "Radial-VCReg" in printed


def figure_1(out: Path, *more: str) -> dict:
    assert cli.main(["synthetic", "figure", "1", "--out", str(out), "--workers", "1", *more]) == 0
    return json.loads((out / "results.json").read_text())


def test_figure_1_gives_median_range_and_diverged_share_of_every_method(
    small: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = figure_1(tmp_path)
    every = {"x", "0.25", "0.99"}
    alphas = {**dict.fromkeys(("start", "vcreg", "radial_vcreg", "radial_vcreg_stable"), every)}
    alphas["radial_vcreg_cosine"] = {"x"}
    assert {method: set(by_alpha) for method, by_alpha in numbers["methods"].items()} == alphas
    for by_alpha in numbers["methods"].values():
        for spread in by_alpha.values():
            distance = spread["w2_exact"]
            finished = [value for value in distance["by_seed"] if value is not None]
            assert len(distance["by_seed"]) == spread["runs"] == 3
            assert spread["diverged"] == 3 - len(finished)
            assert distance["median"] == pytest.approx(np.median(finished))
            assert (distance["least"], distance["largest"]) == (min(finished), max(finished))
    published, control = (numbers["settings"][method] for method in ("radial_vcreg", "radial_vcreg_stable"))
    assert {name for name in published if published[name] != control[name]} == {"lr"}
    assert [panel["title"][:4] for panel in numbers["panels"]] == ["(a) ", "(b) ", "(b')"]
    (seed,) = {panel["seed"] for panel in numbers["panels"]}  # that of the median, never the best
    distance = numbers["methods"]["radial_vcreg"]["x"]["w2_exact"]
    assert distance["by_seed"][seed] == distance["median"]
    check_files(tmp_path / "figure1")
    printed = capsys.readouterr().out
    assert all(words in printed for words in ("seeds 0 to 2", "diverged", "biased low"))


@pytest.mark.slow
def test_figure_1_counts_diverged_runs(small: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(figure1.SIZES, "quick", figure1.Size(60, 6, 30, 1e4, 0.0005, (0.99,), 2, 30))
    numbers = figure_1(tmp_path)
    spread = numbers["methods"]["radial_vcreg"]["0.99"]
    assert spread["diverged"] == spread["runs"] == 2
    assert spread["w2_exact"] == {"median": None, "least": None, "largest": None, "by_seed": [None, None]}
    assert numbers["panels"][1]["diverged"]
    assert (tmp_path / "figure1.png").exists()


@pytest.mark.slow
def test_figure_1_repeats_no_run_and_shows_the_best_of_a_sweep(
    small: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert cli.main(["synthetic", "sweep", "--out", str(tmp_path / "sweep"), "--workers", "1"]) == 0
    command = tmp_path / "figure", "--sweep", str(tmp_path / "sweep")
    numbers = figure_1(*command)
    least = {"0.25": np.inf, "0.99": np.inf}
    for row in sweep.read_rows(tmp_path / "sweep"):
        if row["config"]["beta1"] + row["config"]["beta2"] > 0:
            alpha = f"{row['config']['alpha']:g}"
            least[alpha] = min(least[alpha], row["after"]["w2_exact"])
    assert {alpha: best["w2_exact"] for alpha, best in numbers["best_of_sweep"].items()} == least
    file = tmp_path / "figure" / "runs" / "results-0-of-1.jsonl"
    rows = file.read_bytes()
    monkeypatch.setattr(figure1, "run", None)  # nothing may call it
    assert figure_1(*command) == numbers
    assert file.read_bytes() == rows
    file.write_bytes(rows[: len(rows) // 2])  # a kill in the middle of a line
    assert figure_1(*command) == numbers


def test_the_full_preset_of_figure_1_is_the_authors_command() -> None:
    runs = figure1.planned_runs(figure1.SIZES["full"])
    expected = SyntheticConfig(
        distribution="x", num_samples=10_000, steps=200_000, lr=0.5, schedule="linear", warmup_steps=100,
        beta1=100.0, beta2=100.0, lambda2=1.0, lambda3=1.0,
    )  # fmt: skip
    assert runs["radial_vcreg"]["x"][0] == expected
    assert expected.spacing(10_000) == figure1.SIZES["full"].m
    assert len(runs["radial_vcreg"]["0.5"]) >= 5


@pytest.mark.slow
def test_figure_3_covers_x_and_sunshine(small: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["synthetic", "figure", "3", "--out", str(tmp_path), "--workers", "1"]) == 0
    numbers = json.loads((tmp_path / "results.json").read_text())
    assert numbers["runs"] == 8
    assert [title[:5] for title in numbers["radius"]] == [f"(b{number}) " for number in range(1, 7)]
    check_files(tmp_path / "figure3")
    assert "the opposite sign" in capsys.readouterr().out


@pytest.mark.parametrize(("size", "expected"), [(1000, 0.255), pytest.param(10_000, 0.219, marks=pytest.mark.slow)])
def test_figure_3c_holds_a_normal_sample_of_the_runs_own_size(size: int, expected: float) -> None:
    normal = figure3.normal_reference(figure3.Size(size, 1, 100, (0.5,)))
    assert normal["e2mc"] == pytest.approx(expected, abs=0.005)
    # What the authors log as E2MC is plus the marginal entropy; e2mc is minus it, and a little hypercovariance.
    assert normal["marginal_entropy"] == pytest.approx(-expected, abs=0.01)


def test_figure_3c_draws_the_loss_and_correlates_both_signs() -> None:
    def row(scale: float) -> dict:
        points = scale * sample("gaussian", 200, seed=0)
        return {"config": {"distribution": "x"}, "after": measure(points, subsample=50)}

    correlations = figure3._rank_correlations([row(scale) for scale in (1.0, 0.7, 0.4, 0.2)], "x")
    assert correlations["radial_kl ~ e2mc"] == pytest.approx(1)
    assert correlations["radial_kl ~ marginal_entropy"] == pytest.approx(-1)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("beta1=abc", "beta1: Value 'abc'"),
        ("beta1=-1", "beta1 is a loss weight"),
        ("beta3=1", "did you mean beta"),
        ("distribution=y", "unknown distribution 'y'; choose one of ball"),
        ("distribution=sunshine dim=3", "must be 2, got 3"),
        ("num_samples=1", "num_samples at least 2"),
        ("objective=l1", "one of kl, wasserstein, reverse_kl, e2mc, got 'l1'"),
        ("schedule=step", "cosine, linear, constant, got 'step'"),
        ("alpha=2 distribution=mixture", "[0, 1], got 2.0"),
        ("seed=-1", "seed must be at least 0"),
        ("lr=-0.1", "lr must be positive"),
        ("m=10 num_samples=10", "1..N-1 = 1..9, got 10"),
        ("snapshots=0 steps=10", "snapshots and records must be at least 1"),
        ("device=nowhere steps=10", "device nowhere cannot be used ("),
        ("device=meta steps=10", "device meta cannot be used ("),
        ("'", "' is not an override (key=value)"),
        ("figure 1 --seeds 0", "seeds must be at least 1, got 0"),
        ("figure 1 --sweep nowhere", "no sweep results in nowhere"),
        ("figure 3 --seeds 2", "--seeds and --sweep are options of figure 1"),
        ("sweep --shard 2/2 --out unused", "shard i/n needs 0 <= i < n, got 2/2"),
        ("sweep --workers 0 --out unused", "workers must be at least 1"),
    ],
)
def test_wrong_input_gets_one_line_and_status_2(
    command: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["synthetic", *command.split()]) == 2
    captured = capsys.readouterr()
    one_line(captured.err, message)
    assert captured.out == ""
