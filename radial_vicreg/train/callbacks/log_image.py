"""Log a measurement with its figures in one call, so that W&B has one row for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def takes_images(loggers: Sequence[Any]) -> bool:
    """Return whether one of Lightning's loggers can show images."""
    return any(_kind(logger) for logger in loggers)


def log_measurement(
    loggers: Sequence[Any], metrics: Mapping[str, float], step: int, figures: Mapping[str, Any] | None = None
) -> None:
    """Send numbers to every logger in one call, with figures for loggers that can show images.

    Args:
        loggers: Lightning's loggers.
        metrics: values by key.
        step: optimizer steps so far.
        figures: matplotlib figures with an Agg canvas, by key.
    """
    pixels = {name: _pixels(figure) for name, figure in (figures or {}).items()} if takes_images(loggers) else {}
    for logger in loggers:
        kind = _kind(logger)
        logger.log_metrics({**metrics, **(_wandb_images(pixels) if kind == "wandb" else {})}, step=step)
        if kind == "tensorboard":
            for name, image in pixels.items():
                logger.experiment.add_image(name, image, step, dataformats="HWC")


def _pixels(figure: Any) -> np.ndarray:
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba())[..., :3]


def _wandb_images(pixels: Mapping[str, np.ndarray]) -> dict[str, object]:
    import wandb

    return {name: [wandb.Image(image)] for name, image in pixels.items()}


def _kind(logger: Any) -> str | None:
    # Compared by name: importing the loggers' classes would import W&B and TensorBoard.
    for base in type(logger).__mro__:
        if base.__name__ == "WandbLogger":
            return "wandb"
        if base.__name__ == "TensorBoardLogger":
            return "tensorboard"
    return None
