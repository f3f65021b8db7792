"""What a comparison of methods needs of the report: cost, frozen probes, differences to one of the methods."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from figure_checks import check_layout
from scipy import stats

from radial_vicreg.cli import main
from radial_vicreg.errors import UserError
from radial_vicreg.figures import figure_style
from radial_vicreg.paper.report import draw_all
from radial_vicreg.report.differences import difference_csv, difference_rows, differences
from radial_vicreg.report.experiments import experiment_notes, experiment_rows

KL, VICREG = "cifar100/resnet18/radialvicreg_d512", "cifar100/resnet18/vicreg_d512"
LEJEPA = (VICREG, "radialvicreg/method=lejepa")
FROZEN = "frozen linear (%)"


@pytest.fixture
def make_seeds(make_run: Callable) -> Callable[..., None]:
    """Writes a run for each seed, with this top-1 of the frozen probe and of the online one."""

    def make(name: str, *overrides: str, top1: dict[int, float], rank: float = 100.0, **changes: Any) -> None:
        for seed, value in top1.items():
            probes = {
                "online_linear": {"top1": value - 5},
                "frozen_linear": {"untrained": {"top1": 30.0}, "trained": {"top1": value}},
            }
            final = {"w1_chi": 1 + value / 100, "effective_rank": rank + seed, "mean_share": 0.6 + seed / 900}
            radii = {"initial": {"dim": 512, "eval": {"w1_chi": 17.0}}, "final": {"dim": 512, "eval": final}}
            make_run(name, *overrides, seed=seed, **{"probes": probes, "radii": radii, **changes})

    return make


def column_of(rows: tuple[list[str], list[Any]], name: str) -> list[str]:
    header, body = rows
    return [row[header.index(name)][0].text for row in body]


def lines_of(text: str) -> dict[tuple[str, str], dict[str, str]]:
    return {(line["method"], line["figure"]): line for line in csv.DictReader(text.splitlines())}


# ---- the list of experiments


def test_the_list_has_frozen_probes_rank_share_and_cost_where_a_run_has_them(
    make_run: Callable, make_seeds: Callable, experiments: Callable
) -> None:
    make_run(KL)
    header, _ = experiment_rows(experiments())
    assert not {FROZEN, "effective rank", "mean's share", "s/step", "memory (MB)"} & set(header)
    make_seeds(VICREG, top1={5: 50.0, 6: 52.0}, cost={"step_seconds": 0.0525, "peak_memory_mb": 1234.4})
    rows = experiment_rows(experiments())
    vicreg = column_of(rows, "Method").index("VICReg")
    expected = {
        FROZEN: "51.00 ± 1.41",
        "frozen, untrained (%)": "30.00 ± 0.00",
        "effective rank": "105.50 ± 0.71",
        "mean's share": "0.606 ± 0.001",
        "s/step": "0.052 ± 0.000",
        "memory (MB)": "1234 ± 0",
    }
    assert {name: column_of(rows, name)[vicreg] for name in expected} == expected


def test_the_best_probe_is_bold_and_no_rank_or_cost_is(make_seeds: Callable, experiments: Callable) -> None:
    make_seeds(VICREG, top1={5: 50.0, 6: 52.0, 7: 51.0}, cost={"step_seconds": 0.05, "peak_memory_mb": 900.0})
    make_seeds(KL, top1={5: 60.1, 6: 62.0, 7: 61.0}, rank=300, cost={"step_seconds": 5.0, "peak_memory_mb": 9e3})
    header, body = experiment_rows(experiments())
    bold = {name for row in body for name, cell in zip(header, row, strict=True) if any(text.bold for text in cell)}
    assert bold == {FROZEN, "linear (%)", "W1 after"}


def test_runs_on_other_images_are_never_rivals(make_run: Callable, experiments: Callable) -> None:
    for folder, top1 in (("tuning/train", 90.0), ("all/train", 50.0)):
        make_run("quickstart", f"data.train_path=/data/{folder}", top1=top1)
    found = experiments()
    assert len(found) == 2
    assert experiment_notes(found) == []


# ---- differences


def test_differences_are_paired_by_seed_with_a_t_interval(make_seeds: Callable, experiments: Callable) -> None:
    theirs, ours = {5: 50.0, 6: 58.0, 7: 54.0}, {5: 52.1, 6: 60.0, 7: 56.2}
    make_seeds(VICREG, top1=theirs)
    make_seeds(KL, top1=ours, rank=90)
    make_seeds(*LEJEPA, top1={5: 49.0, 6: 60.0, 7: 53.0})
    found = differences(experiments(), "vicreg")
    line = lines_of(difference_csv(found))["Radial-VICReg (β1 100, β2 0)", FROZEN]
    expected = stats.ttest_rel(list(ours.values()), list(theirs.values()))
    assert float(line["difference"]) == pytest.approx(2.1)
    assert (float(line["low"]), float(line["high"])) == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert float(line["se"]) == pytest.approx(2.1 / expected.statistic)
    assert (line["n"], line["against_n"], line["paired"], line["against_method"]) == ("3", "3", "True", "VICReg")
    rows = difference_rows(found)
    assert column_of(rows, "Method") == ["Radial-VICReg (β1 100, β2 0)", "LeJEPA"]
    assert column_of(rows, FROZEN) == ["+2.10 [1.85, 2.35]", "+0.00 [−4.30, 4.30]"]
    assert column_of(rows, "effective rank")[0] == "−10.00 [−10.00, −10.00]"
    assert column_of(rows, "n") == ["3", "3"]
    bold = [[text.bold for text in row[rows[0].index(FROZEN)]] for row in rows[1]]
    assert bold == [[True], [False]]
    assert not {"W1 before", "frozen, untrained (%)", "s/step"} & set(rows[0])


def test_without_common_seeds_the_interval_is_welch_s(make_seeds: Callable, experiments: Callable) -> None:
    theirs, ours = {1: 50.0, 2: 51.0, 3: 53.0, 4: 50.5}, {5: 52.0, 6: 52.5, 7: 55.0}
    make_seeds(VICREG, top1=theirs)
    make_seeds(KL, top1=ours)
    found = differences(experiments(), "vicreg")
    line = lines_of(difference_csv(found))["Radial-VICReg (β1 100, β2 0)", FROZEN]
    result = stats.ttest_ind(list(ours.values()), list(theirs.values()), equal_var=False)
    assert (float(line["low"]), float(line["high"])) == pytest.approx(tuple(result.confidence_interval(0.95)))
    assert (line["n"], line["against_n"], line["paired"]) == ("3", "4", "False")
    assert column_of(difference_rows(found), "n") == ["3 and 4"]


def test_figures_of_fewer_or_single_seeds_say_so(make_seeds: Callable, experiments: Callable) -> None:
    make_seeds(VICREG, top1={5: 50.0, 6: 51.0, 7: 52.0})
    make_seeds(KL, top1={5: 53.0, 6: 54.0})
    make_seeds(KL, top1={7: 55.0}, probes={"online_linear": {"top1": 45.0}})
    make_seeds(*LEJEPA, top1={5: 53.0}, radii={})
    found = differences(experiments(), "vicreg")
    header, (radial, lejepa) = difference_rows(found)
    assert radial[header.index("n")][0].text == "2"
    assert [radial[header.index(name)][0].suffix for name in (FROZEN, "linear (%)")] == ["", " (n 3)"]
    assert lejepa[header.index("effective rank")][0].text == "—"
    (one_seed,) = lejepa[header.index(FROZEN)]
    assert (one_seed.text, one_seed.bold) == ("+2.00", False)
    line = lines_of(difference_csv(found))["LeJEPA", FROZEN]
    assert (line["se"], line["low"], line["high"], line["n"], line["against_n"]) == ("", "", "", "1", "3")


def test_each_family_has_a_base_of_its_own(make_seeds: Callable, experiments: Callable) -> None:
    for epochs, lead in ((400, 1.0), (20, -2.0)):
        make_seeds(VICREG, f"max_epochs={epochs}", top1={5: 50.0, 6: 51.0})
        make_seeds(KL, f"max_epochs={epochs}", top1={5: 50.0 + lead, 6: 51.0 + lead})
    make_seeds(KL, "backbone.name=resnet50", top1={5: 90.0, 6: 91.0})
    found = differences(experiments(), "vicreg")
    rows = difference_rows(found)
    seen = dict(zip(column_of(rows, "Epochs"), column_of(rows, FROZEN), strict=True))
    assert seen == {"400": "+1.00 [1.00, 1.00]", "20": "−2.00 [−2.00, −2.00]"}
    (twenty,) = (base for base in found.bases if base.setting.details["max_epochs"] == 20)
    assert [base for _, base in differences(experiments(), twenty.experiment_hash[:8]).pairs] == [twenty]


# ---- the base of the comparison


def test_a_radial_method_is_named_by_its_objective_or_as_a_whole(make_run: Callable, experiments: Callable) -> None:
    make_run(KL)
    make_run(*LEJEPA)
    for name in ("radialvicreg", "radial_kl"):
        assert [base.setting.key for base in differences(experiments(), name).bases] == ["radial_kl"]
    make_run("cifar100/resnet18/radialvicreg_w1_d512", "optimizer.batch_size=256")
    assert [base.setting.key for base in differences(experiments(), "radial_kl").bases] == ["radial_kl"]
    with pytest.raises(UserError, match="'radialvicreg' is more than one experiment"):
        differences(experiments(), "radialvicreg")


def test_an_unknown_base_is_refused_with_those_there_are(make_run: Callable, experiments: Callable) -> None:
    make_run(VICREG)
    make_run(KL)
    found = experiments()
    for name in ("simclr", "", "ffffffffffffffff"):
        with pytest.raises(UserError) as caught:
            differences(found, name)
        message = str(caught.value)
        assert f"no experiment is {name!r}; methods: radial_kl, radialvicreg, vicreg; experiments: " in message
        assert all(experiment.experiment_hash in message for experiment in found)
        assert "\n" not in message


def test_a_base_that_could_be_several_is_refused(make_run: Callable, experiments: Callable) -> None:
    for rate in (0.1, 0.01):
        make_run(VICREG, f"optimizer.lr={rate}")
    first, second = experiments()
    with pytest.raises(UserError, match="'vicreg' is more than one experiment; give the hash of one: ") as caught:
        differences([first, second], "vicreg")
    for experiment in (first, second):
        assert f"{experiment.experiment_hash} (lr {experiment.setting.details['lr']})" in str(caught.value)
    first.experiment_hash, second.experiment_hash = "abc1", "abd2"
    with pytest.raises(UserError, match=r"'ab' is more than one experiment; give the hash of one: abc1 .*, abd2 "):
        differences([first, second], "ab")
    assert differences([first, second], "ABC").bases == [first]
    make_run(VICREG, "max_epochs=20", "optimizer.lr=0.1")
    other = next(each for each in experiments() if each.setting.details["max_epochs"] == 20)
    other.experiment_hash = "abd2"
    with pytest.raises(UserError, match="'ab' is more than one experiment"):  # of two families
        differences([first, other], "ab")
    assert differences([first, other], "vicreg").bases == [first, other]  # a name stands for one in each family


def test_the_command_writes_differences_and_removes_those_of_an_earlier_report(
    make_seeds: Callable, no_figures: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_seeds(VICREG, top1={5: 50.0, 6: 58.0, 7: 54.0})
    make_seeds(KL, top1={5: 52.1, 6: 60.0, 7: 56.2}, rank=90)
    command, out = ["report", str(tmp_path / "runs"), "--out", str(tmp_path / "out")], tmp_path / "out"
    assert main([*command, "--against", "vicreg"]) == 0
    text = (out / "differences.md").read_text()
    assert re.search(r"Differences to VICReg \([0-9a-f]{12}\)", text)
    assert "**+2.10 [1.85, 2.35]**" in text
    assert "not corrected for multiple comparisons" in text
    assert "<b>+2.10 [1.85, 2.35]</b>" in (out / "report.html").read_text()
    assert r"\textbf{$-$10.00 [$-$10.00, $-$10.00]}" in (out / "differences.tex").read_text()
    assert len(lines_of((out / "differences.csv").read_text())) == 5
    assert main([*command, "--against", "simclr"]) == 2
    assert "no experiment is 'simclr'" in capsys.readouterr().err
    assert (out / "differences.md").is_file()  # what is wrong is said before anything is written
    assert main(command) == 0
    assert not list(out.glob("differences.*"))
    assert "Differences to" not in (out / "report.html").read_text()


def test_a_base_without_rivals_or_without_any_run_says_so(make_run: Callable, no_figures: None, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nothing to compare with 'vicreg': no run is finished"):
        differences([], "vicreg")
    make_run(VICREG)
    make_run(KL, "max_epochs=3")
    assert main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "out"), "--against", "vicreg"]) == 0
    _, missing = (tmp_path / "out" / "report.html").read_text().split("<h2>Missing</h2>")
    assert "Nothing to compare" in missing


# ---- figure 2d of the frozen probe


def test_the_frozen_probe_has_its_own_figure_2d(make_seeds: Callable, experiments: Callable) -> None:
    make_seeds(VICREG, "optimizer.lr=0.03", top1={5: 50.0, 6: 52.0})
    make_seeds(KL, "optimizer.lr=0.3", top1={5: 60.0, 6: 61.0})
    with figure_style():
        drawn = {each.name: each for each in draw_all(experiments()) if each.name.startswith("figure2d")}
        for name, offset in (("figure2d", 5), ("figure2d_frozen", 0)):
            check_layout(drawn[name].figure)
            heights = {float(line.get_ydata()[0]) for line in drawn[name].figure.axes[0].lines}
            assert heights == {value - offset for value in (50.0, 52.0, 60.0, 61.0)}
    assert "(online linear probe)" in drawn["figure2d"].caption
    frozen = drawn["figure2d_frozen"]
    assert "frozen" in frozen.figure.axes[0].get_ylabel()
    assert "(linear probe of the frozen, trained encoder)" in frozen.caption
    assert len({line.get_markersize() for line in frozen.figure.axes[0].lines}) == 1
    assert "each method has its own learning rate" in frozen.caption
    assert [text.get_text() for text in frozen.figure.legends[0].get_texts()] == ["VICReg", "Radial-VICReg"]


def test_what_a_loss_does_not_read_is_no_part_of_its_method(make_run: Callable, experiments: Callable) -> None:
    make_run(*LEJEPA, "+method_kwargs.radial_center=true", "+method_kwargs.e2mc_loss_weight=1")
    (found,) = experiments()
    assert (found.setting.key, found.setting.kind) == ("lejepa", "LeJEPA")
