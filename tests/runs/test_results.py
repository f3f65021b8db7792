"""What identifies a run, and the file that says what became of it."""

from __future__ import annotations

import copy
import json
import multiprocessing
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning.pytorch as pl
import pytest
from omegaconf import OmegaConf

import radial_vicreg
from radial_vicreg.compose import compose
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
from radial_vicreg.train.callbacks.record import ResultsWriter

EARLIER = Path(__file__).parents[1] / "fixtures"
OLD = sorted(
    file for file in EARLIER.rglob("results.json") if "synthetic" not in file.parts and "latest" not in file.parts
)


@pytest.fixture(scope="module")
def config() -> dict[str, Any]:
    return OmegaConf.to_container(compose("radialvicreg", []), resolve=True)  # type: ignore[return-value]


def changed(config: dict[str, Any], dotted: str, value: Any) -> dict[str, Any]:
    other = copy.deepcopy(config)
    *path, last = dotted.split(".")
    node = other
    for key in path:
        node = node[int(key) if isinstance(node, list) else key]
    node[last] = value
    return other


def test_paths_hosts_logging_and_written_out_defaults_do_not_change_the_hash(config: dict[str, Any]) -> None:
    for key, value in [
        ("data.train_path", "/elsewhere"),
        ("data.num_workers", 0),
        ("host", "solo"),
        ("runs_dir", "elsewhere"),
        ("wandb.enabled", True),
        ("name", "another name"),
        ("optimizer.kwargs.momentum", 0.9),  # solo-learn's default, which it writes out
        ("scheduler.interval", "step"),
        ("method_kwargs.sim_loss_weight", 25),  # an integer or a float
    ]:
        assert config_hash(changed(config, key, value)) == config_hash(config)


def test_seeds_of_one_experiment_share_a_hash_without_the_seed(config: dict[str, Any]) -> None:
    first, second = describe_run(config, "solo"), describe_run(changed(config, "seed", 6), "solo")
    assert first["experiment_hash"] == second["experiment_hash"]
    assert first["config_hash"] != second["config_hash"]


def test_processes_change_the_hash_since_the_batch_size_counts_for_each(config: dict[str, Any]) -> None:
    assert config_hash(config, processes=2) != config_hash(config, processes=1)


def test_description_names_versions_and_host(config: dict[str, Any]) -> None:
    described = describe_run(config, "standalone")
    assert described["host"] == "standalone"
    assert described["seed"] == config["seed"]
    assert described["versions"]["torch"]
    assert described["config"]["method"] == "radialvicreg"


def test_a_folder_outside_any_checkout_has_no_commit(tmp_path: Path) -> None:
    assert git_commit(tmp_path) is None


# ---- results.json ----


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


def test_results_of_earlier_releases_are_the_same_after_reading_and_writing(tmp_path: Path) -> None:
    for old in OLD:
        RunResults.read(old).write(tmp_path / "results.json")
        assert (tmp_path / "results.json").read_text() == old.read_text()


def test_results_of_an_earlier_release_are_there() -> None:
    assert len(OLD) > 10


def test_the_typed_configuration_of_an_earlier_release_has_its_identity() -> None:
    for old in OLD:
        results = RunResults.read(old)
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
    assert results.requested.seed == 5
    assert results.identity.hashes.keys() == {"config_hash", "experiment_hash"}
    assert results.images.val
    results.status = "failed"
    assert results.plain() == {**before, "status": "failed"}


def test_the_names_of_a_run_s_files_and_its_end_are_written_in_one_module() -> None:
    for text, owner in [
        ("args.json", "runs/stored.py"),
        ("checkpoints", "runs/checkpoints.py"),
        ("finished", "runs/results.py"),
        ("last.ckpt", "runs/checkpoints.py"),
        ("latest", "runs/stored.py"),
        ("results.json", "runs/results.py"),
    ]:
        package = Path(radial_vicreg.__file__).parent
        modules = [file.relative_to(package) for file in package.rglob("*.py") if f'"{text}"' in file.read_text()]
        # Synthetic experiments and their figures are no runs: their results have another form.
        apart = {
            Path("cli/commands/synthetic.py"),
            *(module for module in modules if module.parts[:2] == ("paper", "synthetic")),
        }
        assert [str(module) for module in modules if module not in apart] == [owner]


