"""Fixtures of the tests of interrupted runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lightning.pytorch as pl
import pytest

from radial_vicreg.train import run as train


@pytest.fixture
def add_callback(monkeypatch: pytest.MonkeyPatch) -> Callable[[pl.Callback], None]:
    """Adds a callback to every trainer that ``radial-vicreg pretrain`` builds from now on."""
    real = train.build_trainer

    def add(callback: pl.Callback) -> None:
        def build(*arguments: Any, **keywords: Any) -> pl.Trainer:
            trainer = real(*arguments, **keywords)
            trainer.callbacks.insert(0, callback)  # type: ignore[attr-defined]
            return trainer

        monkeypatch.setattr(train, "build_trainer", build)

    return add


@pytest.fixture
def run_settings(tiny_overrides: list[str]) -> list[str]:
    """``pretrain`` with everything that draws random numbers: the Wasserstein objective, a kNN bank."""
    more = ["method_kwargs.radial_objective=wasserstein", "probes.encoder_knn=true", "max_epochs=3"]
    return ["pretrain", *tiny_overrides, *more, "diagnostics.every_n_epochs=2"]
