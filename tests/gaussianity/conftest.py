"""What the command measures, and matrices to give it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from radial_vicreg.cli.commands.diagnose import measured, parser


@pytest.fixture
def diagnosed() -> Callable[..., dict[str, Any]]:
    """Measures what a command line asks for; the figure, which takes seconds, is not drawn."""

    def run(*words: object) -> dict[str, Any]:
        return measured(parser().parse_args([str(word) for word in words]))

    return run


@pytest.fixture
def matrix(tmp_path: Path) -> Callable[..., Path]:
    """Saves an array as a .npy file."""

    def save(array: Any, name: str = "z") -> Path:
        np.save(tmp_path / f"{name}.npy", array)
        return tmp_path / f"{name}.npy"

    return save
