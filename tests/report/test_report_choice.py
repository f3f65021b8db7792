"""Which runs fill a cell, and what the report says of the choice."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from scipy import stats

from radial_vicreg.paper.cells import build_tables
from radial_vicreg.paper.values import paper

KL, VICREG = "cifar100/resnet18/radialvicreg_d512", "cifar100/resnet18/vicreg_d512"
IMAGENET, IMAGENET_VICREG = "imagenet10/resnet18/radialvicreg_d512", "imagenet10/resnet18/vicreg_d512"
CELEBA = "celeba/resnet18/radial_ce_d512"
Report = Callable[..., dict[tuple[str, str], dict[str, str]]]

pytestmark = pytest.mark.usefixtures("no_figures")


def weights(beta1: float, beta2: float) -> list[str]:
    return [f"method_kwargs.radial_{name}_loss_weight={b}" for name, b in (("ce", beta1), ("ent", beta2))]


# ---- a cell is never empty while a run fits


def test_of_runs_that_all_differ_the_nearest_to_the_paper_fills_the_cell(make_run: Callable, report: Report) -> None:
    make_run(KL, "max_epochs=100", "optimizer.lr=0.1", top1=61.0)
    make_run(KL, "max_epochs=200", top1=62.0)
    make_run(KL, "max_epochs=20", top1=63.0)
    cell = report()[KL, "d 512"]
    assert (cell["mean"], cell["deviations"]) == ("62.0", "max_epochs 200 (400)")
    assert "the nearest to the paper's settings of 3" in cell["remarks"]
    assert "max_epochs 20 (400)" in cell["remarks"]


def test_of_equal_runs_those_with_most_seeds_fill_the_cell(make_run: Callable, report: Report) -> None:
    make_run(KL, top1=61.0)
    for seed in (5, 6):
        make_run(KL, "scheduler.warmup_epochs=5", seed=seed, top1=62.0)
    cell = report()[KL, "d 512"]
    assert (cell["mean"], cell["seeds"], cell["deviations"]) == ("62.0", "2", "")
    assert "(also the paper's settings)" in cell["remarks"]


def test_a_run_without_the_probe_gives_way_to_one_that_has_it(make_run: Callable, report: Report) -> None:
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


def test_only_what_the_paper_states_differs_from_it(make_run: Callable, report: Report, tmp_path: Path) -> None:
    make_run(IMAGENET, "optimizer.lr=0.03", "optimizer.weight_decay=1e-6", processes=2)
    make_run(KL, "optimizer.lr=0.03")
    cell = report(number=2)[IMAGENET, "d 512"]
    assert cell["deviations"] == "weight_decay 1e-06 (0.0001)"
    assert cell["deviations_from_our_choice"] == "lr 0.03 (0.3)"
    for name in ("table2.md", "report.html"):
        text = (tmp_path / "out" / name).read_text()
        assert "differs from the paper: weight_decay 1e-06 (0.0001); differs from our choice: lr 0.03 (0.3)" in text
    assert "differs from the paper: lr 0.03 (0.3)" in (tmp_path / "out" / "table1.tex").read_text()  # CIFAR-100's


def test_everything_that_the_paper_states_is_compared(make_run: Callable, report: Report) -> None:
    make_run(KL, "optimizer.kwargs.eta=0.001", "augment.crop_size=64", "scheduler.name=step")
    assert report()[KL, "d 512"]["deviations"].split("; ") == [
        *("eta 0.001 (0.02)", "scheduler step (warmup_cosine)", "crop_size 64 (32)"),
    ]


# ---- the best of a sweep


def test_best_is_the_highest_mean_over_seeds(make_run: Callable, report: Report, tmp_path: Path) -> None:
    for seed in (5, 6):
        make_run(IMAGENET, seed=seed, top1=90.0)
        make_run(IMAGENET, *weights(10, 0.5), "optimizer.lr=0.03", seed=seed, top1=92.0)
        make_run(IMAGENET, *weights(1, 1), seed=seed, top1=99.0 if seed == 5 else 80.0)
        make_run(IMAGENET, *weights(0, 0), seed=seed, top1=97.0)  # VICReg
    cells = report("--select", "best", number=2)
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


def test_best_compares_only_runs_that_differ_in_what_was_swept(make_run: Callable, report: Report) -> None:
    make_run(KL, top1=60.0)
    make_run(KL, *weights(1, 0), top1=61.0)
    make_run(KL, *weights(1, 0), "max_epochs=20", top1=70.0)
    make_run(KL, *weights(1, 0), "method_kwargs.radial_ce_normalize=false", top1=71.0)
    cell = report("--select", "best")[KL, "d 512"]
    assert (cell["mean"], cell["chosen_from"]) == ("61.0", "2")
    assert "2 more experiments with other values of settings that were not swept" in cell["remarks"]


def test_a_sweep_with_the_other_reading_is_compared_as_a_whole(make_run: Callable, report: Report) -> None:
    for beta1, beta2, top1 in ((0, 0.1, 50.0), (1, 0.1, 62.0), (10, 0, 61.0)):
        make_run(KL, *weights(beta1, beta2), "method_kwargs.radial_ce_normalize=false", top1=top1)
    cell = report("--select", "best")[KL, "d 512"]
    assert (cell["mean"], cell["chosen_from"]) == ("62.0", "3")
    assert cell["deviations_from_our_choice"] == "ce_normalize False (True)"


def test_table_4_chooses_rates_for_each_probe_of_a_row(make_run: Callable, report: Report) -> None:
    make_run(CELEBA, top1=62.0)
    figures = {"online_linear": {"balanced_accuracy": 63.0}, "online_projector_linear": {"balanced_accuracy": 55.0}}
    make_run(CELEBA, "optimizer.classifier_lr=0.01", probes=figures)
    make_run(CELEBA, *weights(1, 0), top1=70.0)
    cells = report("--select", "best", number=4, metric="balanced_accuracy")
    encoder, projector = (cells[CELEBA, f"{features} d 512"] for features in ("encoder", "projector"))
    assert (encoder["mean"], encoder["chosen"], encoder["chosen_from"]) == ("63.0", "lr 0.3; classifier_lr 0.01", "2")
    assert (projector["mean"], projector["chosen"]) == ("60.0", "lr 0.3; classifier_lr 0.1")


def test_an_unknown_selection_is_refused() -> None:
    with pytest.raises(ValueError, match="the selection must be one of paper, best, got 'worst'"):
        build_tables([], select="worst")


# ---- bold


def test_a_clear_difference_is_bold(make_run: Callable, report: Report, tmp_path: Path) -> None:
    ours, theirs = {5: 66.0, 6: 64.1, 7: 68.3}, {5: 64.1, 6: 62.0, 7: 66.2}
    for seed in ours:
        make_run(KL, seed=seed, top1=ours[seed], w1=0.5 + 0.01 * seed)
        make_run(VICREG, seed=seed, top1=theirs[seed], w1=8.0 + 0.02 * seed)
    cell = report()[KL, "d 512"]
    expected = stats.ttest_rel(list(ours.values()), list(theirs.values())).confidence_interval(0.95)
    assert (cell["bold"], cell["runner_up"], cell["paired"], cell["difference_n"]) == ("True", "VICReg", "True", "3/3")
    assert (float(cell["difference_low"]), float(cell["difference_high"])) == pytest.approx(expected)
    text = (tmp_path / "out" / "table1.md").read_text()
    assert "**66.13 ± 2.10**" in text  # Welch's test would not see it
    assert "Radial-VICReg minus VICReg 2.03 ± 0.07 (paired, n 3; 95 % interval" in text
    experiments = (tmp_path / "out" / "experiments.md").read_text()
    assert "**0.56 ± 0.01**" in experiments  # the smallest distance
    assert "W1 after: Radial-VICReg (β1 100, β2 0)" in experiments


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({5: 99.0}, {5: 10.0, 6: 10.1, 7: 10.2}),  # one seed
        ({5: 60.0, 6: 60.0}, {5: 60.0, 6: 60.0}),
        ({5: 60.0, 6: 60.1, 7: 90.0}, {5: 61.0, 6: 61.1}),  # the common seeds reverse the lead
    ],
    ids=["one seed", "equal", "reversed"],
)
def test_what_could_be_chance_is_not_bold(
    ours: dict[int, float], theirs: dict[int, float], make_run: Callable, report: Report, tmp_path: Path
) -> None:
    for name, values in ((KL, ours), (VICREG, theirs)):
        for seed, top1 in values.items():
            make_run(name, seed=seed, top1=top1)
    assert {line["bold"] for line in report().values()} == {"False"}
    for suffix, mark in (("md", "**"), ("tex", r"\textbf")):
        for table in ("table1", "experiments"):
            assert mark not in (tmp_path / "out" / f"{table}.{suffix}").read_text()
    if len(ours) == 1:
        text = (tmp_path / "out" / "table1.md").read_text()
        assert "Radial-VICReg minus VICReg 88.90 (n 1 and 3: no standard error)" in text


def test_a_setting_that_differs_has_a_column(make_run: Callable, report: Report, tmp_path: Path) -> None:
    for rate in (0.1, 0.01):
        make_run(KL, f"optimizer.classifier_lr={rate}")
    report()
    header = (tmp_path / "out" / "experiments.md").read_text().splitlines()[0]
    assert "classifier_lr" in header
    assert "weight_decay" not in header
