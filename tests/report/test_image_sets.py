"""Seeds are averaged where they were measured alike, on the same images: also of versions with fewer fingerprints."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from radial_vicreg.report.collect import Experiment, probe_figure, radius_figure
from radial_vicreg.report.experiments import experiment_notes
from radial_vicreg.runs.origin import Images

OLD = Images(("1:aaaaaaaa",), None)
NEW = Images(("1:aaaaaaaa", "2:bbbbbbbb"), ("1:cccccccc", "2:dddddddd"))
LARGER = NEW._replace(train=("1:aaaaaaaa", "2:eeeeeeee"))
ELSEWHERE = NEW._replace(val=("1:cccccccc", "2:ffffffff"))


def edit_data(file: Path, data: dict[str, Any]) -> None:
    content = json.loads(file.read_text())
    content["config"]["data"] |= data
    file.write_text(json.dumps(content))


@pytest.fixture
def seeds_on(make_run: Callable, experiments: Callable) -> Callable[..., list[Experiment]]:
    """Experiments of finished runs, one a seed, on images of these fingerprints."""

    def make(*found: Images) -> list[Experiment]:
        for seed, images in enumerate(found):
            file = make_run("quickstart", "data.train_path=/data/a/train", "data.val_path=/data/a/val", seed=seed)
            known = {part: None if marks is None else list(marks) for part, marks in images._asdict().items()}
            old = {} if images.train is None else {"fingerprint": images.train[0].removeprefix("1:")}
            edit_data(file, old if images == OLD else {**old, "fingerprints": known})
        read: list[Experiment] = experiments()
        return read

    return make


def test_seeds_of_two_versions_are_averaged_with_a_note(seeds_on: Callable) -> None:
    (found,) = seeds_on(OLD, NEW)
    assert len(found.runs) == 2
    assert found.notes == [
        "training images are compared by file names only (fingerprints of version 1); validation images are not "
        "compared (a run has no fingerprint)"
    ]
    assert "2:" not in found.setting.images


def test_runs_on_other_images_are_of_another_family(seeds_on: Callable) -> None:
    found = seeds_on(NEW, NEW, ELSEWHERE)
    assert sorted(len(each.runs) for each in found) == [1, 2]
    assert len({each.experiment_hash for each in found}) == 1
    assert len({each.setting.family for each in found}) == len({each.setting.grid for each in found}) == 2
    for each in found:
        own, other = ("2:dddddddd", "2:ffffffff") if len(each.runs) == 2 else ("2:ffffffff", "2:dddddddd")
        assert each.setting.images.endswith(f" (validated on {own})")
        assert [note for note in each.notes if note.startswith("kept apart")] == [
            f"kept apart from runs of the same settings that were validated on other images ({own} and {other})"
        ]


def test_a_run_that_may_be_of_either_images_is_kept_apart(seeds_on: Callable) -> None:
    found = seeds_on(OLD, NEW, LARGER)
    assert [len(each.runs) for each in found] == [1, 1, 1]
    (old,) = (each for each in found if each.runs[0].results.images == OLD)
    assert any("it is unknown which images they share" in note for note in old.notes)


def test_runs_without_validation_differ_by_what_their_probes_measured(
    make_run: Callable, experiments: Callable
) -> None:
    unvalidated = {"train": list(NEW.train or ()), "val": []}
    for seed, val in ((5, "2:dddddddd"), (6, "2:dddddddd"), (7, "2:ffffffff"), (8, None)):
        figures = {} if val is None else {"offline_linear_encoder": {"top1": 50.0, "origin": {"val": [val]}}}
        file = make_run("quickstart", "data.train_path=/data/a/train", seed=seed, probes=figures)
        edit_data(file, {"fingerprints": unvalidated, "val_path": None})
    found = experiments()
    assert sorted([run.seed for run in each.runs] for each in found) == [[5, 6], [7], [8]]
    assert not any("not compared" in note for each in found for note in each.notes)
    (both,) = (each for each in found if len(each.runs) == 2)
    assert both.values(probe_figure("offline_linear_encoder", "top1")) == [50.0, 50.0]


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
    make_run: Callable, experiments: Callable, override: str, figure: Callable, others: list[Callable]
) -> None:
    cell = "cifar100/resnet18/radialvicreg_d512"
    make_run(cell, seed=5)
    make_run(cell, "~probes.mlp_hidden_dim", seed=6)  # its default
    make_run(cell, override, seed=7)
    (experiment,) = experiments()
    assert [run.seed for run in experiment.comparable(figure)] == [5, 6]
    assert all(len(experiment.values(other)) == 3 for other in others)
    key, _, value = override.partition("=")
    excluded = [note for note in experiment_notes([experiment]) if "is excluded" in note]
    assert excluded
    assert all(f"seed 7 is excluded: {key} is {value}, not " in note for note in excluded)
