"""Tables and figures from results files."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from figure_checks import check_files
from matplotlib.figure import Figure
from scipy import stats

from radial_vicreg.cli import main
from radial_vicreg.paper.cells import build_tables
from radial_vicreg.paper.report import build_report
from radial_vicreg.paper.values import paper
from radial_vicreg.report.captioned import CaptionedFigure
from radial_vicreg.report.collect import collect, group
from radial_vicreg.report.statistics import pearson, spearman, summarise

KL, VICREG = "cifar100/resnet18/radialvicreg_d512", "cifar100/resnet18/vicreg_d512"


@pytest.fixture(autouse=True)
def _no_figures(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Drawing takes longer than all the rest."""
    if "figure" not in request.node.name:
        monkeypatch.setattr("radial_vicreg.paper.report.draw_all", lambda experiments: [])


def read_cells(out: Path, number: int) -> dict[tuple[str, str], dict[str, str]]:
    with open(out / f"table{number}.csv") as stream:
        return {(row["config"], row["metric"]): row for row in csv.DictReader(stream)}


def test_a_cell_is_the_mean_and_sample_deviation_over_its_seeds(make_run: Callable, tmp_path: Path) -> None:
    values = {5: 64.0, 6: 65.5, 7: 66.2}
    for seed, top1 in values.items():
        make_run(KL, seed=seed, top1=top1)
    build_report(tmp_path / "runs", tmp_path / "out")
    cell = read_cells(tmp_path / "out", 1)[KL, "top1"]
    assert float(cell["mean"]) == pytest.approx(np.mean(list(values.values())))
    assert float(cell["std"]) == pytest.approx(np.std(list(values.values()), ddof=1))
    assert (cell["seeds"], cell["paper_mean"], cell["paper_std"]) == ("3", "65.99", "0.08")


@pytest.mark.slow
def test_every_configuration_of_the_paper_fills_its_own_cells_and_no_other(make_run: Callable, tmp_path: Path) -> None:
    names = list(paper()["configs"])
    for place, name in enumerate(names):
        make_run(name, top1=10.0 + 3 * place)
    runs, problems = collect(tmp_path / "runs")
    assert problems == []
    cells = [cell for table in build_tables(group(runs)[0]) for cell in table.cells if cell.values]
    assert {cell.config for cell in cells} == {name for name in names if "w1" not in name}  # that one is for figure 4
    for cell in cells:
        own = 10.0 + 3 * names.index(cell.config)  # the MLP's figures are 1 lower, the projector's 2
        assert own - 3 < cell.values[cell.metrics[0]].mean <= own, cell.config


def test_the_tables_hold_every_value_of_the_paper() -> None:
    def numbers(node: object) -> list[float]:
        if isinstance(node, dict):
            return [x for value in node.values() for x in numbers(value)]
        return [float(x) for x in node] if isinstance(node, list) else []

    shown = [x for table in build_tables([]) for cell in table.cells for pair in cell.paper.values() for x in pair]
    assert sorted(shown) == sorted(numbers(paper()["tables"]))


def test_tables_2_and_3_and_4_take_the_right_probes(make_run: Callable, tmp_path: Path) -> None:
    make_run(KL, top1=60.0)
    make_run("celeba/resnet18/vicreg_d512", top1=62.0)
    build_report(tmp_path / "runs", tmp_path / "out")
    assert float(read_cells(tmp_path / "out", 3)[KL, "top1"]["mean"]) == 59.0  # the MLP's
    with open(tmp_path / "out" / "table4.csv") as stream:
        found = {row["column"]: row["mean"] for row in csv.DictReader(stream) if row["method"] == "VICReg"}
    assert (float(found["encoder d 512"]), float(found["projector d 512"])) == (62.0, 60.0)


def test_offline_probes_are_another_source_and_never_mixed_in(make_run: Callable, tmp_path: Path) -> None:
    make_run(KL, top1=60.0, probes={"online_linear": {"top1": 60.0}, "offline_linear_encoder": {"top1": 61.0}})
    make_run(VICREG, top1=60.0)
    build_report(tmp_path / "runs", tmp_path / "out", source="offline")
    cells = read_cells(tmp_path / "out", 1)
    assert float(cells[KL, "top1"]["mean"]) == 61.0
    assert cells[VICREG, "top1"]["mean"] == ""


def test_missing_cells_carry_their_command(make_run: Callable, tmp_path: Path) -> None:
    make_run(KL, top1=66.0)
    make_run(VICREG, top1=64.0)
    build_report(tmp_path / "runs", tmp_path / "out")
    markdown = (tmp_path / "out" / "table1.md").read_text()
    assert "| 64.00 / 84.00 (n 1)" in markdown
    assert "`radial-vicreg pretrain --config-name cifar100/resnet18/vicreg_d2048 seed=5`" in markdown


def test_seeds_of_different_experiments_are_never_averaged(make_run: Callable, tmp_path: Path) -> None:
    make_run(KL, "optimizer.lr=0.1", seed=5, top1=50.0)
    make_run(KL, "optimizer.lr=0.2", seed=6, top1=70.0)
    report = build_report(tmp_path / "runs", tmp_path / "out")
    cell = read_cells(tmp_path / "out", 1)[KL, "top1"]
    assert (cell["mean"], cell["seeds"]) == ("70.0", "1")
    assert len(report.experiments) == 2


