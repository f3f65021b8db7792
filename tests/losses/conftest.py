"""Batches that the loss tests share."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture
def views() -> tuple[torch.Tensor, torch.Tensor]:
    """Two correlated float64 views, 12 samples of 5 dimensions."""
    generator = torch.Generator().manual_seed(7)
    z1 = torch.randn(12, 5, generator=generator, dtype=torch.float64)
    return z1, z1 + 0.3 * torch.randn(12, 5, generator=generator, dtype=torch.float64)
