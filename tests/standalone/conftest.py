from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import DictConfig, OmegaConf
from PIL import Image

MakeConfig = Callable[..., DictConfig]

_CONFIG: dict[str, Any] = {
    "method": "vicreg",
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


@pytest.fixture
def make_cfg() -> MakeConfig:
    """A configuration in solo-learn's schema; keyword arguments are dotted keys, written with `__`."""

    def make(**overrides: Any) -> DictConfig:
        cfg = OmegaConf.create(_CONFIG)
        for key, value in overrides.items():
            OmegaConf.update(cfg, key.replace("__", "."), value, merge=False, force_add=True)
        return cfg

    return make


@pytest.fixture(scope="session")
def noise_images() -> Callable[[Path, int], list[Path]]:
    """Writes JPEGs of smooth colour noise, of unequal sides."""

    def write(folder: Path, count: int, seed: int = 0) -> list[Path]:
        folder.mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng(seed)
        paths = []
        for index in range(count):
            coarse = Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8))
            path = folder / f"{seed}_{index:03d}.jpg"
            coarse.resize((36 + 4 * (index % 4), 40), Image.Resampling.BICUBIC).save(path, quality=90)
            paths.append(path)
        return paths

    return write


@pytest.fixture(scope="session")
def image_folder(tmp_path_factory: pytest.TempPathFactory, noise_images: Any) -> Path:
    """`train/{cat,dog,owl}/*.jpg` (20 images) and `val/...` (6 images)."""
    root = tmp_path_factory.mktemp("images")
    for seed, (name, train, val) in enumerate([("cat", 8, 2), ("dog", 7, 2), ("owl", 5, 2)]):
        noise_images(root / "train" / name, train, seed)
        noise_images(root / "val" / name, val, 100 + seed)
    return root
