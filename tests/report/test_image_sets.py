"""Runs on other images are neither averaged nor compared, also where an earlier version has left fewer fingerprints."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from radial_vicreg.report.collect import Experiment, collect, group, probe_figure
from radial_vicreg.report.image_sets import image_sets
from radial_vicreg.runs.origin import Images

OLD = Images(("1:aaaaaaaa",), None)
NEW = Images(("1:aaaaaaaa", "2:bbbbbbbb"), ("1:cccccccc", "2:dddddddd"))
LARGER = NEW._replace(train=("1:aaaaaaaa", "2:eeeeeeee"))
ELSEWHERE = NEW._replace(val=("1:cccccccc", "2:ffffffff"))


@pytest.mark.parametrize(
    ("found", "sets"),
    [
        ([NEW, NEW], [[NEW, NEW]]),
        ([OLD, NEW], [[NEW, OLD]]),
        ([NEW, LARGER], [[NEW], [LARGER]]),
        ([NEW, ELSEWHERE], [[NEW], [ELSEWHERE]]),
        ([OLD, NEW, LARGER, OLD], [[NEW], [LARGER], [OLD, OLD]]),  # of which of them the old ones are is not known
        ([NEW, NEW._replace(val=())], [[NEW], [NEW._replace(val=())]]),
        ([Images(), Images()], [[Images(), Images()]]),
    ],
)
def test_runs_are_sorted_by_what_is_known_of_their_images(found: list[Images], sets: list[list[Images]]) -> None:
    assert sorted(sorted(known.members) for known in image_sets(found)) == sorted(map(sorted, sets))


@pytest.fixture
def experiments(make_run: Callable[..., Path], tmp_path: Path) -> Callable[..., list[Experiment]]:
    """Experiments of finished runs, one a seed, on images of these fingerprints."""

    def make(*found: Images) -> list[Experiment]:
        for seed, images in enumerate(found):
            file = make_run("quickstart", "data.train_path=/data/a/train", "data.val_path=/data/a/val", seed=seed)
            content: dict[str, Any] = json.loads(file.read_text())
            known = {part: None if marks is None else list(marks) for part, marks in images._asdict().items()}
            old = {} if images.train is None else {"fingerprint": images.train[0].removeprefix("1:")}
            content["config"]["data"] |= old if images == OLD else {**old, "fingerprints": known}
            file.write_text(json.dumps(content))
        return group(collect(tmp_path / "runs")[0])[0]

    return make


def test_seeds_of_two_versions_are_averaged_with_a_note(experiments: Callable[..., list[Experiment]]) -> None:
    (found,) = experiments(OLD, NEW)
    assert len(found.runs) == 2
    assert found.notes == [
        "training images are compared by file names only (fingerprints of version 1); validation images are not "
        "compared (a run has no fingerprint)"
    ]
    assert "2:" not in found.setting.images


def test_runs_on_other_images_are_of_another_family(experiments: Callable[..., list[Experiment]]) -> None:
    found = experiments(NEW, NEW, ELSEWHERE)
    assert sorted(len(each.runs) for each in found) == [1, 2]
    assert len({each.experiment_hash for each in found}) == 1
    assert len({each.setting.family for each in found}) == len({each.setting.grid for each in found}) == 2
    assert {each.setting.images.partition(" (")[2] for each in found} == {
        "validated on 2:dddddddd)",
        "validated on 2:ffffffff)",
    }
    for each in found:
        assert [note for note in each.notes if note.startswith("kept apart")] == [
            "kept apart from runs of the same settings that were validated on other images "
            f"({' and '.join(['2:dddddddd', '2:ffffffff'][:: 1 if len(each.runs) == 2 else -1])})"
        ]


def test_a_run_that_may_be_of_either_images_is_kept_apart(experiments: Callable[..., list[Experiment]]) -> None:
    found = experiments(OLD, NEW, LARGER)
    assert [len(each.runs) for each in found] == [1, 1, 1]
    (old,) = (each for each in found if each.runs[0].results.images == OLD)
    assert any("it is unknown which images they share" in note for note in old.notes)


def test_runs_without_validation_are_told_apart_by_what_their_probes_measured(
    make_run: Callable[..., Path], tmp_path: Path
) -> None:
    unvalidated = {"train": list(NEW.train or ()), "val": []}
    for seed, val in ((5, "2:dddddddd"), (6, "2:dddddddd"), (7, "2:ffffffff"), (8, None)):
        figures = {} if val is None else {"offline_linear_encoder": {"top1": 50.0, "origin": {"val": [val]}}}
        file = make_run("quickstart", "data.train_path=/data/a/train", seed=seed, probes=figures)
        content: dict[str, Any] = json.loads(file.read_text())
        content["config"]["data"] |= {"fingerprints": unvalidated, "val_path": None}
        file.write_text(json.dumps(content))
    found, _ = group(collect(tmp_path / "runs")[0])
    assert sorted([run.seed for run in each.runs] for each in found) == [[5, 6], [7], [8]]
    assert not any("not compared" in note for each in found for note in each.notes)
    assert [each.values(probe_figure("offline_linear_encoder", "top1")) for each in found if len(each.runs) == 2] == [
        [50.0, 50.0]
    ]
