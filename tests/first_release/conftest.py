"""A copy of what the first release left behind, to be worked on."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from old_runs import FIXTURES, SMALL_VIT


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the fixtures with the working directory in it, as when they were made: their paths are relative."""
    root = Path(shutil.copytree(FIXTURES, tmp_path / "first_release", symlinks=True))
    for order, file in enumerate(sorted(root.rglob("epoch-*.ckpt"))):
        os.utime(file, (1e9 + order, 1e9 + order))  # in the order of writing, which a git checkout does not keep
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def overrides(release: Path) -> list[str]:
    """What every run was given."""
    return (release / "overrides.txt").read_text().split()


@pytest.fixture
def only(release: Path) -> Callable[[str], Path]:
    """Finds the one run folder that fits a pattern."""

    def find(pattern: str) -> Path:
        (results,) = release.glob(f"{pattern}/results.json")
        return results.parent.relative_to(release)

    return find


@pytest.fixture
def small_vit(monkeypatch: pytest.MonkeyPatch) -> None:
    """solo-learn's table of backbones as it was when the fixtures were made."""
    table: dict[str, Any] = pytest.importorskip("solo.methods.base").BaseMethod._BACKBONES
    monkeypatch.setitem(table, "vit_tiny", table["vit_tiny"])  # put back afterwards
    exec(SMALL_VIT, {})
