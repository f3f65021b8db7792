"""What a step costs: only steps are timed, and memory is that of the process."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from radial_vicreg.train.callbacks import cost
from radial_vicreg.train.callbacks.cost import SeparateCost, StepCost


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
        callback.on_train_batch_start(trainer, module, None, index)
        callback.on_train_batch_end(trainer, module, None, None, index)
    callback.on_train_epoch_end(trainer, module)


def test_the_time_between_epochs_is_no_step_s(clock: list[float]) -> None:
    callback = StepCost()
    clock += [9.0, 10.0, 10.5, 11.0, 11.5, 12.0, 499.0, 500.0, 502.0, 503.0]
    _end_batches(callback, 3)
    _end_batches(callback, 2)
    assert callback.results()["cost"]["step_seconds"] == 1.0  # of 1, 1 and 3
    assert callback.results()["cost"]["image_wait_share"] == 0.6  # 0.5, 0.5 and 2 seconds of 5
    of_one_batch = StepCost()
    clock += [0.5, 1.0]
    _end_batches(of_one_batch, 1)
    assert of_one_batch.results()["cost"]["step_seconds"] is None


def test_memory_is_that_of_the_process_in_megabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    callback = StepCost()
    assert callback.results()["cost"]["peak_memory_mb"] > 50  # PyTorch alone is more
    monkeypatch.setattr(cost, "_resident", lambda: 3 * 2**20)
    assert callback.results()["cost"]["peak_memory_mb"] == 3.0
    monkeypatch.setattr(cost, "_resident", lambda: None)
    assert callback.results()["cost"]["peak_memory_mb"] is None


class Allocator:
    """A stand-in for the memory of a GPU: the most that was in use since the peak was reset."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.peak = 0
        patch.setattr(torch.cuda, "max_memory_allocated", lambda device: self.peak)
        patch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: setattr(self, "peak", 0))

    def use(self, megabytes: int) -> None:
        """Use so much for a moment."""
        self.peak = max(self.peak, megabytes * 2**20)


def test_a_measurement_s_memory_on_a_gpu_is_no_step_s(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    gpu, step, apart = Allocator(monkeypatch), StepCost(), SeparateCost("radii")
    clock += [float(time) for time in range(100)]
    trainer: Any = SimpleNamespace(callbacks=[apart, step])
    module: Any = SimpleNamespace(device=torch.device("cuda:0"))

    def epoch(measured_by: str) -> None:
        for index in range(2):
            step.on_train_batch_start(trainer, module, None, index)
            gpu.use(100)
            step.on_train_batch_end(trainer, module, None, None, index)
        if measured_by == "a callback before it":
            with apart.measured(trainer, module.device):
                gpu.use(700)
        else:
            step.on_validation_start(trainer, module)
            gpu.use(900)
        step.on_train_epoch_end(trainer, module)

    with apart.measured(trainer, module.device):
        gpu.use(500)  # of the untrained network
    epoch("a callback before it")
    epoch("the validation")
    assert step.results()["cost"]["peak_memory_mb"] == 100.0
    assert apart.results()["cost"] == {"radii_seconds": 1.0, "radii_memory_mb": 700.0}
    step.on_train_batch_start(trainer, module, None, 0)
    gpu.use(300)
    assert step.results()["cost"]["peak_memory_mb"] == 300.0  # of a run that fails here


def test_on_a_cpu_a_measurement_has_seconds_alone(clock: list[float]) -> None:
    apart = SeparateCost("radii")
    assert apart.results()["cost"] == {"radii_seconds": None, "radii_memory_mb": None}
    clock += [1.0, 3.0, 10.0, 14.0]
    for _ in range(2):
        with apart.measured(SimpleNamespace(callbacks=[]), torch.device("cpu")):  # type: ignore[arg-type]
            pass
    assert apart.results()["cost"] == {"radii_seconds": 3.0, "radii_memory_mb": None}
