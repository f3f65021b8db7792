"""The study's configurations: the methods differ in their loss and learning rate alone."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from omegaconf import OmegaConf

from radial_vicreg.compose import compose, run_config
from radial_vicreg.sweeps import load_sweep

METHODS = [str(name) for name in load_sweep("study").parameters["+study"]]
OF_A_METHOD = {"name", "method", "method_kwargs", "loss", "loss_views"}


@cache
def _shared(name: str) -> dict[str, Any]:
    cfg = compose("cell", [f"+study={name}"])
    content: Any = OmegaConf.to_container(cfg, resolve=True)
    content["optimizer"].pop("lr")
    content["small stem"] = run_config(cfg).has_small_stem
    content["d"] = [content["method_kwargs"][key] for key in ("proj_hidden_dim", "proj_output_dim")]
    return {key: value for key, value in content.items() if key not in OF_A_METHOD}


@pytest.mark.parametrize("place", ["", "full/"])
@pytest.mark.parametrize("method", [name for name in METHODS if name != "vicreg"])
def test_methods_share_everything_but_loss_and_rate(place: str, method: str) -> None:
    assert _shared(place + method) == _shared(f"{place}vicreg")


@pytest.mark.parametrize("method", METHODS)
def test_the_full_study_has_the_small_stem(method: str) -> None:
    assert _shared(f"full/{method}")["small stem"]


@pytest.mark.parametrize("method", METHODS)
def test_the_rate_is_one_of_its_trials(method: str) -> None:
    assert compose("cell", [f"+study={method}"]).optimizer.lr in load_sweep("study_tune").parameters["optimizer.lr"]


@pytest.mark.parametrize("place", ["", "_full"])
def test_rates_are_not_chosen_by_test_images(place: str) -> None:
    tuned, final = (load_sweep(f"study{place}{kind}").runs()[0] for kind in ("_tune", ""))
    first, second = (compose(run.config_name, run.overrides) for run in (tuned, final))
    assert first.data.val_path.endswith("tune/val")
    assert second.data.val_path.endswith("final/val")
    assert first.data.train_path.endswith("tune/train")
    assert first.runs_dir != second.runs_dir  # a report of the one has none of the other
