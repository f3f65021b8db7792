"""Golden values and batches that the loss tests share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

GOLDEN = Path(__file__).parents[1] / "golden" / "losses.json"
CASES: list[dict[str, Any]] = json.loads(GOLDEN.read_text())["cases"]


@pytest.fixture(params=CASES, ids=lambda case: case["name"])
def golden(request: pytest.FixtureRequest) -> dict[str, Any]:
    """One case of the golden file: inputs ``z1``, ``z2``, ``m``, ``chi_samples`` and ``expected``."""
    return request.param


@pytest.fixture
def views() -> tuple[torch.Tensor, torch.Tensor]:
    """Two correlated float64 views, 12 samples of 5 dimensions."""
    generator = torch.Generator().manual_seed(7)
    z1 = torch.randn(12, 5, generator=generator, dtype=torch.float64)
    return z1, z1 + 0.3 * torch.randn(12, 5, generator=generator, dtype=torch.float64)