def test_readers_find_figures_as_attributes(file: Path) -> None:
    results = RunResults.read(file)
    assert (results.status, results.epochs, results.processes) == ("finished", 2, 1)
    assert results.probe("online_linear").top1 == 50
    assert results.probe("offline_linear_encoder").top1 is None
    assert [entry.figure("train_loss") for entry in results.history] == [None, 3.0]


def test_figures_of_other_images_are_not_those_of_the_run(file: Path) -> None:
    content = content_of(file)
    content["config"]["data"]["fingerprints"] = {"train": ["2:bb1ab5e0"], "val": ["2:0a1b2c3d"]}
    for val, expected in (("2:0a1b2c3d", 50), ("2:4e5f6a7b", None)):
        content["probes"]["online_linear"]["origin"] = {"checkpoint": None, "train": None, "val": [val]}
        write_json(file, content)
        results = RunResults.read(file)
        assert results.probe("online_linear").top1 == expected
        assert results.owns(results.probes.online_linear) is (expected is not None)


def test_what_a_step_costs_may_be_there_in_part_or_not_at_all(file: Path) -> None:
    assert RunResults.read(file).cost is None
    write_json(file, {**content_of(file), "cost": {"step_seconds": 0.25, "peak_memory_mb": None}})
    cost = RunResults.read(file).cost
    assert cost is not None
    assert (cost.step_seconds, cost.peak_memory_mb) == (0.25, None)
    write_json(file, {**content_of(file), "cost": {"step_seconds": "fast"}})
    with pytest.raises(UnrecognizedResults, match=r"cost\.step_seconds cannot be 'fast'"):
        RunResults.read(file)


def test_the_checkpoint_of_a_finished_run_is_named_null_or_of_a_file_before_it_was(file: Path) -> None:
    assert RunResults.read(file).checkpoint is None
    assert "checkpoint" not in RunResults.read(file).plain()
    write_json(file, {**content_of(file), "checkpoint": None})
    assert RunResults.read(file).plain()["checkpoint"] is None
    write_json(file, {**content_of(file), "checkpoint": {"name": "epoch-2.ckpt", "epoch": 2, "step": 6}})
    checkpoint = RunResults.read(file).checkpoint
    assert checkpoint is not None
    assert (checkpoint.name, checkpoint.epoch, checkpoint.step) == ("epoch-2.ckpt", 2, 6)
    write_json(file, {**content_of(file), "checkpoint": {"name": "epoch-2.ckpt", "epoch": 2.5, "step": 6}})
    with pytest.raises(UnrecognizedResults, match=r"checkpoint\.epoch cannot be 2\.5"):
        RunResults.read(file)


def test_what_is_no_finite_number_is_no_figure(file: Path) -> None:
    figures = {"top1": float("nan"), "top5": 10**400, "accuracy": float("-inf")}
    results = RunResults.model_validate({**content_of(file), "probes": {"p": figures}})
    found = results.probe("p")
    assert (found.top1, found.top5, found.accuracy) == (None, None, None)
    results.write(file)
    assert RunResults.read(file).probe("p") == found


