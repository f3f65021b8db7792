"""Every key that a configuration may hold is read by ``radial-vicreg pretrain``, or refused by it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import lightning.pytorch as pl
import pytest
import torch
from helpers import RESNET, Pretrain, composed
from pydantic import BaseModel

from radial_vicreg import cli
from radial_vicreg.compose import compose, run_config
from radial_vicreg.config import RunConfig
from radial_vicreg.config.fields import leaves
from radial_vicreg.config.readers import refuse_unread
from radial_vicreg.config.types import Section
from radial_vicreg.config.words import inner_model
from radial_vicreg.names.terms import LOSS_DEFAULTS
from radial_vicreg.nets.optimizers import build_optimizer, build_scheduler
from radial_vicreg.train.trainer import build_loggers

SCRIPT_ONLY = {key.name for key in leaves() if key.read_by is not None and key.read_by.who == "script"}
READ_AS_A_WHOLE = (
    *(f"method_kwargs.{name}" for name in LOSS_DEFAULTS),  # build_objective
    *(name for name in inspect.signature(pl.Trainer).parameters if name in RunConfig.model_fields),  # build_trainer
    "optimizer.kwargs.",
    "backbone.kwargs.",
)
"""Beginnings of keys that are handed on together."""
READ_FROM_PLAIN_CONTAINERS = {
    "data.name": "${data.name}",  # yaml/radialvicreg/base.yaml: part of the run's name
    "data.fingerprint": '"fingerprint" in config.data.model_fields_set',
    "data.fingerprints.val": "Images(known.train, known.val)",
    "data.fingerprints.seconds": "seconds=round(seconds, 3)",  # recorded
    "data.num_classes": "check_num_classes(config",
    "lock": 'self.requested.lock == "take"',
    "tag": "tag=requested.tag",
}
"""Keys that such a run does not show to be read, and how the package's text reads them."""


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, tuple[str, str]]]:
    """Every key that holds no section, with the class and the name of its field."""
    for name, field in model.model_fields.items():
        inner = inner_model(field.annotation)
        if inner is None:
            yield f"{prefix}{name}", (model.__name__, name)
        else:
            yield from keys(inner, f"{prefix}{name}.")


KEYS = dict(keys(RunConfig))


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, str]]:
    """Class and name of every field that is read from now on."""
    found: set[tuple[str, str]] = set()
    real = Section.__getattribute__

    def record(section: Section, name: str) -> Any:
        found.add((real(section, "__class__").__name__, name))
        return real(section, name)

    monkeypatch.setattr(Section, "__getattribute__", record)
    return found


def test_every_key_is_read_or_refused(
    reads: set[tuple[str, str]],
    tiny_overrides: list[str],
    pretrain: Pretrain,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    step = ["scheduler.name=step", "scheduler.lr_decay_steps=[1]"]
    pretrain("probes.frozen_linear=true", "probes.encoder_knn=true", "max_epochs=1", *step)
    # What that run has no use for: another schedule, W&B, a ResNet.
    config = run_config(compose("radialvicreg", [*tiny_overrides, *RESNET, "wandb.enabled=true"]))
    monkeypatch.setattr("lightning.pytorch.loggers.WandbLogger", Mock)
    build_loggers(config, tmp_path)
    assert not config.has_small_stem
    layer = torch.nn.Linear(1, 1)
    build_scheduler(config, build_optimizer(config, [{"name": "one", "params": layer.parameters()}]), total_steps=3)
    read = {key for key, field in KEYS.items() if field in reads or key.startswith(READ_AS_A_WHOLE)}
    # The refusal itself reads what it refuses.
    unread = KEYS.keys() - (read - SCRIPT_ONLY) - READ_FROM_PLAIN_CONTAINERS.keys()
    assert unread == SCRIPT_ONLY, "a key that nothing reads is to be read, or declared to be the script's alone"


def test_what_is_read_from_plain_containers_is_there() -> None:
    root = Path(cli.__file__).parents[1]
    text = "".join(path.read_text() for path in (*root.rglob("*.py"), root / "yaml" / "radialvicreg" / "base.yaml"))
    assert [words for words in READ_FROM_PLAIN_CONTAINERS.values() if words not in text] == []


@pytest.mark.parametrize(
    ("override", "told"),
    [
        (
            "checkpoint.dir=mine",
            r"checkpoint.dir=mine is read by solo-learn's main_pretrain.py only: use runs_dir, the folder"
            ".*omit it, or set it to trained_models",
        ),
        (
            "+data.num_classes=7",
            "data.num_classes=7, but the images of data.train_path=.* have 3: omit it, classes are counted",
        ),
        ("+enable_progress_bar=false", "enable_progress_bar: set by `radial-vicreg pretrain` itself"),
    ],
)
def test_refusals_name_the_settings_that_take_their_place(override: str, told: str, pretrain: Pretrain) -> None:
    refused = pretrain(override, status=2)
    assert re.search(told, refused.stderr)
    assert not refused.folder.exists()


@pytest.mark.parametrize("name", ["radialvicreg", "celeba/resnet18/vicreg_d512"])
def test_no_shipped_configuration_holds_what_is_refused(name: str) -> None:
    refuse_unread(run_config(composed(name)), "pretrain")
