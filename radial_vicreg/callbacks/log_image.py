"""Figures for W&B and TensorBoard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def takes_images(loggers: Sequence[Any]) -> bool:
    """Whether one of Lightning's loggers shows images."""
    return any(_kind(logger) for logger in loggers)


def log_figure(loggers: Sequence[Any], name: str, figure: Any, step: int) -> None:
    """Sends a matplotlib figure to every logger that shows images; the others are left alone.

    Args:
        loggers: Lightning's.
        name: key of the image.
        figure: with an Agg canvas.
        step: optimizer steps so far.
    """
    kinds = [(logger, _kind(logger)) for logger in loggers]
    if not any(kind for _, kind in kinds):
        return
    figure.canvas.draw()
    pixels = np.asarray(figure.canvas.buffer_rgba())[..., :3]
    for logger, kind in kinds:
        if kind == "wandb":
            logger.log_image(name, [pixels], step=step)
        elif kind == "tensorboard":
            logger.experiment.add_image(name, pixels, step, dataformats="HWC")


def _kind(logger: Any) -> str | None:
    # By name: importing the loggers' classes imports W&B and TensorBoard.
    for base in type(logger).__mro__:
        if base.__name__ == "WandbLogger":
            return "wandb"
        if base.__name__ == "TensorBoardLogger":
            return "tensorboard"
    return None