def test_damaged_and_foreign_files_are_refused_in_one_line(file: Path) -> None:
    for text, kind, reason in [
        (b"", UnreadableResults, "cut short or not JSON"),
        (b'{"schema_version": 1, "sta', UnreadableResults, "cut short or not JSON"),
        (b"\xff\xfe", UnreadableResults, "cut short or not JSON"),
        (b'{"a":' * 99_999, UnreadableResults, "cut short or not JSON"),
        (b"[1]", UnrecognizedResults, "not a dictionary"),
        (b'{"mine": true}', UnrecognizedResults, "no schema_version, so not written by radial-vicreg"),
        (b'{"schema_version": 2, "config": {}}', UnrecognizedResults, "no status"),
        (
            b'{"schema_version": 0, "config": {}, "status": "finished"}',
            UnrecognizedResults,
            "schema_version cannot be 0",
        ),
        (b'{"schema_version": 2, "config": 5, "status": "finished"}', UnrecognizedResults, "config cannot be 5"),
        (b'{"schema_version": 2, "config": {}, "status": "odd"}', UnrecognizedResults, "status cannot be 'odd'"),
        (
            b'{"schema_version": 2, "config": {}, "status": "failed", "probes": {"p": {"top1": "high"}}}',
            UnrecognizedResults,
            "probes.p.top1 cannot be 'high'",
        ),
        (
            b'{"schema_version": 2, "config": {}, "status": "failed", "epochs": "2"}',
            UnrecognizedResults,
            "epochs cannot be '2'",
        ),
        (
            b'{"schema_version": 2, "config": {}, "status": "failed", "processes": 0}',
            UnrecognizedResults,
            "processes cannot be 0",
        ),
    ]:
        file.write_bytes(text)
        with pytest.raises(ResultsError) as caught:
            RunResults.read(file)
        assert type(caught.value) is kind
        assert str(caught.value).startswith(f"{file}: {reason}")
        assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableResults, match=r"results\.json: cannot be read: No such file"):
        RunResults.read(tmp_path / "results.json")


def test_results_of_a_later_version_are_refused_and_left_alone(file: Path) -> None:
    write_json(file, {**content_of(file), "schema_version": SCHEMA_VERSION + 1, "status": "of the future"})
    before = file.read_bytes()
    with pytest.raises(
        NewerResults, match=rf"schema_version {SCHEMA_VERSION + 1} was written by a newer .*: " f"update radial-vicreg"
    ):
        RunResults.update(file, adding("offline_knn_encoder", 1.0))
    assert file.read_bytes() == before


def test_a_change_keeps_what_it_does_not_know(file: Path) -> None:
    before = content_of(file)
    RunResults.update(file, adding("offline_knn_encoder", 40.0))
    assert content_of(file) == {**before, "probes": {**before["probes"], "offline_knn_encoder": {"top1": 40.0}}}


def test_a_change_of_a_wrong_type_is_not_written(file: Path) -> None:
    before = file.read_bytes()

    def change(stored: RunResults | None) -> RunResults:
        assert stored is not None
        stored.status = "done"  # type: ignore[assignment]
        return stored

    with pytest.raises(ValueError, match="status"):
        RunResults.update(file, change)
    assert file.read_bytes() == before


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


def test_a_training_keeps_what_others_have_added_to_its_file(config: dict[str, Any], tmp_path: Path) -> None:
    trainer: Any = SimpleNamespace(
        **{"ckpt_path": None, "is_global_zero": True, "world_size": 1, "precision": "32-true", "callbacks": []},
        **{"callback_metrics": {"train_loss": 1.0}, "current_epoch": 0, "max_epochs": 2, "global_step": 3},
    )
    writer, module, file = (
        ResultsWriter(config, "standalone", tmp_path),
        pl.LightningModule(),
        tmp_path / "results.json",
    )
    writer.on_train_start(trainer, module)
    writer.on_train_epoch_end(trainer, module)
    added = {"offline_knn_encoder": {"top1": 1.0}, "offline_mlp_encoder_untrained": {"top1": 2.0}}
    write_json(file, {**content_of(file), "note": "mine", "probes": {**content_of(file)["probes"], **added}})
    writer.on_exception(trainer, module, RuntimeError("broken"))  # of the same epoch
    kept = content_of(file)
    assert (kept["status"], kept["error"], kept["note"]) == ("failed", "RuntimeError: broken", "mine")
    assert kept["probes"].keys() == {"online_linear", *added}
