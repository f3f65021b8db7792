"""Figures and histograms of the radius monitor."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import torch
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from lightning.pytorch.loggers.logger import Logger
from torch.utils.data import TensorDataset

from radial_vicreg.diagnostics import normal_statistics, radius_histogram
from radial_vicreg.figures import radii_figure
from radial_vicreg.runs.results import Radii, RadiusStatistics
from radial_vicreg.train.callbacks.log_image import log_measurement, takes_images
from radial_vicreg.train.callbacks.radius_monitor import RadiusMonitor


def test_results_carry_the_histogram_that_a_report_draws(fit: Callable) -> None:
    monitor = RadiusMonitor(crop_size=8, every_n_epochs=1)
    fit([monitor])
    radii = monitor.results()["radii"]
    assert "histogram" not in radii["history"][0]
    for key in ("initial", "final"):
        histogram = radii[key]["histogram"]
        widths = np.diff(histogram["edges"])
        assert np.sum(widths * histogram["density"]) == pytest.approx(1.0)


def test_tensorboard_gets_a_figure_at_every_measurement(fit: Callable, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logger = TensorBoardLogger(str(tmp_path), name=None, version="tb")
    fit([RadiusMonitor(crop_size=8, every_n_epochs=1)], epochs=3, logger=logger)
    events = EventAccumulator(str(tmp_path / "tb"))
    events.Reload()
    assert [event.step for event in events.Images("radii")] == [0, 5, 10, 15]


def test_wandb_gets_numbers_and_figure_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    class WandbLogger:
        calls: ClassVar[list] = []

        def log_metrics(self, metrics: dict, step: int) -> None:
            self.calls.append((metrics, step))

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(Image=lambda pixels: pixels))
    figure = radii_figure([("a", torch.rand(20) + 3)], 16)
    log_measurement([WandbLogger()], {"radius_eval/kl": 1.0}, 7, {"radii": figure})
    ((logged, step),) = WandbLogger.calls
    assert (logged["radius_eval/kl"], step) == (1.0, 7)
    assert logged["radii"][0].shape[-1] == 3


def test_without_an_image_logger_nothing_is_drawn(tmp_path: Path) -> None:
    loggers = [CSVLogger(str(tmp_path))]
    assert not takes_images(loggers)
    log_measurement(loggers, {"radius_eval/kl": 1.0}, 0, {"radii": None})  # the figure is not even looked at


def test_a_measurement_is_one_call_without_the_number_of_images(fit: Callable) -> None:
    class Stub(Logger):
        name, version = "stub", "0"
        calls: ClassVar[list] = []

        def log_metrics(self, metrics: dict, step: int | None = None) -> None:
            self.calls.append(metrics)

        def log_hyperparams(self, *_: object) -> None:
            """Nothing to keep."""

    monitor = RadiusMonitor(crop_size=8, every_n_epochs=1)
    fit([monitor], epochs=2, logger=Stub())
    radii = [call for call in Stub.calls if any(key.startswith("radius_") for key in call)]
    assert len(radii) == len(monitor.history) == 3
    assert all(len(call) == 14 and "radius_eval/count" not in call for call in radii)
    assert "count" in monitor.history[0]["eval"]


def test_gaussianity_is_measured_when_asked_for_and_its_normal_reference_once(fit: Callable) -> None:
    monitor = RadiusMonitor(crop_size=8, every_n_epochs=1, gaussianity=True)
    fit([monitor], epochs=2)
    results = Radii.model_validate(monitor.results()["radii"])
    assert results.normal is not None
    assert results.normal.plain() == normal_statistics(32, 5)
    assert len(results.history) == 3
    for entry in results.history:
        for statistics in (entry.eval, entry.batch):
            assert set(statistics.plain()) == set(results.normal.plain()) <= set(RadiusStatistics.model_fields)
    plain = RadiusMonitor(crop_size=8, every_n_epochs=1)
    fit([plain], epochs=2)
    for found, without in zip(monitor.history, plain.history, strict=True):  # the training is not touched
        assert {name: found["eval"][name] for name in without["eval"]} == without["eval"]
    assert "normal" not in plain.results()["radii"]
    assert "normal" not in plain.state_dict()


def test_a_resumed_monitor_keeps_its_normal_reference() -> None:
    monitor, resumed = (RadiusMonitor(crop_size=8, gaussianity=True) for _ in range(2))
    monitor.normal = {"kl": 0.1}
    resumed.load_state_dict(monitor.state_dict())
    assert resumed.results()["radii"]["normal"] == {"kl": 0.1}


def test_one_far_outlier_does_not_ask_for_thousands_of_bins() -> None:
    radii = torch.cat([torch.linspace(1, 1.001, 5000), torch.tensor([100.0])])
    assert len(radius_histogram(radii)["density"]) <= 200


@pytest.mark.parametrize(("count", "limit", "step"), [(12, 4, 3), (10, 4, 3), (4, 4, 1), (3, 10, 1)])
def test_images_of_a_measurement_are_spaced_evenly_over_the_whole_set(count: int, limit: int, step: int) -> None:
    """A folder's images come class by class: its first ones are of its first classes."""
    images = torch.arange(count).float().reshape(-1, 1, 1, 1).expand(-1, 3, 8, 8)
    monitor = RadiusMonitor(crop_size=8, max_images=limit)
    seen = torch.cat(list(monitor._evenly_spaced(TensorDataset(images, torch.zeros(count)), limit)))[:, 0, 0, 0]
    assert seen.tolist() == list(range(0, count, step))
