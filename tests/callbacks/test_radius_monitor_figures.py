"""Figures and histograms of the radius monitor."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger

from radial_vicreg.callbacks import RadiusMonitor
from radial_vicreg.callbacks.log_image import log_figure, takes_images
from radial_vicreg.diagnostics import radius_histogram
from radial_vicreg.figures import radii_figure


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


def test_wandb_gets_the_pixels_of_the_figure() -> None:
    class WandbLogger:
        images: list

        def log_image(self, key: str, images: list, step: int) -> None:
            self.images = [key, images[0].shape, step]

    logger = WandbLogger()
    assert takes_images([logger])
    log_figure([logger], "radii", radii_figure([("a", torch.rand(20) + 3)], 16), 7)
    assert logger.images[0] == "radii"
    assert logger.images[1][2] == 3
    assert logger.images[2] == 7


def test_without_an_image_logger_nothing_is_drawn(tmp_path: Path) -> None:
    loggers = [CSVLogger(str(tmp_path))]
    assert not takes_images(loggers)
    log_figure(loggers, "radii", None, 0)  # the figure is not even looked at


def test_one_far_outlier_does_not_ask_for_thousands_of_bins() -> None:
    radii = torch.cat([torch.linspace(1, 1.001, 5000), torch.tensor([100.0])])
    assert len(radius_histogram(radii)["density"]) <= 200
