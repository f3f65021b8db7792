"""Which runs fill a cell, and what the report says of the choice."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from radial_vicreg.cli import main
from radial_vicreg.paper.cells import build_tables
from radial_vicreg.paper.report import build_report
from radial_vicreg.paper.values import our_choices, paper

KL, VICREG = "cifar100/resnet18/radialvicreg_d512", "cifar100/resnet18/vicreg_d512"
IMAGENET, IMAGENET_VICREG = "imagenet10/resnet18/radialvicreg_d512", "imagenet10/resnet18/vicreg_d512"
CELEBA = "celeba/resnet18/radial_ce_d512"


def weights(beta1: float, beta2: float) -> list[str]:
    return [f"method_kwargs.radial_{name}_loss_weight={b}" for name, b in (("ce", beta1), ("ent", beta2))]


@pytest.fixture(autouse=True)
def _no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes longer than all the rest."""
    monkeypatch.setattr("radial_vicreg.paper.report.draw_all", lambda experiments: [])


@pytest.fixture
def report(tmp_path: Path) -> Callable[..., dict[tuple[str, str], dict[str, str]]]:
    """Writes a report and returns a table's lines by configuration and column."""

    def make(number: int = 1, metric: str = "top1", **options: str) -> dict[tuple[str, str], dict[str, str]]:
        build_report(tmp_path / "runs", tmp_path / "out", **options)
        with open(tmp_path / "out" / f"table{number}.csv") as stream:
            return {(r["config"], r["column"]): r for r in csv.DictReader(stream) if r["metric"] == metric}

    return make


# ---- a cell is never empty while a run fits


def test_of_runs_that_all_differ_the_nearest_to_the_paper_fills_the_cell(make_run: Callable, report: Callable) -> None:
    make_run(KL, "max_epochs=100", "optimizer.lr=0.1", top1=61.0)
    make_run(KL, "max_epochs=200", top1=62.0)
    make_run(KL, "max_epochs=20", top1=63.0)
    cell = report()[KL, "d 512"]
    assert (cell["mean"], cell["deviations"]) == ("62.0", "max_epochs 200 (400)")
    assert "the nearest to the paper's settings of 3" in cell["remarks"]
    assert "max_epochs 20 (400)" in cell["remarks"]


def test_of_runs_with_the_paper_s_settings_that_with_most_seeds_fills_the_cell(
    make_run: Callable, report: Callable
) -> None:
    make_run(KL, top1=61.0)
    for seed in (5, 6):
        make_run(KL, "scheduler.warmup_epochs=5", seed=seed, top1=62.0)
    cell = report()[KL, "d 512"]
    assert (cell["mean"], cell["seeds"], cell["deviations"]) == ("62.0", "2", "")
    assert "(also the paper's settings)" in cell["remarks"]


def test_vicreg_by_its_name_and_by_weights_of_zero_leave_no_empty_cell(make_run: Callable, report: Callable) -> None:
    make_run(VICREG, seed=5, top1=64.0)
    make_run(KL, *weights(0, 0), "optimizer.lr=0.03", seed=6, top1=64.0)
    assert report()[VICREG, "d 512"]["mean"] == "64.0"


def test_a_run_without_the_probe_gives_way_to_one_that_has_it(make_run: Callable, report: Callable) -> None:
    make_run(KL, probes={})
    make_run(KL, "max_epochs=20", top1=55.0)
    cell = report()[KL, "d 512"]
    assert cell["mean"] == "55.0"
    assert "no probes.online_linear.top1 in" in cell["remarks"]


# ---- the paper's statements and our choices


def test_every_key_of_our_choices_is_one_of_a_configuration() -> None:
    configs = paper()["configs"]
    for entry in paper()["our_choice_keys"]:
        names = [name for name in configs if fnmatchcase(name, entry["configs"])]
        assert names, entry
        for key in entry["keys"]:  # the backbone is in the configuration's name
            assert key == "backbone" or any(key in configs[name] for name in names), (entry, key)


