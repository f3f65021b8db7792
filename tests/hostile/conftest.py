"""A finished run for whoever wants to spoil it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from helpers import composed, tiny_settings, write_finished_run, write_images


@pytest.fixture(scope="session")
def _finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run without the training: random weights of a very small ViT in a checkpoint, and its results."""
    root = tmp_path_factory.mktemp("finished")
    train, val = write_images(root / "train"), write_images(root / "val", per_class=4)
    return write_finished_run(root / "run", composed("radialvicreg", *tiny_settings(train, val, root)))


@pytest.fixture
def run_folder(_finished_run: Path, tmp_path: Path) -> Path:
    """A copy of a finished run, to be spoilt."""
    return Path(shutil.copytree(_finished_run, tmp_path / "run"))
