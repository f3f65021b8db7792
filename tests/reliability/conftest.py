"""Fixtures of the tests of interrupted runs."""

from __future__ import annotations

import pytest


@pytest.fixture
def run_settings(tiny_overrides: list[str]) -> list[str]:
    """``pretrain`` with everything that draws random numbers: the Wasserstein objective, a kNN bank."""
    more = ["method_kwargs.radial_objective=wasserstein", "probes.encoder_knn=true", "max_epochs=3"]
    return ["pretrain", *tiny_overrides, *more, "diagnostics.every_n_epochs=2"]
