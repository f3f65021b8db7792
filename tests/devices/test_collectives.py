"""Collectives of a training step: each is a wait of all processes for the slowest."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch.distributed as dist
from helpers import HOSTS_SOLO_SLOW, LAUNCHED, Pretrain

from radial_vicreg.losses import objective
from radial_vicreg.runtime import distributed
from radial_vicreg.train import run as train
from radial_vicreg.train.callbacks import stop_on_signal

COLLECTIVES = ("all_reduce", "all_gather", "all_gather_into_tensor", "all_gather_object", "barrier", "broadcast")


class Steps(pl.Callback):
    """Lists the collectives of each step, its callbacks included, as ``collective of module``."""

    def __init__(self) -> None:
        self.steps: list[list[str]] = []

    def on_train_batch_start(self, *_: Any) -> None:
        self.steps.append([])

    def on_train_epoch_end(self, *_: Any) -> None:
        self.steps.append([])  # those between two epochs

    def note(self, name: str) -> None:
        files = [Path(frame.filename) for frame in traceback.extract_stack() if "/radial_vicreg/" in frame.filename]
        ours = [file.stem for file in files if file.stem != "distributed"]
        if self.steps and ours:
            self.steps[-1].append(f"{name} of {ours[-1]}")


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[Steps]:
    """Counts in a real gloo group, of one process: starting more would take seconds. All collectives take place."""
    counted = Steps()
    for module in (distributed, objective, stop_on_signal):
        monkeypatch.setattr(module, "is_distributed", dist.is_initialized)  # also with one process
    for name in COLLECTIVES:
        real = getattr(dist, name)

        def call(*arguments: Any, _name: str = name, _real: Callable[..., Any] = real, **keywords: Any) -> Any:
            counted.note(_name)
            return _real(*arguments, **keywords)

        monkeypatch.setattr(dist, name, call)
    for name in LAUNCHED:  # Lightning sets them, and a later test would take its processes for started
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    build = train.build_trainer

    def with_ddp(config: Any) -> pl.Trainer:
        trainer = build(config.model_copy(update={"strategy": "ddp"}))
        trainer.callbacks.insert(0, counted)  # type: ignore[attr-defined]
        return trainer

    monkeypatch.setattr(train, "build_trainer", with_ddp)
    yield counted
    if dist.is_initialized():
        dist.destroy_process_group()


@pytest.mark.parametrize("host", HOSTS_SOLO_SLOW)
def test_a_step_has_one_collective_for_everything_that_it_logs(host: str, steps: Steps, pretrain: Pretrain) -> None:
    pretrain(f"host={host}", "max_epochs=1", "log_every_n_steps=1", "diagnostics.enabled=false")
    middle = steps.steps[1]  # neither the first nor the last of an epoch, in which signals are asked for
    assert middle == [
        "all_gather of _checks",  # the shapes, and whether every process accepts its embeddings
        "all_gather of _statistics",  # the embeddings
        "all_gather of _statistics",  # squared norms of Gram matrices, and radii
        "all_reduce of step",  # all that is logged: terms, the classifier's loss and accuracies
        "all_reduce of online",  # gradients of the probes
    ]