def test_the_paper_s_own_setting_is_preferred_and_the_others_are_named(make_run: Callable, tmp_path: Path) -> None:
    make_run(KL, top1=66.0)
    make_run(KL, "optimizer.lr=0.1", top1=50.0)
    build_report(tmp_path / "runs", tmp_path / "out")
    cell = read_cells(tmp_path / "out", 1)[KL, "top1"]
    assert float(cell["mean"]) == 66.0
    assert "not used: " in cell["remarks"]
    assert "(lr 0.1 (0.3))" in cell["remarks"]


def test_a_run_that_differs_from_the_paper_says_in_what(make_run: Callable, tmp_path: Path) -> None:
    make_run(KL, "max_epochs=20")
    build_report(tmp_path / "runs", tmp_path / "out")
    assert read_cells(tmp_path / "out", 1)[KL, "top1"]["deviations"] == "max_epochs 20 (400)"


def test_another_method_fills_no_cell(make_run: Callable, tmp_path: Path) -> None:
    for override in (
        *("radial_center=true", "e2mc_loss_weight=1", "mean_loss_weight=1", "radial_ce_loss_weight=10"),
        *("sim_loss_weight=10", "radial_objective=wasserstein"),
    ):
        make_run(KL, f"method_kwargs.{override}")
    make_run(KL, "backbone.name=resnet50")
    make_run(KL, "data.name=other")
    report = build_report(tmp_path / "runs", tmp_path / "out")
    assert len(report.experiments) == 8
    assert report.filled[0] == 0


def test_without_radial_weights_a_run_is_vicreg(make_run: Callable, tmp_path: Path) -> None:
    make_run(KL, "method_kwargs.radial_ce_loss_weight=0", "optimizer.lr=0.03")
    build_report(tmp_path / "runs", tmp_path / "out")
    assert read_cells(tmp_path / "out", 1)[VICREG, "top1"]["seeds"] == "1"


def test_repeated_seeds_hosts_and_versions_are_named(make_run: Callable, tmp_path: Path) -> None:
    make_run(KL, seed=5, top1=50.0)
    make_run(KL, seed=5, top1=60.0)
    make_run(KL, seed=6, top1=60.0, host="solo", versions={"torch": "9"})
    report = build_report(tmp_path / "runs", tmp_path / "out")
    assert [(problem.path, problem.kind) for problem in report.problems] == [("0000/results.json", "repeated")]
    assert float(read_cells(tmp_path / "out", 1)[KL, "top1"]["mean"]) == 60.0
    notes = " ".join(report.experiments[0].notes)
    assert "different hosts (solo, standalone)" in notes
    assert "different versions of torch" in notes


def test_seeds_of_one_request_in_several_precisions_are_one_experiment_with_a_note(
    make_run: Callable, tmp_path: Path
) -> None:
    for seed, became in ((5, "32-true"), (6, "bf16-mixed")):
        effective = {"precision": became, "sync_batchnorm": False, "device": "cpu"}
        make_run(KL, "precision=auto", seed=seed, effective=effective)
    (experiment,) = build_report(tmp_path / "runs", tmp_path / "out").experiments
    assert len(experiment.runs) == 2
    assert "seeds ran in different precisions (32-true, bf16-mixed)" in experiment.notes


def test_image_folders_of_other_names_are_other_experiments(make_run: Callable, tmp_path: Path) -> None:
    for seed, folder in enumerate(("a/train", "b/train")):
        make_run("quickstart", f"data.train_path=/data/{folder}", seed=seed)
    assert len(build_report(tmp_path / "runs", tmp_path / "out").experiments) == 2


def test_files_that_are_not_results_are_named_and_skipped(make_run: Callable, tmp_path: Path) -> None:
    make_run(KL)
    texts = {
        **dict.fromkeys(('{"schema_version": 1, "sta', "", "\x00\x01"), "unreadable"),
        **dict.fromkeys(('{"accuracy": 1}', "[1]"), "unrecognized"),
    }
    for place, text in enumerate(texts):
        (tmp_path / "runs" / f"bad {place}").mkdir()
        (tmp_path / "runs" / f"bad {place}" / "results.json").write_text(text)
    report = build_report(tmp_path / "runs", tmp_path / "out")
    expected = {f"bad {place}/results.json": kind for place, kind in enumerate(texts.values())}
    assert {problem.path: problem.kind for problem in report.problems} == expected
    page = (tmp_path / "out" / "report.html").read_text()
    assert all(path in page for path in expected)
    assert len(report.experiments) == 1


