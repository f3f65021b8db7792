"""A sweep maximises something that its runs log. CelebA's two: tests/data/test_celeba.py."""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources
from pathlib import Path

from helpers import read_results

from radial_vicreg.sweeps.grid import load_sweep

FOLDER = Path(str(resources.files("radial_vicreg"))) / "yaml" / "radialvicreg" / "sweeps"


def test_sweeps_over_classes_maximise_what_a_run_logs(finished_run: Callable[[str], Path]) -> None:
    logged = read_results(finished_run("standalone"))["history"][-1]
    files = [file for file in FOLDER.rglob("*.yaml") if "celeba" not in file.read_text()]
    assert len(files) > 5
    assert {load_sweep(file).content["metric"]["name"] for file in files} <= logged.keys()
