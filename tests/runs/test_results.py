"""What identifies a run, and the file that says what became of it."""

from __future__ import annotations

import copy
import json
import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import composed
from omegaconf import OmegaConf

import radial_vicreg
from radial_vicreg.io.files import write_json
from radial_vicreg.io.locks import LockedError, changing
from radial_vicreg.runs.identity import Identity, config_hash
from radial_vicreg.runs.provenance import describe_run, git_commit
from radial_vicreg.runs.results import (
    SCHEMA_VERSION,
    NewerResults,
    Probes,
    ResultsError,
    RunResults,
    UnreadableResults,
    UnrecognizedResults,
)

EARLIER = Path(__file__).parents[1] / "fixtures"
OLD = sorted(
    file for file in EARLIER.rglob("results.json") if "synthetic" not in file.parts and "latest" not in file.parts
)


@pytest.fixture
def config() -> dict[str, Any]:
    return OmegaConf.to_container(composed("radialvicreg"), resolve=True)  # type: ignore[return-value]


def test_a_run_is_described_by_its_seed_its_experiment_and_what_it_runs_on(
    config: dict[str, Any], tmp_path: Path
) -> None:
    first, second = (describe_run({**config, "seed": seed}, "standalone") for seed in (5, 6))
    assert first["experiment_hash"] == second["experiment_hash"]
    assert first["config_hash"] != second["config_hash"]
    assert config_hash(config, processes=2) != config_hash(config)  # each process has a batch of that size
    assert (first["host"], first["seed"], first["config"]["method"]) == ("standalone", 5, "radialvicreg")
    assert first["versions"]["torch"]
    assert git_commit(tmp_path) is None  # a folder outside any checkout


@pytest.fixture
def file(tmp_path: Path, config: dict[str, Any]) -> Path:
    """Results of a finished run with keys, at every depth, that no version has written."""
    content = {
        "schema_version": 2,
        "config": config,
        "status": "finished",
        "epochs": 2,
        "note": "mine",
        "probes": {"online_linear": {"top1": 50, "note": 1}, "online_new": {"top7": 1.5}},
        "radii": {"images": "validation", "initial": None, "final": None, "history": [], "note": [2]},
        "history": [{"epoch": 1, "train_loss": None}, {"epoch": 2, "train_loss": 3.0}],
    }
    return write_json(tmp_path / "results.json", content)


