"""A copy of what the first release left behind, to be worked on."""

from __future__ import annotations

from pathlib import Path

import pytest
from old_releases import copy_release, only, overrides, small_vit  # noqa: F401


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the fixtures with the working directory in it, as when they were made: their paths are relative."""
    root = copy_release("first_release", tmp_path)
    monkeypatch.chdir(root)
    return root
