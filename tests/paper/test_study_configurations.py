"""The study's configurations: the methods differ in their loss and learning rate alone."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from helpers import composed
from omegaconf import OmegaConf

from radial_vicreg.compose import run_config
from radial_vicreg.sweeps import load_sweep

METHODS = {name: list(load_sweep(name).parameters[f"+radialvicreg/{name}"]) for name in ("study", "study2")}
OF_A_METHOD = {"name", "method", "method_kwargs", "loss", "loss_views"}


@cache
def _shared(name: str, group: str = "study") -> dict[str, Any]:
    cfg = composed("cell", f"+radialvicreg/{group}={name}")
    content: Any = OmegaConf.to_container(cfg, resolve=True)
    content["optimizer"].pop("lr")
    content["small stem"] = run_config(cfg).has_small_stem
    content["d"] = [content["method_kwargs"][key] for key in ("proj_hidden_dim", "proj_output_dim")]
    return {key: value for key, value in content.items() if key not in OF_A_METHOD}


@pytest.mark.parametrize("place", ["", "full/"])
def test_methods_share_everything_but_loss_and_rate(place: str) -> None:
    expected = _shared(f"{place}vicreg")
    for method in METHODS["study"]:
        assert _shared(f"{place}{method}") == expected, method
    assert expected["small stem"] or not place


def test_the_second_study_has_the_setting_of_the_first() -> None:
    first = _shared("vicreg")
    for method in METHODS["study2"]:
        second = _shared(method, "study2")
        assert {key for key in first if first[key] != second[key]} == {"data", "runs_dir"}, method
        places = {key for key in first["data"] if first["data"][key] != second["data"][key]}
        assert places == {"train_path", "val_path", "name"}, method


@pytest.mark.parametrize("name", ["study2_tune", "study2", "study2_length"])
def test_all_methods_of_a_seed_come_together(name: str) -> None:
    sweep = load_sweep(name)
    assert next(iter(sweep.parameters)) == "seed"
    seeds = [int(run.overrides[-len(sweep.parameters)].removeprefix("seed=")) for run in sweep.runs()]
    assert seeds == sorted(seeds)


@pytest.mark.parametrize("group", METHODS)
def test_the_rate_is_one_of_its_trials(group: str) -> None:
    trials = load_sweep(f"{group}_tune").parameters["optimizer.lr"]
    for method in METHODS[group]:
        assert composed("cell", f"+radialvicreg/{group}={method}").optimizer.lr in trials, method


@pytest.mark.parametrize("place", ["", "_full", "2"])
def test_rates_are_not_chosen_by_test_images(place: str) -> None:
    tuned, final = (load_sweep(f"study{place}{kind}").runs()[0] for kind in ("_tune", ""))
    first, second = (composed(run.config_name, *run.overrides) for run in (tuned, final))
    assert first.data.train_path.endswith("tune/train")
    assert first.data.val_path.endswith("tune/val")
    assert second.data.val_path.endswith("final/val")
    assert first.runs_dir != second.runs_dir  # a report of the one has none of the other
