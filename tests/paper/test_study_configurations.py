"""The study's configurations: the methods differ in their loss and learning rate alone."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from helpers import composed
from omegaconf import OmegaConf

from radial_vicreg.compose import run_config
from radial_vicreg.sweeps import load_sweep

SECOND = [str(name) for name in load_sweep("study2").parameters["+radialvicreg/study2"]]
METHODS = [str(name) for name in load_sweep("study").parameters["+radialvicreg/study"]]
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
@pytest.mark.parametrize("method", [name for name in METHODS if name != "vicreg"])
def test_methods_share_everything_but_loss_and_rate(place: str, method: str) -> None:
    assert _shared(place + method) == _shared(f"{place}vicreg")


@pytest.mark.parametrize("method", SECOND)
def test_the_second_study_has_the_setting_of_the_first(method: str) -> None:
    first, second = _shared("vicreg"), _shared(method, "study2")
    places = {"train_path", "val_path", "name"}
    assert {key for key in first if first[key] != second[key]} == {"data", "runs_dir"}
    assert {key for key in first["data"] if first["data"][key] != second["data"][key]} == places


@pytest.mark.parametrize("name", ["study2_tune", "study2", "study2_length"])
def test_all_methods_of_a_seed_come_together(name: str) -> None:
    sweep = load_sweep(name)
    assert next(iter(sweep.parameters)) == "seed"
    seeds = [run.overrides[-len(sweep.parameters)] for run in sweep.runs()]
    assert seeds == sorted(seeds, key=lambda text: int(text.removeprefix("seed=")))


@pytest.mark.parametrize("method", METHODS)
def test_the_full_study_has_the_small_stem(method: str) -> None:
    assert _shared(f"full/{method}")["small stem"]


@pytest.mark.parametrize("method", METHODS)
def test_the_rate_is_one_of_its_trials(method: str) -> None:
    assert (
        composed("cell", f"+radialvicreg/study={method}").optimizer.lr
        in load_sweep("study_tune").parameters["optimizer.lr"]
    )


@pytest.mark.parametrize("method", SECOND)
def test_the_rate_of_the_second_study_is_one_of_its_trials(method: str) -> None:
    assert (
        composed("cell", f"+radialvicreg/study2={method}").optimizer.lr
        in load_sweep("study2_tune").parameters["optimizer.lr"]
    )


@pytest.mark.parametrize("place", ["", "_full", "2"])
def test_rates_are_not_chosen_by_test_images(place: str) -> None:
    tuned, final = (load_sweep(f"study{place}{kind}").runs()[0] for kind in ("_tune", ""))
    first, second = (composed(run.config_name, *run.overrides) for run in (tuned, final))
    assert first.data.val_path.endswith("tune/val")
    assert second.data.val_path.endswith("final/val")
    assert first.data.train_path.endswith("tune/train")
    assert first.runs_dir != second.runs_dir  # a report of the one has none of the other
