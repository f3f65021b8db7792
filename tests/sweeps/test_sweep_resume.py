"""Runs of a sweep never resume from one another: solo-learn's auto-resume tells all of them apart."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf

from radial_vicreg.compose import compose, run_config
from radial_vicreg.compose.points import composed_points
from radial_vicreg.runs.identity import config_hash
from radial_vicreg.sweeps import load_sweep
from radial_vicreg.sweeps.grid import SweepRun

pytestmark = pytest.mark.slow

FOLDER = Path(str(resources.files("radial_vicreg"))) / "yaml" / "radialvicreg" / "sweeps"
#: Of each kind of sweep one: over values, over values and attributes, over cells, over methods.
KINDS = ("tables/figure4", "celeba_resnet18", "study_full_tune", "study2")
kinds = pytest.mark.parametrize("name", KINDS)


def neighbours(name: str) -> list[SweepRun]:
    """The first point of a grid and every point that differs from it in one value."""
    runs = load_sweep(name).runs()
    first = set(runs[0].overrides)
    return [run for run in runs if len(first - set(run.overrides)) <= 1]


def leave_checkpoints(folder: Path, configurations: list[DictConfig]) -> list[Path]:
    """Writes for each run what solo-learn's Checkpointer leaves: its unresolved configuration and a checkpoint."""
    paths = []
    for index, cfg in enumerate(configurations):
        path = folder / f"offline-{index}" / "run-ep=1.ckpt"
        path.parent.mkdir(parents=True)
        (path.parent / "args.json").write_text(json.dumps(OmegaConf.to_container(cfg)))
        path.touch()
        paths.append(path)
    return paths


@pytest.mark.solo
@pytest.mark.parametrize("name", ["tables/figure4", "celeba_resnet18"])
def test_solo_learn_resumes_each_run_from_its_own_checkpoint(name: str, tmp_path: Path) -> None:
    resumer: Any = pytest.importorskip("solo.utils.auto_resumer").AutoResumer(checkpoint_dir=tmp_path, max_hours=36)
    runs = neighbours(name)
    configurations = list(composed_points(runs[0].config_name, [run.overrides for run in runs]))
    checkpoints = leave_checkpoints(tmp_path, configurations)
    # It takes the newest checkpoint that matches: two runs that it cannot tell apart would both get one of them.
    assert [resumer.find_checkpoint(cfg)[0] for cfg in configurations] == checkpoints


@kinds
def test_every_run_of_a_sweep_has_a_name_and_a_hash_of_its_own(name: str) -> None:
    runs = load_sweep(name).runs()
    points = composed_points(runs[0].config_name, [run.overrides for run in runs])
    configurations = [run_config(cfg) for cfg in points]
    assert len({config.name for config in configurations}) == len(configurations)
    assert len({config_hash(config.plain(), config.processes) for config in configurations}) == len(configurations)


@kinds
def test_hydra_composes_command_lines_with_the_swept_values(name: str) -> None:
    sweep = load_sweep(name)
    compared = set()
    for run in neighbours(name):  # each value once
        cfg = compose(run.config_name, run.overrides)
        for key, values in sweep.parameters.items():
            written = dict(item.split("=", 1) for item in run.overrides)[key]
            (value,) = [value for value in values if str(value) == written]
            if not key.startswith("+"):
                assert OmegaConf.select(cfg, key) == value
            elif value not in compared:  # a cell is its own file, with the other swept values on top
                compared.add(value)
                others = [item for item in run.overrides if not item.startswith("+")]
                assert cfg == compose(f"{key[1:]}/{value}", others)
