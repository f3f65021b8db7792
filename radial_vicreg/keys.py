"""Names and defaults that configuration and identity agree on, without torch."""

from __future__ import annotations

from typing import Any

OPTIMIZER_DEFAULTS: dict[str, dict[str, Any]] = {
    "sgd": {"momentum": 0.9},
    "lars": {"momentum": 0.9, "eta": 1e-3, "clip_lr": False, "exclude_bias_n_norm": False},
    "adam": {},
    "adamw": {"betas": [0.9, 0.999]},
}
"""Optimizers and solo-learn's defaults of ``optimizer.kwargs``."""

SMALL_IMAGE_DATASETS = ("cifar10", "cifar100")
"""Their ResNets get the small-image stem under ``small_image_stem: auto``, which is solo-learn's own rule."""
