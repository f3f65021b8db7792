"""Features with known structure."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

Sample = tuple[Tensor, Tensor]


@pytest.fixture
def clusters() -> Callable[..., Sample]:
    """One Gaussian cluster for each class, in 8 dimensions."""

    def make(classes: int = 4, per_class: int = 60, spread: float = 1.0, seed: int = 0) -> Sample:
        centres = torch.randn(classes, 8, generator=torch.Generator().manual_seed(7))
        generator = torch.Generator().manual_seed(seed)
        labels = torch.arange(classes).repeat(per_class)
        return centres[labels] + spread * torch.randn(len(labels), 8, generator=generator), labels

    return make


@pytest.fixture
def attributes() -> Callable[..., Sample]:
    """Three attributes of unequal frequency, each decided by a direction and noise."""

    def make(count: int = 300, seed: int = 0) -> Sample:
        generator = torch.Generator().manual_seed(seed)
        features = torch.randn(count, 8, generator=generator)
        directions = torch.randn(8, 3, generator=torch.Generator().manual_seed(9))
        noise = torch.randn(count, 3, generator=generator)
        return features, (features @ directions + noise > torch.tensor([0.0, 1.5, -2.0])).long()

    return make
