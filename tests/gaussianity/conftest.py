"""Commands that are given on the command line, and what they have written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from radial_vicreg.cli import main


@pytest.fixture
def diagnosed(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Runs the command and returns the content of its JSON file."""

    def run(*words: object) -> dict[str, Any]:
        file = tmp_path / "found.json"
        assert main(["diagnose", *map(str, words), "--json", str(file)]) == 0
        return json.loads(file.read_text())

    return run


@pytest.fixture
def matrix(tmp_path: Path) -> Callable[..., Path]:
    """Saves an array as a .npy file."""

    def save(array: Any, name: str = "z") -> Path:
        np.save(tmp_path / f"{name}.npy", array)
        return tmp_path / f"{name}.npy"

    return save
