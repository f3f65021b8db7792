"""Two configurations are one experiment exactly when they would train alike."""

from __future__ import annotations

import contextlib
import copy
import inspect
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import lightning.pytorch as pl
import pytest
import torch
from helpers import composed
from omegaconf import OmegaConf
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from radial_vicreg import __version__
from radial_vicreg.compose import run_config
from radial_vicreg.config import RunConfig, read_config
from radial_vicreg.config.fields import choices
from radial_vicreg.config.sections import LossConfig
from radial_vicreg.config.stored import stored_config
from radial_vicreg.config.trainer_arguments import TRAINER_ARGUMENTS
from radial_vicreg.config.types import Outside, added, outside
from radial_vicreg.config.words import inner_model
from radial_vicreg.errors import UserError
from radial_vicreg.losses import RadialVICRegLoss
from radial_vicreg.names.terms import ADDED, RADIAL, RadialObjective, effective_objective
from radial_vicreg.runs.identity import config_hash
from radial_vicreg.runs.stored import RunsByIdentity, stored_runs


@pytest.fixture(scope="module")
def base() -> dict[str, Any]:
    return OmegaConf.to_container(composed("radialvicreg"), resolve=True)  # type: ignore[return-value]


@pytest.fixture
def config(base: dict[str, Any]) -> dict[str, Any]:
    return copy.deepcopy(base)