def test_what_the_paper_leaves_open_is_our_choice_and_what_it_states_is_not() -> None:
    w1 = "cifar100/resnet18/radialvicreg_w1_d512"
    ours = {
        IMAGENET: {"lr", "batch_size"},
        CELEBA: {"lr", "classifier_lr", "beta1"},
        w1: {"lr", "proj_output_dim"},
        KL: {"proj_hidden_dim", "ce_normalize", "devices"},
    }
    theirs = {
        KL: {"lr", "classifier_lr"},
        IMAGENET: {"devices"},
        w1: {"batch_size"},
        "cifar100/vit_tiny/vicreg_d2048": {"proj_hidden_dim"},
    }
    for name, keys in ours.items():
        assert keys <= set(our_choices(name)), name
    for name, keys in theirs.items():
        assert not keys & set(our_choices(name)), name


def test_only_what_the_paper_states_is_said_to_differ_from_it(
    make_run: Callable, report: Callable, tmp_path: Path
) -> None:
    make_run(IMAGENET, "optimizer.lr=0.03", "optimizer.weight_decay=1e-6", processes=2)
    make_run(KL, "optimizer.lr=0.03")
    cell = report(number=2)[IMAGENET, "d 512"]
    assert cell["deviations"] == "weight_decay 1e-06 (0.0001)"
    assert cell["deviations_from_our_choice"] == "lr 0.03 (0.3)"
    for name in ("table2.md", "report.html"):
        text = (tmp_path / "out" / name).read_text()
        assert "differs from the paper: weight_decay 1e-06 (0.0001); differs from our choice: lr 0.03 (0.3)" in text
    assert report()[KL, "d 512"]["deviations"] == "lr 0.03 (0.3)"  # CIFAR-100's rate is stated


def test_the_other_reading_of_the_cross_entropy_differs_from_our_choice(make_run: Callable, report: Callable) -> None:
    make_run(KL, "method_kwargs.radial_ce_normalize=false")
    assert report()[KL, "d 512"]["deviations_from_our_choice"] == "ce_normalize False (True)"


def test_everything_that_the_paper_states_is_compared(make_run: Callable, report: Callable) -> None:
    make_run(KL, "optimizer.kwargs.eta=0.001", "augment.crop_size=64", "scheduler.name=step")
    assert report()[KL, "d 512"]["deviations"].split("; ") == [
        *("eta 0.001 (0.02)", "scheduler step (warmup_cosine)", "crop_size 64 (32)"),
    ]


# ---- the best of a sweep


def test_best_takes_the_highest_mean_over_seeds_and_prints_how_it_was_chosen(
    make_run: Callable, report: Callable, tmp_path: Path
) -> None:
    for seed in (5, 6):
        make_run(IMAGENET, seed=seed, top1=90.0)
        make_run(IMAGENET, *weights(10, 0.5), "optimizer.lr=0.03", seed=seed, top1=92.0)
        make_run(IMAGENET, *weights(1, 1), seed=seed, top1=99.0 if seed == 5 else 80.0)
        make_run(IMAGENET, *weights(0, 0), seed=seed, top1=97.0)  # VICReg
    cells = report(number=2, select="best")
    cell = cells[IMAGENET, "d 512"]
    assert (cell["mean"], cell["chosen"], cell["chosen_from"]) == ("92.0", "beta1 10; beta2 0.5; lr 0.03", "3")
    said = (
        "chosen from 3 experiments by probes.online_linear.top1, mean over 2 seeds: "
        "beta1 10 (paper 100), beta2 0.5 (paper 0), lr 0.03 (our choice 0.3)"
    )
    for name in ("table2.md", "report.html"):
        text = (tmp_path / "out" / name).read_text()
        assert said in text
        assert "so the value is optimistic" in text
    assert (cells[IMAGENET_VICREG, "d 512"]["mean"], cells[IMAGENET_VICREG, "d 512"]["chosen"]) == ("97.0", "lr 0.3")
    assert report(number=2)[IMAGENET, "d 512"]["mean"] == "90.0"  # the plain mode takes the paper's own


