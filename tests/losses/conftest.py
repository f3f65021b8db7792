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
def degenerate() -> dict[str, torch.Tensor]:
    """Batches in float32 that a network really produces when it collapses, and the smallest legal ones."""
    return {
        "all zero": torch.zeros(8, 5),
        "all equal": torch.full((8, 5), 0.3),
        "rank one": torch.linspace(-1, 1, 8)[:, None] * torch.tensor([1.0, -2.0, 0.5, 3.0, 0.1]),
        "one zero row": torch.cat((torch.zeros(1, 5), torch.arange(35.0).reshape(7, 5) / 35)),
        "tied radii": torch.eye(5).repeat(2, 1),
        "one dimension": torch.linspace(-2, 2, 9)[:, None],
        "two samples": torch.tensor([[1.0, 2.0, 3.0], [-1.0, 0.5, 2.0]]),
        "wide": torch.linspace(-3, 3, 4 * 40).sin().reshape(4, 40),
        "saturated sigmoid": torch.tensor([[1e6, -1e6], [1e6, -1e6], [-1e6, 1e6], [0.0, 0.0]]),
    }


@pytest.fixture
def views() -> tuple[torch.Tensor, torch.Tensor]:
    """Two correlated float64 views, 12 samples of 5 dimensions."""
    generator = torch.Generator().manual_seed(7)
    z1 = torch.randn(12, 5, generator=generator, dtype=torch.float64)
    return z1, z1 + 0.3 * torch.randn(12, 5, generator=generator, dtype=torch.float64)
