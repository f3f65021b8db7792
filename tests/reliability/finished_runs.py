"""What a run leaves, and whether two runs left the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch

HOSTS = ["standalone", pytest.param("solo", marks=[pytest.mark.solo, pytest.mark.slow])]
#: What differs between a run and the same run interrupted: times, and paths (``config_hash`` is compared).
OWN = ("seconds", "started", "config")


class AtStep(pl.Callback):
    """Does something after a training step, once.

    Args:
        step: number of steps done, from 1.
        action: what to do.
    """

    def __init__(self, step: int, action: Callable[[], Any]) -> None:
        self.step, self.action, self.done = step, action, False

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        if trainer.global_step == self.step and not self.done:
            self.done = True
            self.action()


def only_run(runs: Path) -> Path:
    (folder,) = runs.glob("*/*/results.json")
    return folder.parent


def checkpoint_of(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)
    return content


def results_of(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return {key: value for key, value in content.items() if key not in OWN}


def assert_same_run(found: Path, expected: Path) -> None:
    """Weights, optimizer, schedule, every callback's state (the probes') and results, bit for bit."""
    first, second = checkpoint_of(found), checkpoint_of(expected)
    for key in ("state_dict", "optimizer_states", "lr_schedulers", "epoch", "global_step", "callbacks"):
        assert_equal(without_own(first[key]), without_own(second[key]), key)
    assert_equal(results_of(found), results_of(expected), "results.json")


def without_own(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_own(item) for key, item in value.items() if key not in OWN}
    return value


def assert_equal(found: Any, expected: Any, where: str) -> None:
    if isinstance(expected, torch.Tensor):
        assert torch.equal(found, expected), where
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys(), where
        for key, value in expected.items():
            assert_equal(found[key], value, f"{where}.{key}")
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected), where
        for index, value in enumerate(expected):
            assert_equal(found[index], value, f"{where}.{index}")
    else:
        assert found == expected, where
