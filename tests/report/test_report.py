"""Tables, problems and statistics from results files."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from figure_checks import check_files
from helpers import one_line
from matplotlib.figure import Figure
from scipy import stats

from radial_vicreg.cli import main
from radial_vicreg.paper.cells import build_tables
from radial_vicreg.paper.report import build_report
from radial_vicreg.paper.values import paper
from radial_vicreg.report.captioned import CaptionedFigure
from radial_vicreg.report.statistics import pearson, spearman, summarise

KL, VICREG = "cifar100/resnet18/radialvicreg_d512", "cifar100/resnet18/vicreg_d512"
Report = Callable[..., dict[tuple[str, str], dict[str, str]]]


def test_a_cell_is_mean_and_sample_deviation_over_seeds(
    make_run: Callable, report: Report, capsys: pytest.CaptureFixture[str]
) -> None:
    values = {5: 64.0, 6: 65.5, 7: 66.2}
    for seed, top1 in values.items():
        make_run(KL, seed=seed, top1=top1)
    cell = report()[KL, "d 512"]
    assert "3 finished runs in 1 experiment; " in capsys.readouterr().out
    assert float(cell["mean"]) == pytest.approx(np.mean(list(values.values())))
    assert float(cell["std"]) == pytest.approx(np.std(list(values.values()), ddof=1))
    assert (cell["seeds"], cell["paper_mean"], cell["paper_std"]) == ("3", "65.99", "0.08")


@pytest.mark.slow
def test_every_configuration_fills_its_own_cells_alone(make_run: Callable, experiments: Callable) -> None:
    names = list(paper()["configs"])
    for place, name in enumerate(names):
        make_run(name, top1=10.0 + 3 * place)
    filled = [cell for table in build_tables(experiments()) for cell in table.cells if cell.values]
    assert {cell.config for cell in filled} == {name for name in names if "w1" not in name}  # that one is for figure 4
    for cell in filled:
        own = 10.0 + 3 * names.index(cell.config)  # the MLP's figures are 1 lower, the projector's 2
        assert own - 3 < cell.values[cell.metrics[0]].mean <= own, cell.config


def test_the_tables_hold_every_value_of_the_paper() -> None:
    def numbers(node: object) -> list[float]:
        if isinstance(node, dict):
            return [x for value in node.values() for x in numbers(value)]
        return [float(x) for x in node] if isinstance(node, list) else []

    shown = [x for table in build_tables([]) for cell in table.cells for pair in cell.paper.values() for x in pair]
    assert sorted(shown) == sorted(numbers(paper()["tables"]))


def test_tables_3_and_4_take_the_right_probes(make_run: Callable, report: Report) -> None:
    celeba = "celeba/resnet18/vicreg_d512"
    make_run(KL, top1=60.0)
    make_run(celeba, top1=62.0)
    assert [float(cell["mean"]) for (config, _), cell in report(number=3).items() if config == KL] == [59.0]  # MLP
    table = report(number=4, metric="balanced_accuracy")
    assert [table[celeba, f"{features} d 512"]["mean"] for features in ("encoder", "projector")] == ["62.0", "60.0"]


def test_offline_probes_are_never_mixed_in(make_run: Callable, report: Report) -> None:
    make_run(KL, top1=60.0, probes={"online_linear": {"top1": 60.0}, "offline_linear_encoder": {"top1": 61.0}})
    make_run(VICREG, top1=60.0)
    cells = report("--source", "offline")
    assert [cells[config, "d 512"]["mean"] for config in (KL, VICREG)] == ["61.0", ""]


def test_missing_cells_carry_their_command(
    make_run: Callable, report: Report, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(VICREG, top1=64.0)
    report()
    assert "1 finished run in 1 experiment; " in capsys.readouterr().out
    markdown = (tmp_path / "out" / "table1.md").read_text()
    assert "| 64.00 / 84.00 (n 1)" in markdown
    assert "`radial-vicreg pretrain --config-name cifar100/resnet18/vicreg_d2048 seed=5`" in markdown


def test_the_paper_s_setting_is_not_averaged_with_others(make_run: Callable, report: Report) -> None:
    make_run(KL, top1=66.0, seed=5)
    make_run(KL, "optimizer.lr=0.1", top1=50.0, seed=6)
    cell = report()[KL, "d 512"]
    assert (cell["mean"], cell["seeds"]) == ("66.0", "1")
    assert "not used: " in cell["remarks"]
    assert "(lr 0.1 (0.3))" in cell["remarks"]


def test_another_method_fills_no_cell(make_run: Callable, experiments: Callable) -> None:
    for override in (
        *("radial_center=true", "e2mc_loss_weight=1", "mean_loss_weight=1", "radial_ce_loss_weight=10"),
        *("sim_loss_weight=10", "radial_objective=wasserstein"),
    ):
        make_run(KL, f"method_kwargs.{override}")
    make_run(KL, "backbone.name=resnet50")
    make_run(KL, "data.name=other")
    found = experiments()
    assert len(found) == 8
    assert not any(cell.values for table in build_tables(found) for cell in table.cells)


def test_repeated_seeds_hosts_and_versions_are_named(make_run: Callable, report: Report, tmp_path: Path) -> None:
    def run(seed: int, precision: str, **more: object) -> None:
        effective = {"precision": precision, "sync_batchnorm": False, "device": "cpu"}
        make_run(KL, "precision=auto", seed=seed, effective=effective, **more)

    run(5, "32-true", top1=50.0)
    run(5, "32-true", top1=60.0)
    run(6, "bf16-mixed", top1=60.0, host="solo", versions={"torch": "9"})
    assert report()[KL, "d 512"]["mean"] == "60.0"
    found = build_report(tmp_path / "runs", tmp_path / "out")
    assert [(problem.path, problem.kind) for problem in found.problems] == [("0000/results.json", "repeated")]
    (experiment,) = found.experiments
    notes = " ".join(experiment.notes)
    assert "different hosts (solo, standalone)" in notes
    assert "different versions of torch" in notes
    assert "seeds ran in different precisions (32-true, bf16-mixed)" in notes


def test_what_is_no_finished_run_is_named_and_not_averaged(make_run: Callable, report: Report, tmp_path: Path) -> None:
    make_run(KL, seed=5, top1=60.0)
    for seed, status in enumerate(("failed", "running", "interrupted"), 6):
        make_run(KL, seed=seed, top1=10.0, status=status, error="NonFiniteLossError: <nan>")
    make_run(KL, seed=9, probes={"online_linear": {"top1": None, "top5": "no"}})
    expected = {"0001": "failed", "0002": "partial", "0003": "partial", "0004": "unrecognized"}
    bad = {'{"schema_version": 1, "sta': "unreadable", "\x00\x01": "unreadable", '{"accuracy": 1}': "unrecognized"}
    for place, (text, kind) in enumerate(bad.items()):
        (tmp_path / "runs" / f"bad {place}").mkdir()
        (tmp_path / "runs" / f"bad {place}" / "results.json").write_text(text)
        expected[f"bad {place}"] = kind
    assert report()[KL, "d 512"]["mean"] == "60.0"
    found = build_report(tmp_path / "runs", tmp_path / "out")
    assert {problem.path.partition("/")[0]: problem.kind for problem in found.problems} == expected
    page = (tmp_path / "out" / "report.html").read_text()
    assert "&lt;nan&gt;" in page
    assert all(f"{path}/results.json" in page for path in expected)


def test_without_a_finished_run_nothing_is_written_and_one_line_says_so(
    make_run: Callable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(KL, status="running")
    assert main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]) == 2
    one_line(capsys.readouterr().err, "/runs contains no finished run (not used: 1 partial); `radial-vicreg runs ")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_every_figure_is_drawn_and_the_page_needs_no_other_file(make_run: Callable, tmp_path: Path) -> None:
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


def test_ones_own_experiments_stand_before_the_papers_tables_and_empty_ones_come_last(
    make_run: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = [CaptionedFigure("curves", Figure((1, 1)), "drawn")]
    monkeypatch.setattr("radial_vicreg.paper.report.draw_all", lambda _: drawn)
    make_run(KL)
    build_report(tmp_path / "runs", tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text()
    headings = [re.sub("[:(].*", "", found).strip() for found in re.findall("<(?:h2|summary)>(.*?)</", page)]
    assert headings == ["All experiments", "Table 1", "Table 3", "Figures", "Missing", "Table 2", "Table 4"]


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


def test_too_few_values_have_no_statistics() -> None:
    for x, y in (([1, 2, 3], [1, 2, 3]), ([1, 1, 1, 1], [1, 2, 3, 4])):
        assert pearson(x, y) is None
        assert spearman(x, y) is None
    assert summarise([]) is None
    found = summarise([3.0])
    assert found is not None
    assert (found.mean, found.std, found.count) == (3.0, None, 1)