def test_best_compares_only_runs_that_differ_in_what_was_swept(make_run: Callable, report: Callable) -> None:
    make_run(KL, top1=60.0)
    make_run(KL, *weights(1, 0), top1=61.0)
    make_run(KL, *weights(1, 0), "max_epochs=20", top1=70.0)
    make_run(KL, *weights(1, 0), "method_kwargs.radial_ce_normalize=false", top1=71.0)
    cell = report(select="best")[KL, "d 512"]
    assert (cell["mean"], cell["chosen_from"]) == ("61.0", "2")
    assert "2 more experiments with other values of settings that were not swept" in cell["remarks"]


def test_a_sweep_with_the_other_reading_of_the_cross_entropy_is_compared_as_a_whole(
    make_run: Callable, report: Callable
) -> None:
    for beta1, beta2, top1 in ((0, 0.1, 50.0), (1, 0.1, 62.0), (10, 0, 61.0)):
        make_run(KL, *weights(beta1, beta2), "method_kwargs.radial_ce_normalize=false", top1=top1)
    cell = report(select="best")[KL, "d 512"]
    assert (cell["mean"], cell["chosen_from"]) == ("62.0", "3")
    assert cell["deviations_from_our_choice"] == "ce_normalize False (True)"


def test_table_4_chooses_rates_for_each_probe_and_keeps_the_weights_of_its_row(
    make_run: Callable, report: Callable
) -> None:
    make_run(CELEBA, top1=62.0)
    figures = {"online_linear": {"balanced_accuracy": 63.0}, "online_projector_linear": {"balanced_accuracy": 55.0}}
    make_run(CELEBA, "optimizer.classifier_lr=0.01", probes=figures)
    make_run(CELEBA, *weights(1, 0), top1=70.0)
    cells = report(number=4, metric="balanced_accuracy", select="best")
    encoder, projector = (cells[CELEBA, f"{features} d 512"] for features in ("encoder", "projector"))
    assert (encoder["mean"], encoder["chosen"], encoder["chosen_from"]) == ("63.0", "lr 0.3; classifier_lr 0.01", "2")
    assert (projector["mean"], projector["chosen"]) == ("60.0", "lr 0.3; classifier_lr 0.1")


def test_the_choices_stand_below_their_table(make_run: Callable, tmp_path: Path) -> None:
    make_run(KL)
    assert main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "out"), "--select", "best"]) == 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert "the value is optimistic" in page
    assert "chosen from 1 experiment by" in page


def test_an_unknown_selection_is_refused() -> None:
    with pytest.raises(ValueError, match="the selection must be one of paper, best, got 'worst'"):
        build_tables([], select="worst")


# ---- bold


def run_seeds(make_run: Callable, name: str, values: dict[int, float], *overrides: str) -> None:
    for seed, top1 in values.items():
        make_run(name, *overrides, seed=seed, top1=top1)


def test_a_clear_difference_paired_by_seed_is_bold_with_its_standard_error(
    make_run: Callable, report: Callable, tmp_path: Path
) -> None:
    from scipy import stats

    ours, theirs = {5: 66.0, 6: 64.1, 7: 68.3}, {5: 64.1, 6: 62.0, 7: 66.2}
    run_seeds(make_run, KL, ours)
    run_seeds(make_run, VICREG, theirs)
    cell = report()[KL, "d 512"]
    expected = stats.ttest_rel(list(ours.values()), list(theirs.values())).confidence_interval(0.95)
    assert (cell["bold"], cell["runner_up"], cell["paired"], cell["difference_n"]) == ("True", "VICReg", "True", "3/3")
    assert (float(cell["difference_low"]), float(cell["difference_high"])) == pytest.approx(expected)
    text = (tmp_path / "out" / "table1.md").read_text()
    assert "**66.13 ± 2.10**" in text  # Welch's test would not see it
    assert "Radial-VICReg minus VICReg 2.03 ± 0.07 (paired, n 3; 95 % interval" in text


