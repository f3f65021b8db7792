"""What identifies a run."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from radial_vicreg.compose import compose
from radial_vicreg.identity import config_hash
from radial_vicreg.provenance import describe_run, git_commit


@pytest.fixture
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


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("seed", 6),
        ("method_kwargs.radial_ce_loss_weight", 10),
        ("method_kwargs.radial_center", True),
        ("optimizer.lr", 0.03),
        ("optimizer.classifier_lr", 0.01),
        ("optimizer.kwargs.eta", 0.001),
        ("scheduler.warmup_epochs", 5),
        ("max_epochs", 100),
        ("augmentations.0.crop_size", 64),
        ("backbone.name", "resnet50"),
        ("data.dataset", "cifar10"),
        ("precision", 32),
    ],
)
def test_whatever_changes_the_training_changes_the_hash(config: dict[str, Any], key: str, value: Any) -> None:
    assert config_hash(changed(config, key, value)) != config_hash(config)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("data.train_path", "/elsewhere"),
        ("data.num_workers", 0),
        ("host", "solo"),
        ("runs_dir", "elsewhere"),
        ("wandb.enabled", True),
        ("name", "another name"),
        ("optimizer.kwargs.momentum", 0.9),  # solo-learn's default, which it writes out
        ("scheduler.interval", "step"),
        ("method_kwargs.sim_loss_weight", 25),  # an integer or a float
    ],
)
def test_paths_hosts_logging_and_written_out_defaults_do_not_change_the_hash(
    config: dict[str, Any], key: str, value: Any
) -> None:
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
