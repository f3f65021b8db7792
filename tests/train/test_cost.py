"""What a step costs: only steps are timed, and memory is that of the process."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from radial_vicreg.train import cost
from radial_vicreg.train.cost import StepCost


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The times that the clock will show, next first."""
    times: list[float] = []
    monkeypatch.setattr(cost, "time", SimpleNamespace(perf_counter=lambda: times.pop(0)))
    return times


def _end_batches(callback: StepCost, count: int) -> None:
    module: Any = SimpleNamespace(device=torch.device("cpu"))
    trainer: Any = None
    for index in range(count):
        callback.on_train_batch_end(trainer, module, None, None, index)
    callback.on_train_epoch_end(trainer, module)


def test_the_time_between_epochs_is_no_step_s(clock: list[float]) -> None:
    callback = StepCost()
    clock += [10.0, 11.0, 12.0, 500.0, 503.0]
    _end_batches(callback, 3)
    _end_batches(callback, 2)
    assert callback.results()["cost"]["step_seconds"] == 1.0  # of 1, 1 and 3


def test_one_batch_an_epoch_has_no_time(clock: list[float]) -> None:
    callback = StepCost()
    clock += [1.0, 2.0]
    _end_batches(callback, 1)
    _end_batches(callback, 1)
    assert callback.results()["cost"]["step_seconds"] is None


def test_memory_is_that_of_the_process_in_megabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    callback = StepCost()
    assert callback.results()["cost"]["peak_memory_mb"] > 50  # PyTorch alone is more
    monkeypatch.setattr(cost, "_resident", lambda: 3 * 2**20)
    assert callback.results()["cost"]["peak_memory_mb"] == 3.0
    monkeypatch.setattr(cost, "_resident", lambda: None)
    assert callback.results()["cost"]["peak_memory_mb"] is None
