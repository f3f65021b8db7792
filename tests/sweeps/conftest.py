"""Fixtures of the sweeps' tests."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig

from radial_vicreg.compose import compose
from radial_vicreg.files import write_json
from radial_vicreg.sweeps import SweepRun
from radial_vicreg.sweeps.status import composed_runs


@pytest.fixture(autouse=True)
def _composed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compose a run of a sweep once a test: it takes a tenth of a second, and every look at the run composes it."""

    @functools.cache
    def once(name: str, overrides: tuple[str, ...]) -> DictConfig:
        return compose(name, overrides)

    monkeypatch.setattr(
        "radial_vicreg.compose.grid.compose", lambda name, overrides: once(name, tuple(overrides)).copy()
    )


@pytest.fixture
def small_sweep(tmp_path: Path) -> Path:
    """Two weights and two seeds."""
    path = tmp_path / "small.yaml"
    path.write_text(
        "program: main_pretrain.py\n"
        "method: grid\n"
        "parameters:\n"
        "  method_kwargs.radial_ce_loss_weight:\n"
        "    values: [0, 1]\n"
        "  seed:\n"
        "    values: [5, 6]\n"
        'command: ["${env}", "${interpreter}", "${program}", --config-name, radialvicreg, wandb.enabled=true,'
        ' optimizer.lr=0.1, "${args_no_hyphens}"]\n'
    )
    return path


@pytest.fixture
def write_result(tmp_path: Path) -> Callable[..., Path]:
    """Leaves the ``results.json`` of a run behind in ``runs``, as training does."""

    def write(run: SweepRun, status: str, folder: str = "one", **more: Any) -> Path:
        (config,) = composed_runs([run])
        content = {"schema_version": 2, "config": config.plain(), "processes": 1, "status": status, **more}
        return write_json(tmp_path / "runs" / f"run-{run.index}" / folder / "results.json", content)

    return write
