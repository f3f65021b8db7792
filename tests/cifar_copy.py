"""A small CIFAR-10 in torchvision's layout."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torchvision

CLASSES = 10


def write_cifar10(root: Path, patch: pytest.MonkeyPatch, per_batch: int = 8) -> Path:
    """Write five batches for training and one of ten images for tests; ``patch`` switches MD5 checks off."""
    patch.setattr(torchvision.datasets.CIFAR10, "_check_integrity", lambda self: True)
    patch.setattr("torchvision.datasets.cifar.check_integrity", lambda *args: True)
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name in [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]:
        count = CLASSES if name == "test_batch" else per_batch
        pixels = rng.integers(0, 256, (count, 3072), dtype=np.uint8)
        labels = [int(label) for label in np.arange(count) % CLASSES]
        (folder / name).write_bytes(pickle.dumps({"data": pixels, "labels": labels}))
    names = [f"class{number}" for number in range(CLASSES)]
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": names}))
    return root
