"""Runs past stability: marked in the list, trained last; runs whose radial term pulls away from chi are counted."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from radial_vicreg import cli
from radial_vicreg.sweeps import load_sweep, run_missing
from radial_vicreg.sweeps.predictions import predictions_of

# Rate and beta1 at which d 2048 and 8192, which go without the factor 1/d, are past stability.
UNSTABLE = {("0.3", "10"), ("0.3", "100"), ("0.03", "100")}


@pytest.fixture
def unstable_sweep(tmp_path: Path) -> Path:
    """Four runs: without the factor 1/d, the first two are past stability; with it, the second and fourth pull away."""
    path = tmp_path / "unstable.yaml"
    path.write_text(
        "method: grid\n"
        "parameters:\n"
        "  method_kwargs.radial_ce_loss_weight: {values: [100, 1]}\n"
        "  method_kwargs.radial_ent_loss_weight: {values: [0, 2]}\n"
        'command: ["${program}", --config-name, radialvicreg, optimizer.lr=0.1, "${args_no_hyphens}"]\n'
    )
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cifar100_resnet18_d2048", UNSTABLE),
        ("cifar100_vit_tiny_d2048", set()),
        ("imagenet10_resnet18_d8192", UNSTABLE),
    ],
)
def test_the_sweeps_of_d_2048_and_8192_hold_runs_past_stability(name: str, expected: set[tuple[str, str]]) -> None:
    runs = [run for run in load_sweep(name).runs() if "seed=5" in run.overrides]
    found = set()
    for prediction in predictions_of(runs):
        point = dict(item.split("=") for item in prediction.run.overrides)
        if prediction.past_stability is not None:
            found.add((point["optimizer.lr"], point["method_kwargs.radial_ce_loss_weight"]))
    assert found == expected


def test_the_list_marks_them_and_its_lines_stay_commands(
    unstable_sweep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = "method_kwargs.radial_ce_normalize=false"
    assert cli.main(["sweep", str(unstable_sweep), "--list", plain]) == 0
    lines = capsys.readouterr().out.splitlines()
    runs = load_sweep(unstable_sweep).runs()
    assert len(lines) == len(runs) == 4
    for line, run in zip(lines, runs, strict=True):
        index, _, command = line.partition(": ")
        assert int(index) == run.index
        assert shlex.split(command, comments=True) == ["radial-vicreg", "pretrain", *run.arguments(plain)]
    assert ["# past stability: curvature 400, limit 38 at a rate of 0.1" in line for line in lines] == [True] * 2 + [
        False
    ] * 2


def test_a_list_that_cannot_be_marked_is_printed_all_the_same(
    small_sweep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["sweep", str(small_sweep), "--list", "radialvicreg/dataset=folder"]) == 0
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 4
    assert "cannot determine which runs are past stability" in printed.err
    assert "data.train_path" in printed.err


def test_runs_past_stability_come_last_under_their_own_numbers(
    unstable_sweep: Path, tmp_path: Path, started: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    runs = load_sweep(unstable_sweep).runs()
    overrides = [f"runs_dir={tmp_path / 'runs'}", "method_kwargs.radial_ce_normalize=false"]
    run_missing("small", runs, overrides)
    assert started == [runs[index].arguments("ckpt=auto", *overrides) for index in (2, 3, 0, 1)]
    said = capsys.readouterr().err
    assert "2 of 4 runs are past stability and are trained last" in said
    assert "the radial term alone" not in said


def test_runs_that_pull_away_are_counted_once(
    unstable_sweep: Path, tmp_path: Path, started: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    runs, overrides = load_sweep(unstable_sweep).runs(), [f"runs_dir={tmp_path / 'runs'}"]
    run_missing("small", runs, overrides)
    assert started == [run.arguments("ckpt=auto", *overrides) for run in runs]
    said = capsys.readouterr().err
    assert "in 2 of 4 runs the minimum of the radial term alone has a W1 above 1 to chi" in said
    assert "past stability" not in said
