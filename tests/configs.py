"""A small configuration for tests that compose none: Hydra takes a quarter of a second for each."""

from __future__ import annotations

import copy
from typing import Any

from omegaconf import DictConfig, OmegaConf

from radial_vicreg.config import RunConfig, read_config

_CONTENT: dict[str, Any] = {
    "method": "vicreg",
    "name": "study",
    "backbone": {"name": "resnet18"},
    "method_kwargs": {"proj_hidden_dim": 16, "proj_output_dim": 8},
    "data": {"dataset": "custom", "train_path": None, "val_path": None, "num_workers": 0},
    "augmentations": [
        {
            "rrc": {"enabled": True, "crop_min_scale": 0.2, "crop_max_scale": 1.0},
            "color_jitter": {"prob": 0.8, "brightness": 0.4, "contrast": 0.4, "saturation": 0.2, "hue": 0.1},
            "grayscale": {"prob": 0.2},
            "gaussian_blur": {"prob": 0.5},
            "solarization": {"prob": 0.3},
            "equalization": {"prob": 0.3},
            "horizontal_flip": {"prob": 0.5},
            "crop_size": 32,
            "num_crops": 2,
        }
    ],
    "optimizer": {
        "name": "lars",
        "batch_size": 4,
        "lr": 0.3,
        "classifier_lr": 0.1,
        "weight_decay": 1e-4,
        "kwargs": {"clip_lr": True, "eta": 0.02, "exclude_bias_n_norm": True},
    },
    "scheduler": {"name": "warmup_cosine"},
    "max_epochs": 20,
    "devices": [0],
    "accelerator": "cpu",
}


def plain_config(**overrides: Any) -> dict[str, Any]:
    """The configuration in plain containers, not yet read; keys like ``augmentations__0__crop_size=64``."""
    content = copy.deepcopy(_CONTENT)
    for key, value in overrides.items():
        *sections, last = key.split("__")
        place: Any = content
        for section in sections:
            place = place[int(section)] if isinstance(place, list) else place.setdefault(section, {})
        place[last] = value
    return content


def make_config(**overrides: Any) -> RunConfig:
    """The configuration with other values; see :func:`plain_config`."""
    return read_config(plain_config(**overrides))


def solo_form(config: RunConfig) -> DictConfig:
    """The same configuration as solo-learn takes it."""
    return OmegaConf.create(config.plain())
