"""Every callback under every precision that Lightning has."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from helpers import Pretrain


def has_half_on_cpu() -> bool:
    """Tell whether PyTorch has a cross-entropy of float16 on a CPU, which 2.3 lacks."""
    try:
        torch.nn.functional.cross_entropy(torch.zeros(1, 2, dtype=torch.float16), torch.tensor([0]))
    except RuntimeError:
        return False
    return True


needs_half = pytest.mark.skipif(not has_half_on_cpu(), reason=f"PyTorch {torch.__version__} has no float16 on a CPU")
PRECISIONS = [
    "bf16-true",
    *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("64-true", "bf16-mixed")),
    pytest.param("16-true", marks=[needs_half, pytest.mark.slow]),
]
#: No Adam: its eps of 1e-8 is 0 in float16.
SGD = ["radialvicreg/optimizer=sgd", "optimizer.batch_size=8", "optimizer.lr=1e-3", "optimizer.classifier_lr=1e-3"]


@pytest.mark.parametrize("precision", PRECISIONS)
def test_every_callback_measures_under_every_precision(
    precision: str, pretrain: Pretrain, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_asked: Any = {"precision": precision, "sync_batchnorm": False}  # where a CPU would take float32
    monkeypatch.setattr("radial_vicreg.train.trainer.effective_hardware", lambda config: as_asked)
    every = ["probes.encoder_knn=true", "probes.knn_neighbours=[3]", "probes.frozen_linear=true"]
    results = pretrain(*SGD, *every, f"precision={precision}").results
    assert results["probes"].keys() >= {"online_projector_linear", "online_mlp", "online_knn3", "frozen_linear"}
    assert math.isfinite(results["radii"]["final"]["eval"]["w1_chi"])
    assert math.isfinite(results["radii"]["final"]["batch"]["w1_chi"])