def test_failed_and_partial_runs_are_listed_and_not_averaged(make_run: Callable, tmp_path: Path) -> None:
    make_run(KL, seed=5, top1=60.0)
    for seed, status in enumerate(("failed", "running", "interrupted"), 6):
        make_run(KL, seed=seed, top1=10.0, status=status, error="NonFiniteLossError: <nan>")
    report = build_report(tmp_path / "runs", tmp_path / "out")
    assert [problem.kind for problem in report.problems] == ["failed", "partial", "partial"]
    assert float(read_cells(tmp_path / "out", 1)[KL, "top1"]["mean"]) == 60.0
    assert "&lt;nan&gt;" in (tmp_path / "out" / "report.html").read_text()


def test_without_a_finished_run_nothing_is_written_and_one_line_says_so(
    make_run: Callable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["report", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    assert main(command) == 2
    (tmp_path / "runs").mkdir()
    assert main(command) == 2
    make_run(KL, status="running")
    assert main(command) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition("error: ")[2].replace(str(tmp_path), "") for line in lines] == [
        "/runs is not a folder; give the folder that contains your runs",
        "/runs contains no finished run; `radial-vicreg runs /runs` lists all runs",
        "/runs contains no finished run (not used: 1 partial); `radial-vicreg runs /runs` lists all runs",
    ]
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_every_figure_is_drawn_from_a_sweep_and_the_page_needs_no_other_file(
    make_run: Callable, tmp_path: Path
) -> None:
    for beta1 in (1, 100):
        for beta2 in (0, 0.5):
            weights = [f"method_kwargs.radial_{key}_loss_weight={b}" for key, b in (("ce", beta1), ("ent", beta2))]
            make_run(KL, *weights, top1=60 + beta1 / 50, w1=beta2 + 100 / beta1, epochs=2)
    make_run(VICREG, w1=8.0, top1=50)
    make_run("cifar100/resnet18/radialvicreg_w1_d512", w1=0.3)
    build_report(tmp_path / "runs", tmp_path / "out")
    for name in ("figure2", "figure2d", "figure4", "figure5", "curves"):
        check_files(tmp_path / "out" / "figures" / name)
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 5
    assert 'src="figures' not in page
    assert "http" not in page


def test_a_report_counts_one_run_and_two_runs(make_run: Callable, tmp_path: Path) -> None:
    make_run(KL, seed=5)
    assert build_report(tmp_path / "runs", tmp_path / "out").summary.startswith("1 finished run in 1 experiment; ")
    make_run(KL, seed=6)
    assert build_report(tmp_path / "runs", tmp_path / "out").summary.startswith("2 finished runs in 1 experiment; ")


def test_ones_own_experiments_stand_before_the_papers_tables_and_empty_ones_come_last(
    make_run: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "radial_vicreg.paper.report.draw_all", lambda _: [CaptionedFigure("curves", Figure((1, 1)), "drawn")]
    )
    make_run(KL)
    build_report(tmp_path / "runs", tmp_path / "out")
    order = ["All experiments", "Table 1", "Table 3", "Figures", "Missing", "Table 2", "Table 4"]
    page = (tmp_path / "out" / "report.html").read_text()
    headings = [re.sub("[:(].*", "", found).strip() for found in re.findall("<(?:h2|summary)>(.*?)</", page)]
    assert headings == order


@pytest.mark.slow
def test_hundreds_of_runs_are_read(make_run: Callable, tmp_path: Path) -> None:
    for beta1, beta2 in ((0, 0), (1, 0), (1, 0.5), (100, 0), (100, 0.5), (100, 1)):
        weights = [f"method_kwargs.radial_{key}_loss_weight={b}" for key, b in (("ce", beta1), ("ent", beta2))]
        for seed in range(50):
            make_run(KL, *weights, seed=seed, top1=40 + seed, epochs=100)
    report = build_report(tmp_path / "runs", tmp_path / "out")
    assert [len(experiment.runs) for experiment in report.experiments] == [50] * 6


def test_statistics_equal_scipys() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=30)
    y = -x + rng.normal(size=30)
    found, reference = pearson(x, y), stats.pearsonr(x, y)
    assert found is not None
    assert found.value == pytest.approx(reference.statistic)
    assert (found.low, found.high) == pytest.approx(tuple(reference.confidence_interval(0.95)))
    ranked = spearman(x, y)
    assert ranked is not None
    assert ranked.value == pytest.approx(stats.spearmanr(x, y).statistic)
    assert ranked.low < ranked.value < ranked.high


def test_too_few_or_constant_points_have_no_correlation() -> None:
    for x, y in (([1, 2, 3], [1, 2, 3]), ([1, 1, 1, 1], [1, 2, 3, 4])):
        assert pearson(x, y) is None
        assert spearman(x, y) is None


def test_one_seed_has_no_standard_deviation() -> None:
    found = summarise([3.0])
    assert found is not None
    assert (found.mean, found.std, found.count) == (3.0, None, 1)
    assert summarise([]) is None


def test_json_numbers_only_count_as_figures(make_run: Callable, tmp_path: Path) -> None:
    file = make_run(KL)
    make_run(VICREG)
    content = json.loads(file.read_text())
    content["probes"]["online_linear"] = {"top1": None, "top5": "no"}
    file.write_text(json.dumps(content))
    build_report(tmp_path / "runs", tmp_path / "out")
    assert read_cells(tmp_path / "out", 1)[KL, "top1"]["mean"] == ""
