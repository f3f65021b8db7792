"""Figures of several seeds are averaged where they were measured in one way, and the others are named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from radial_vicreg.report.collect import collect, group, probe_figure, radius_figure
from radial_vicreg.report.experiments import experiment_notes

MakeRun = Callable[..., Path]
MLP = probe_figure("online_mlp", "top1")


@pytest.mark.parametrize(
    ("override", "figure", "others"),
    [
        ("probes.mlp_hidden_dim=1024", MLP, [probe_figure("online_linear", "top1"), radius_figure("final", "w1_chi")]),
        ("probes.lr=0.1", probe_figure("online_projector_linear", "top1"), [probe_figure("online_linear", "top1")]),
        ("diagnostics.max_images=20", radius_figure("final", "w1_chi"), [MLP]),
    ],
)
def test_a_figure_of_other_settings_is_not_averaged_and_the_rest_is(
    make_run: MakeRun, tmp_path: Path, override: str, figure: Callable, others: list[Callable]
) -> None:
    for seed in (5, 6):
        make_run(seed=seed)
    make_run("cifar100/resnet18/radialvicreg_d512", override, seed=7)
    (experiment,) = group(collect(tmp_path / "runs")[0])[0]
    assert [run.seed for run in experiment.comparable(figure)] == [5, 6]
    assert all(len(experiment.values(other)) == 3 for other in others)
    key, _, value = override.partition("=")
    assert any(f"seed 7 is excluded: {key} is {value}, not " in note for note in experiment_notes([experiment]))


def test_a_default_that_is_written_out_is_no_other_setting(make_run: MakeRun, tmp_path: Path) -> None:
    for seed, override in ((5, []), (6, ["~probes.mlp_hidden_dim"])):
        make_run("cifar100/resnet18/radialvicreg_d512", *override, seed=seed)
    (experiment,) = group(collect(tmp_path / "runs")[0])[0]
    assert len(experiment.values(MLP)) == 2
    assert not any("is excluded" in note for note in experiment_notes([experiment]))