def content_of(file: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(file.read_text())
    return content


def adding(name: str, top1: float) -> Callable[[RunResults | None], RunResults]:
    """A change that adds the figures of a probe."""

    def change(stored: RunResults | None) -> RunResults:
        assert stored is not None
        known = {} if stored.probes is None else stored.probes.plain()
        stored.probes = Probes.model_validate({**known, name: {"top1": top1}})
        return stored

    return change


def test_results_of_earlier_releases_keep_their_bytes_and_their_identities(tmp_path: Path) -> None:
    assert len(OLD) > 10
    for old in OLD:
        results = RunResults.read(old)
        results.write(tmp_path / "results.json")
        assert (tmp_path / "results.json").read_text() == old.read_text()
        stored = {"config_hash": results.config_hash, "experiment_hash": results.experiment_hash}
        assert Identity.of_release_0_2(results.requested, results.processes).hashes == stored
        assert results.requested.plain()["data"] == results.config["data"]


def test_a_stored_configuration_may_have_unknown_keys_and_lack_known_ones(config: dict[str, Any]) -> None:
    other = {**copy.deepcopy(config), "of_a_later_version": {"key": [1]}}
    other["data"]["of_a_later_version"] = 1
    del other["accumulate_grad_batches"], other["precision"], other["data"]["format"], other["scheduler"]["interval"]
    found, same = (
        RunResults.model_validate({"schema_version": 2, "status": "failed", "config": given})
        for given in (other, config)
    )
    requested = found.requested
    assert (requested.accumulation, requested.precision, requested.data.format) == (1, "16-mixed", "image_folder")
    assert found.identity == same.identity


def test_what_follows_from_a_file_is_never_written_to_it(file: Path) -> None:
    results = RunResults.read(file)
    before = results.plain()
    assert (results.status, results.epochs, results.processes, results.requested.seed) == ("finished", 2, 1, 5)
    assert results.identity.hashes.keys() == {"config_hash", "experiment_hash"}
    assert results.images.val
    assert [entry.figure("train_loss") for entry in results.history] == [None, 3.0]
    assert results.probe("online_linear").top1 == 50
    assert results.probe("offline_linear_encoder").top1 is None
    assert (results.cost, results.checkpoint) == (None, None)
    results.status = "failed"
    assert results.plain() == {**before, "status": "failed"}


def test_the_names_of_a_run_s_files_and_its_end_are_written_in_one_module() -> None:
    package = Path(radial_vicreg.__file__).parent
    # Synthetic experiments and their figures are no runs: their results have another form.
    modules = [file for file in package.rglob("*.py") if "synthetic" not in file.relative_to(package).as_posix()]
    for text, owner in {
        "args.json": "stored.py",
        "latest": "stored.py",
        "checkpoints": "checkpoints.py",
        "last.ckpt": "checkpoints.py",
        "results.json": "results.py",
        "finished": "results.py",
    }.items():
        assert [file for file in modules if f'"{text}"' in file.read_text()] == [package / "runs" / owner]


def test_figures_of_other_images_are_not_those_of_the_run(file: Path) -> None:
    content = content_of(file)
    content["config"]["data"]["fingerprints"] = {"train": ["2:bb1ab5e0"], "val": ["2:0a1b2c3d"]}
    for val, expected in (("2:0a1b2c3d", 50), ("2:4e5f6a7b", None)):
        content["probes"]["online_linear"]["origin"] = {"checkpoint": None, "train": None, "val": [val]}
        write_json(file, content)
        results = RunResults.read(file)
        assert results.probe("online_linear").top1 == expected
        assert results.owns(results.probes.online_linear) is (expected is not None)


def test_what_is_no_finite_number_is_no_figure(file: Path) -> None:
    figures = {"top1": float("nan"), "top5": 10**400, "accuracy": float("-inf")}
    results = RunResults.model_validate({**content_of(file), "probes": {"p": figures}})
    found = results.probe("p")
    assert (found.top1, found.top5, found.accuracy) == (None, None, None)
    results.write(file)
    assert RunResults.read(file).probe("p") == found


def stored(**more: Any) -> bytes:
    return json.dumps({"schema_version": 2, "config": {}, "status": "failed", **more}).encode()


def test_damaged_and_foreign_files_are_refused_in_one_line(file: Path) -> None:
    for text, kind, reason in [
        (b'{"schema_version": 1, "sta', UnreadableResults, "cut short or not JSON"),
        (b"\xff\xfe", UnreadableResults, "cut short or not JSON"),
        (b'{"a":' * 99_999, UnreadableResults, "cut short or not JSON"),
        (b"[1]", UnrecognizedResults, "not a dictionary"),
        (b'{"mine": true}', UnrecognizedResults, "no schema_version, so not written by radial-vicreg"),
        (b'{"schema_version": 2, "config": {}}', UnrecognizedResults, "no status"),
        (stored(schema_version=0), UnrecognizedResults, "schema_version cannot be 0"),
        (stored(config=5), UnrecognizedResults, "config cannot be 5"),
        (stored(status="odd"), UnrecognizedResults, "status cannot be 'odd'"),
        (stored(probes={"p": {"top1": "high"}}), UnrecognizedResults, "probes.p.top1 cannot be 'high'"),
        (stored(processes=0), UnrecognizedResults, "processes cannot be 0"),
        (stored(cost={"step_seconds": "fast"}), UnrecognizedResults, "cost.step_seconds cannot be 'fast'"),
        (
            stored(checkpoint={"name": "a", "epoch": 2.5, "step": 6}),
            UnrecognizedResults,
            "checkpoint.epoch cannot be 2.5",
        ),
    ]:
        file.write_bytes(text)
        with pytest.raises(ResultsError) as caught:
            RunResults.read(file)
        assert type(caught.value) is kind
        assert str(caught.value).startswith(f"{file}: {reason}")
        assert "\n" not in str(caught.value)
    file.unlink()
    with pytest.raises(UnreadableResults, match=r"results\.json: cannot be read: No such file"):
        RunResults.read(file)


def test_results_of_a_later_version_are_refused_and_left_alone(file: Path) -> None:
    later = SCHEMA_VERSION + 1
    write_json(file, {**content_of(file), "schema_version": later, "status": "of the future"})
    before = file.read_bytes()
    with pytest.raises(NewerResults, match=rf"schema_version {later} was written by a newer .*: update radial-vicreg"):
        RunResults.update(file, adding("offline_knn_encoder", 1.0))
    assert file.read_bytes() == before


def test_a_change_keeps_what_it_does_not_know_and_one_of_a_wrong_type_is_not_written(file: Path) -> None:
    before = content_of(file)
    RunResults.update(file, adding("offline_knn_encoder", 40.0))
    after = {**before, "probes": {**before["probes"], "offline_knn_encoder": {"top1": 40.0}}}
    assert content_of(file) == after

    def change(stored: RunResults | None) -> RunResults:
        assert stored is not None
        stored.status = "done"  # type: ignore[assignment]
        return stored

    with pytest.raises(ValueError, match="status"):
        RunResults.update(file, change)
    assert content_of(file) == after


def add_many(path: Path, who: str, count: int) -> None:
    for index in range(count):
        RunResults.update(path, adding(f"offline_{who}_{index}", float(index)))


def test_changes_of_two_processes_are_all_there(file: Path) -> None:
    count = 25
    context = multiprocessing.get_context("fork")
    others = [context.Process(target=add_many, args=(file, who, count)) for who in ("a", "b")]
    for process in others:
        process.start()
    for process in others:
        process.join(60)
    assert [process.exitcode for process in others] == [0, 0]
    expected = {f"offline_{who}_{index}" for who in ("a", "b") for index in range(count)}
    assert expected | {"online_linear", "online_new"} == content_of(file)["probes"].keys()


def test_a_lock_that_is_not_let_go_of_stops_all_but_the_owner(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radial_vicreg.io.locks._PATIENCE", 0.1)
    with changing(file):
        with pytest.raises(LockedError):
            RunResults.update(file, adding("offline_knn_encoder", 1.0))
        RunResults.update(file, adding("offline_linear_encoder", 2.0), owner=True)
    assert "offline_knn_encoder" not in content_of(file)["probes"]
    assert "offline_linear_encoder" in content_of(file)["probes"]


def test_an_owner_replaces_a_damaged_file(file: Path) -> None:
    sound = RunResults.read(file)
    file.write_text("{")
    RunResults.update(file, lambda stored: stored or sound, owner=True)
    assert RunResults.read(file) == sound
