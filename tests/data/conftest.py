"""Images of the data sets' tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from celeba_copy import write_copy
from cifar_copy import write_cifar10
from PIL import Image

from radial_vicreg.data.celeba import prepare_celeba


@pytest.fixture(scope="session")
def noise_images() -> Callable[..., None]:
    """Writes JPEGs of smooth colour noise, of unequal sides."""

    def write(folder: Path, count: int, seed: int = 0) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng(seed)
        for index in range(count):
            coarse = Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8))
            image = coarse.resize((36 + 4 * (index % 4), 40), Image.Resampling.BICUBIC)
            image.save(folder / f"{seed}_{index:03d}.jpg", quality=90)

    return write


@pytest.fixture(scope="session")
def noise_folder(tmp_path_factory: pytest.TempPathFactory, noise_images: Callable[..., None]) -> Path:
    """``train/{cat,dog,owl}/*.jpg`` (20 images) and ``val/...`` (6 images), to be read only."""
    root = tmp_path_factory.mktemp("images")
    for seed, (name, train, val) in enumerate([("cat", 8, 2), ("dog", 7, 2), ("owl", 5, 2)]):
        noise_images(root / "train" / name, train, seed)
        noise_images(root / "val" / name, val, 100 + seed)
    return root


@pytest.fixture
def celeba(tmp_path: Path) -> Path:
    """A small CelebA whose images show their attributes, prepared."""
    return prepare_celeba(tmp_path / "celeba", write_copy(tmp_path / "copy"))


@pytest.fixture
def cifar_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """torchvision's layout of CIFAR-10 with 40 training and 10 test images; MD5 checks are switched off."""
    return write_cifar10(tmp_path / "cifar", monkeypatch)