def test_without_two_common_seeds_it_is_welch_s_difference(make_run: Callable, report: Callable) -> None:
    from scipy import stats

    ours, theirs = {5: 66.0, 6: 66.1, 7: 66.3}, {7: 64.1, 8: 62.0, 9: 66.2, 10: 61.0}
    run_seeds(make_run, KL, ours)
    run_seeds(make_run, VICREG, theirs)
    cell = report()[KL, "d 512"]
    result = stats.ttest_ind(list(ours.values()), list(theirs.values()), equal_var=False)
    expected = result.confidence_interval(0.95)
    assert (cell["bold"], cell["paired"], cell["difference_n"]) == ("False", "False", "3/4")
    assert (float(cell["difference_low"]), float(cell["difference_high"])) == pytest.approx(expected)


def test_one_seed_is_never_bold(make_run: Callable, report: Callable, tmp_path: Path) -> None:
    run_seeds(make_run, KL, {5: 99.0})
    run_seeds(make_run, VICREG, {5: 10.0, 6: 10.1, 7: 10.2})
    assert report()[KL, "d 512"]["bold"] == "False"
    for suffix, mark in (("md", "**"), ("tex", r"\textbf")):
        assert mark not in (tmp_path / "out" / f"table1.{suffix}").read_text()
        assert mark not in (tmp_path / "out" / f"experiments.{suffix}").read_text()
    text = (tmp_path / "out" / "table1.md").read_text()
    assert "Radial-VICReg minus VICReg 88.90 (n 1 and 3: no standard error)" in text


def test_equal_rows_are_not_bold(make_run: Callable, report: Callable) -> None:
    run_seeds(make_run, KL, {5: 60.0, 6: 60.0})
    run_seeds(make_run, VICREG, {5: 60.0, 6: 60.0})
    assert {line["bold"] for line in report().values()} == {"False"}


def test_a_lead_that_the_common_seeds_reverse_is_not_bold(make_run: Callable, report: Callable) -> None:
    run_seeds(make_run, KL, {5: 60.0, 6: 60.1, 7: 90.0})
    run_seeds(make_run, VICREG, {5: 61.0, 6: 61.1})
    cell = report()[KL, "d 512"]
    assert (cell["bold"], float(cell["difference"])) == ("False", pytest.approx(-1.0))


def test_the_list_of_experiments_marks_the_smallest_distance(
    make_run: Callable, report: Callable, tmp_path: Path
) -> None:
    for seed in (5, 6, 7):
        make_run(KL, seed=seed, w1=0.5 + 0.01 * seed)
        make_run(VICREG, seed=seed, w1=8.0 + 0.02 * seed)
    report()
    text = (tmp_path / "out" / "experiments.md").read_text()
    assert "**0.56 ± 0.01**" in text
    assert "W1 after: Radial-VICReg (β1 100, β2 0)" in text
    assert "**60.00" not in text


def test_the_latex_table_carries_its_notes(make_run: Callable, report: Callable, tmp_path: Path) -> None:
    make_run(KL, "optimizer.lr=0.1")
    report()
    assert "differs from the paper: lr 0.1 (0.3)" in (tmp_path / "out" / "table1.tex").read_text()


def test_a_setting_that_differs_within_a_family_has_a_column(
    make_run: Callable, report: Callable, tmp_path: Path
) -> None:
    for rate in (0.1, 0.01):
        make_run(KL, f"optimizer.classifier_lr={rate}")
    report()
    header = json.dumps((tmp_path / "out" / "experiments.md").read_text().splitlines()[0])
    assert "classifier_lr" in header
    assert "weight_decay" not in header
