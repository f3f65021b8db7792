"""A sweep maximises something that its runs log. CelebA's two: tests/data/test_celeba.py."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

from radial_vicreg import cli
from radial_vicreg.sweeps.grid import load_sweep

FOLDER = Path(str(resources.files("radial_vicreg"))) / "yaml" / "sweeps"


def test_sweeps_over_classes_maximise_what_a_run_logs(tiny_overrides: list[str], tmp_path: Path) -> None:
    off = ["diagnostics.enabled=false", "max_epochs=1", "scheduler.warmup_epochs=0", "host=standalone"]
    assert cli.main(["pretrain", *tiny_overrides, *off]) == 0
    logged = json.loads(next((tmp_path / "runs").rglob("results.json")).read_text())["history"][-1]
    files = [file for file in FOLDER.rglob("*.yaml") if "celeba" not in file.read_text()]
    assert len(files) > 5
    assert {load_sweep(file).content["metric"]["name"] for file in files} <= logged.keys()