def put(config: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A copy with other values, by dotted keys."""
    changed = copy.deepcopy(config)
    for key, value in changes.items():
        *sections, name = key.split(".")
        inner: Any = changed
        for section in sections:
            if isinstance(inner, list):
                inner = inner[int(section)]
            else:
                if inner.get(section) is None:
                    inner[section] = {}
                inner = inner[section]
        inner[name] = value
    return changed


#: For each objective, keys with another value that it does not read.
UNREAD: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"radial_objective": "kl"}, {"radial_w1_loss_weight": 7.0, "radial_w1_target": "quantiles"}),
    ({"radial_objective": "kl", "radial_ent_loss_weight": 0}, {"radial_spacing": 3}),
    (
        {"radial_objective": "kl", "radial_ce_loss_weight": 0, "radial_ent_loss_weight": 1},
        {"radial_ce_normalize": False},
    ),
    ({"radial_objective": "wasserstein"}, {"radial_ce_loss_weight": 3.0, "radial_spacing": 3}),
    ({"radial_objective": "reverse_kl"}, {"radial_w1_target": "quantiles", "radial_ent_loss_weight": 1.0}),
    ({"radial_objective": "none"}, {"radial_center": True, "radial_ce_loss_weight": 1.0}),
    ({"radial_objective": "wasserstein", "radial_w1_loss_weight": 0}, {"radial_objective": "none"}),
]


def test_a_key_that_the_objective_does_not_read_is_no_part_and_leaves_the_loss_as_it_is(config: dict[str, Any]) -> None:
    def hash_of(kwargs: dict[str, Any]) -> str:
        return config_hash({**config, "method_kwargs": {**config["method_kwargs"], **kwargs}})

    z1, z2 = torch.randn(2, 16, 8, dtype=torch.float64)
    for chosen, changed in UNREAD:
        assert hash_of(chosen) == hash_of({**chosen, **changed}), changed
        assert torch.equal(RadialVICRegLoss(**chosen)(z1, z2), RadialVICRegLoss(**{**chosen, **changed})(z1, z2))


def test_vicreg_is_radial_vicreg_without_its_terms() -> None:
    zero = ["method_kwargs.radial_ce_loss_weight=0", "method_kwargs.radial_ent_loss_weight=0"]
    cell = composed("cifar100/resnet18/vicreg_d512", "optimizer.lr=0.03")
    point = composed("cifar100/resnet18/radialvicreg_d512", "optimizer.lr=0.03", *zero)
    assert config_hash(run_config(cell).plain()) == config_hash(run_config(point).plain())


def test_micro_batches_count_where_they_can_change_the_weights(config: dict[str, Any]) -> None:
    def has_part(size: int, name: str = "resnet18", **arguments: Any) -> bool:
        whole = {**config, "backbone": {"name": name, "kwargs": arguments}}
        return config_hash(put(whole, {"optimizer.micro_batch_size": size})) != config_hash(whole)

    assert has_part(255)
    assert not has_part(256)  # the whole batch
    assert not has_part(32, "vit_tiny", img_size=32)
    assert has_part(32, "vit_tiny", img_size=32, drop_path_rate=0.1)
    assert has_part(32, "timm:resnet10t")


def test_an_objective_of_another_version_is_kept_apart_with_all_it_may_read() -> None:
    found = effective_objective("radialvicreg", {"radial_objective": "new", "radial_spacing": 3})
    assert (found["radial_objective"], found["radial_spacing"]) == ("new", 3)


def leave(folder: Path, config: dict[str, Any], started: str | None = None) -> Path:
    """Write the results of a finished run."""
    folder.mkdir(parents=True)
    content = {"schema_version": 2, "status": "finished", "config": config, "processes": 1, "started": started}
    (folder / "results.json").write_text(json.dumps(content))
    return folder


def test_a_run_answers_to_the_precision_that_was_requested(tmp_path: Path, config: dict[str, Any]) -> None:
    left = leave(tmp_path / "run", {**config, "precision": "16-mixed", "accelerator": "cpu"})
    found = RunsByIdentity(stored_runs(tmp_path))
    assert [run.folder for run in found.of(stored_config({**config, "precision": 16}))] == [left]
    assert found.of(stored_config({**config, "precision": 32})) == []


def test_runs_are_sorted_by_their_starts_and_not_by_file_times_or_names(tmp_path: Path, config: dict[str, Any]) -> None:
    leave(tmp_path / "20990101-120000", config)  # without a stated start: before all others
    for name, month, modified in (("a", 2, 1), ("b", 3, 0), ("c", 1, 2)):
        folder = leave(tmp_path / name, config, f"2026-0{month}-01T00:00:00+00:00")
        os.utime(folder / "results.json", (modified, modified))
    runs = stored_runs(tmp_path)
    assert [run.folder.name for run in runs] == ["b", "a", "c", "20990101-120000"]
    assert RunsByIdentity(runs).of(stored_config(config)) == runs


#: Defaults at which additions to the identity are omitted: to change one changes what earlier runs were, so it takes a
#: new key.
FROZEN_ADDITIONS = {
    "data.format": ("0.3", "image_folder"),
    "data.multi_label": ("0.3", False),
    "data.on_bad_image": ("0.2", "error"),
}
#: Arguments of Lightning's Trainer with their frozen default and other values, each of which is another experiment.
ARGUMENTS: dict[str, tuple[Any, list[Any]]] = {
    "max_steps": (-1, [1]),
    "min_epochs": (None, [5]),
    "min_steps": (None, [5]),
    "max_time": (None, ["00:01:00:00"]),
    "limit_train_batches": (1.0, [1, 2, 0.5]),
    "overfit_batches": (0.0, [1]),
    "fast_dev_run": (False, [True, 2]),
    "gradient_clip_val": (0.0, [0.01, 5.0]),
    "gradient_clip_algorithm": ("norm", []),  # counts where gradients are clipped
    "deterministic": (False, [True, "warn"]),
    "benchmark": (False, [True]),
    "val_check_interval": (1.0, [1, 0.5]),
    "use_distributed_sampler": (True, [False]),
    "reload_dataloaders_every_n_epochs": (0, [1]),
    "barebones": (False, [True]),
}


def fields_of(model: type[BaseModel], prefix: str = "", reason: Outside | None = None) -> Iterator[Field]:
    """Every key with its declaration; what is declared of a section is declared of its keys."""
    for name, field in model.model_fields.items():
        inner, declared = inner_model(field.annotation), reason or outside(field)
        key = f"{prefix}{name}"
        if inner is None or issubclass(inner, LossConfig):
            yield Field(key, field, declared)
        else:
            yield from fields_of(inner, f"{key}.0." if name == "augmentations" else f"{key}.", declared)


class Field(NamedTuple):
    key: str
    info: FieldInfo
    outside: Outside | None


FIELDS = {field.key: field for field in fields_of(RunConfig)}
CANDIDATES: list[Any] = [
    *(True, False, 1, 2, 3, 0.5, 0.25, 7.5, "other", "64-true", "all", "cpu", "solo", "skip", "ram", "take", "none"),
    *("quantiles", "wasserstein", [1, 2], [0.5, 0.75], [0.1, 0.2, 0.3], ["1:abcdef01"], {"_target_": "my.Loss"}),
]
#: Keys that are read under a condition, and what brings it about.
CONDITIONS: dict[str, dict[str, Any]] = {
    "loss_views": {"loss": {"_target_": "my.Loss"}, "method": "other"},
    "method_kwargs.small_image_stem": {"method_kwargs.small_image_stem": False},
}
for objective in (*RADIAL, RadialObjective("kl", "with what is added", ADDED)):
    for term in objective.terms:
        chosen = {"method_kwargs.radial_objective": objective.name}
        CONDITIONS[f"method_kwargs.{term.weight.name}"] = chosen
        for key in term.reads:
            CONDITIONS[f"method_kwargs.{key.name}"] = {**chosen, f"method_kwargs.{term.weight.name}": 1.0}


def names_of(key: str) -> tuple[str, ...]:
    with contextlib.suppress(KeyError):
        return choices(key.replace(".0.", "."))
    return ()


def changed_identities(config: dict[str, Any], key: str) -> list[bool]:
    """For each other value that the key may have, whether the identity is another; no more after the first that is."""
    before = read_config(config, "stored")
    mine = config_hash(before.plain(), before.processes)
    found: list[bool] = []
    for value in [*CANDIDATES, *names_of(key)]:
        with contextlib.suppress(UserError):
            changed = read_config(put(config, {key: value}), "stored")
            if changed != before:
                found.append(config_hash(changed.plain(), changed.processes) != mine)
        if any(found):
            break
    return found


@pytest.mark.parametrize("section", sorted({key.partition(".")[0] for key in FIELDS} - {"method"}))
def test_every_key_is_part_of_the_identity_or_declared_not_to_be(base: dict[str, Any], section: str) -> None:
    for key in sorted(key for key in FIELDS if key.partition(".")[0] == section):
        found = changed_identities(put(base, CONDITIONS.get(key, {})), key)
        assert found, f"no candidate is another value of {key}: add one to CANDIDATES"
        if FIELDS[key].outside is None:
            assert any(found), f"{key} can change the weights: let it count, or declare it Outside with a reason"
        else:
            assert not any(found), f"{key} is declared outside ({FIELDS[key].outside}) and counts"


def test_every_argument_of_the_trainer_is_a_field_or_declared() -> None:
    known = inspect.signature(pl.Trainer).parameters.keys()
    assert known - RunConfig.model_fields.keys() <= TRAINER_ARGUMENTS.keys()
    assert not RunConfig.model_fields.keys() & TRAINER_ARGUMENTS.keys(), "two declarations of one argument"
    assert TRAINER_ARGUMENTS.keys() <= known


def test_defaults_at_which_additions_are_omitted_are_frozen() -> None:
    found = {
        key: (mark.since, field.info.get_default()) for key, field in FIELDS.items() if (mark := added(field.info))
    }
    new = {key for key, (since, _) in found.items() if __version__.startswith(f"{since}.0.dev")}  # not released yet
    assert {key: mark for key, mark in found.items() if key not in new or key in FROZEN_ADDITIONS} == FROZEN_ADDITIONS
    counted = {name: found.default for name, found in TRAINER_ARGUMENTS.items() if found.outside is None}
    assert counted == {name: default for name, (default, _) in ARGUMENTS.items()}


def test_an_argument_of_the_trainer_that_can_change_the_weights_tells_runs_apart(config: dict[str, Any]) -> None:
    changes = [{name: value} for name, (_, others) in ARGUMENTS.items() for value in others]
    changes.append({"gradient_clip_val": 5.0, "gradient_clip_algorithm": "value"})
    hashes = {config_hash(config): {}}
    for changed in changes:
        mine = config_hash({**config, **changed})
        assert mine not in hashes, f"{changed} and {hashes[mine]} are one experiment"
        hashes[mine] = changed


ONE_TRAINING: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"fast_dev_run": True}, {"fast_dev_run": 1}),
    ({"gradient_clip_val": 1}, {"gradient_clip_val": 1.0}),
    ({"gradient_clip_val": 1, "gradient_clip_algorithm": "norm"}, {"gradient_clip_val": 1}),
    ({"gradient_clip_algorithm": "value"}, {}),
    ({"gradient_clip_val": 0}, {}),
    ({"overfit_batches": 0}, {}),
    ({"check_val_every_n_epoch": 5, "num_sanity_val_steps": 2, "profiler": "simple"}, {}),
    ({"helper_of_mine": 3}, {}),
    ({"precision": "16"}, {"precision": "16-mixed"}),
    ({"precision": 32}, {"precision": "32-true"}),
    ({"method_kwargs.sim_loss_weight": 25}, {"method_kwargs.sim_loss_weight": 25.0}),
    ({"method_kwargs.small_image_stem": True}, {}),  # CIFAR-100
    ({"method_kwargs.add_projector_classifier": True}, {}),  # as a host adds it
    ({"optimizer.kwargs.momentum": 0.9}, {}),  # solo-learn's default, which it writes out
]


def test_two_ways_to_write_one_training_are_one_experiment(config: dict[str, Any]) -> None:
    for first, second in ONE_TRAINING:
        assert config_hash(put(config, first)) == config_hash(put(config, second)), (first, second)
    for name, (ours, _) in ARGUMENTS.items():
        lightnings = inspect.signature(pl.Trainer).parameters[name].default
        assert config_hash({**config, name: lightnings}) == config_hash({**config, name: ours}) == config_hash(config)


def test_a_value_that_only_feeds_others_counts_where_it_arrives() -> None:
    plain, helped = ["optimizer.lr=0.5"], ["+my_rate=0.5", "optimizer.lr=${my_rate}"]
    first, second = (run_config(composed("radialvicreg", *overrides)).plain() for overrides in (plain, helped))
    assert config_hash(first) == config_hash(second)


OMITTED_DEFAULTS: dict[str, tuple[Any, Any]] = {
    "scheduler.warmup_start_lr": (3e-5, 1e-4),
    "scheduler.warmup_epochs": (10, 5),
    "scheduler.min_lr": (0.0, 1e-3),
    "scheduler.interval": ("step", "epoch"),
    "scheduler.lr_decay_steps": (None, [5]),
    "optimizer.exclude_bias_n_norm_wd": (False, True),
    "data.no_labels": (False, True),
    "data.fraction": (-1, 0.5),
}
"""Keys with their default and another value."""


def test_a_default_that_is_written_out_and_its_absence_are_one_experiment(config: dict[str, Any]) -> None:
    for key, (default, other) in OMITTED_DEFAULTS.items():
        section, name = key.split(".")
        absent = copy.deepcopy(config)
        absent[section].pop(name, None)
        hashes = [config_hash(given) for given in (absent, put(absent, {key: default}), put(absent, {key: other}))]
        assert hashes[0] == hashes[1] != hashes[2], key
