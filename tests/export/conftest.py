"""Runs to export."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import composed, write_finished_run


@pytest.fixture
def make_run(tiny_overrides: list[str], tmp_path: Path) -> Callable[..., Path]:
    """Leaves a finished run; positional arguments are overrides, keywords are keys of its results."""

    def make(*overrides: str, **content: object) -> Path:
        cfg = composed("radialvicreg", *tiny_overrides, *overrides)
        return write_finished_run(tmp_path / "run", cfg, **{"probes": {"p": {"top1": 9.0}}, **content})

    return make
