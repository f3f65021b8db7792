"""Every value of a cell is the one that ``paper.json`` lists, and a study's methods have one setting."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from helpers import composed
from omegaconf import DictConfig, OmegaConf

from radial_vicreg.compose import compose, run_config
from radial_vicreg.sweeps import load_sweep

PAPER: dict[str, Any] = json.loads(resources.files("radial_vicreg").joinpath("paper/paper.json").read_text())
YAML = Path(str(resources.files("radial_vicreg").joinpath("yaml")))

WHERE = {
    "optimizer": "optimizer.name",
    "batch_size": "optimizer.batch_size",
    "lr": "optimizer.lr",
    "classifier_lr": "optimizer.classifier_lr",
    "weight_decay": "optimizer.weight_decay",
    "clip_lr": "optimizer.kwargs.clip_lr",
    "eta": "optimizer.kwargs.eta",
    "exclude_bias_n_norm": "optimizer.kwargs.exclude_bias_n_norm",
    "scheduler": "scheduler.name",
    "max_epochs": "max_epochs",
    "precision": "precision",
    "sync_batchnorm": "sync_batchnorm",
    "method": "method",
    "proj_hidden_dim": "method_kwargs.proj_hidden_dim",
    "proj_output_dim": "method_kwargs.proj_output_dim",
    "sim": "method_kwargs.sim_loss_weight",
    "var": "method_kwargs.var_loss_weight",
    "cov": "method_kwargs.cov_loss_weight",
    "beta1": "method_kwargs.radial_ce_loss_weight",
    "beta2": "method_kwargs.radial_ent_loss_weight",
    "ce_normalize": "method_kwargs.radial_ce_normalize",
    "objective": "method_kwargs.radial_objective",
    "gamma": "method_kwargs.radial_w1_loss_weight",
    "patch_size": "backbone.kwargs.patch_size",
    "img_size": "backbone.kwargs.img_size",
    "crop_size": "augmentations.0.crop_size",
    "num_crops": "augmentations.0.num_crops",
    "crop_min_scale": "augmentations.0.rrc.crop_min_scale",
    "gaussian_blur": "augmentations.0.gaussian_blur.prob",
    "solarization": "augmentations.0.solarization.prob",
    "num_classes": "data.num_classes",
    "multi_label": "data.multi_label",
}
"""A value of ``paper.json`` and where the configuration has it; ``devices`` is a number of processes."""

CELLS = sorted(PAPER["configs"])


def augmentation(crop_size: int, min_scale: float, blur: float, solarization: float) -> dict[str, Any]:
    """The pipeline that appendices E and G describe."""
    return {
        "rrc": {"enabled": True, "crop_min_scale": min_scale, "crop_max_scale": 1.0},
        "color_jitter": {"prob": 0.8, "brightness": 0.4, "contrast": 0.4, "saturation": 0.2, "hue": 0.1},
        "grayscale": {"prob": 0.2},
        "gaussian_blur": {"prob": blur},
        "solarization": {"prob": solarization},
        "equalization": {"prob": 0.0},
        "horizontal_flip": {"prob": 0.5},
        "crop_size": crop_size,
        "num_crops": 2,
    }


DATA = {
    "cifar100": ("cifar100", "image_folder", augmentation(32, 0.2, 0.0, 0.1)),
    "imagenet10": ("custom", "dali", augmentation(224, 0.2, 0.5, 0.1)),
    "celeba": ("celeba", "image_folder", augmentation(128, 0.5, 0.5, 0.0)),
}


def found_value(cfg: DictConfig, key: str) -> Any:
    return run_config(cfg).processes if key == "devices" else OmegaConf.select(cfg, WHERE[key])


@pytest.mark.parametrize("cell", CELLS)
def test_every_value_of_a_cell_is_the_papers_and_others_are_off(cell: str) -> None:
    cfg = composed(cell)
    expected = PAPER["configs"][cell]
    assert {key: found_value(cfg, key) for key in expected} == expected
    dataset, backbone, _ = cell.split("/")
    assert (cfg.data.dataset, cfg.data.format) == DATA[dataset][:2]
    assert cfg.data.name == dataset
    assert cfg.backbone.name == backbone
    assert OmegaConf.to_container(cfg.augmentations, resolve=True) == [DATA[dataset][2]]
    if expected["method"] == "radialvicreg":
        kwargs = cfg.method_kwargs
        assert kwargs.radial_objective == expected.get("objective", "kl")
        assert (kwargs.e2mc_loss_weight, kwargs.radial_center) == (0, False)
        if kwargs.radial_objective == "kl":  # the factor 1/d goes with a beta1 of 100
            assert expected["ce_normalize"] == (expected["beta1"] == 100)


def test_a_sweep_has_its_cells_factor() -> None:
    sweeps = [path.stem for path in YAML.glob("radialvicreg/sweeps/*_d*.yaml")]
    assert sweeps
    for sweep in map(load_sweep, sweeps):
        cfg = composed(sweep.config_name)
        assert cfg.method_kwargs.radial_ce_normalize is sweep.config_name.endswith("_d512"), sweep
        assert "method_kwargs.radial_ce_normalize" not in sweep.parameters, sweep


def test_there_is_one_file_for_each_cell_and_no_other() -> None:
    found = {str(path.relative_to(YAML).with_suffix("")) for path in YAML.glob("*/*/*.yaml")}
    assert {name for name in found if not name.startswith("radialvicreg/")} == set(CELLS)


@pytest.mark.parametrize("cell", [next(cell for cell in CELLS if cell.startswith(name)) for name in sorted(DATA)])
def test_a_cell_can_be_chosen_by_one_override(cell: str) -> None:
    dataset, option = cell.split("/", 1)
    assert compose("cell", [f"+{dataset}={option}"]) == composed(cell)


def test_the_quickstart_and_the_default_keep_their_meaning() -> None:
    assert composed("radialvicreg") == composed("cifar100/resnet18/radialvicreg_d512")
    digits = composed("quickstart")
    expected = {**augmentation(16, 0.5, 0.0, 0.0), "grayscale": {"prob": 0.0}, "horizontal_flip": {"prob": 0.0}}
    assert OmegaConf.to_container(digits.augmentations, resolve=True) == [expected]
    assert (digits.data.dataset, digits.max_epochs, digits.optimizer.name) == ("custom", 4, "adamw")


# ---- the study's methods differ in their loss and learning rate alone


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


@pytest.mark.parametrize("place", ["", pytest.param("full/", marks=pytest.mark.slow)])
def test_methods_share_everything_but_loss_and_rate(place: str) -> None:
    expected = _shared(f"{place}vicreg")
    for method in METHODS["study"]:
        assert _shared(f"{place}{method}") == expected, method
    assert expected["small stem"] or not place


@pytest.mark.slow
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


@pytest.mark.parametrize("group", ["study", pytest.param("study2", marks=pytest.mark.slow)])
def test_the_rate_is_one_of_its_trials(group: str) -> None:
    trials = load_sweep(f"{group}_tune").parameters["optimizer.lr"]
    for method in METHODS[group]:
        assert composed("cell", f"+radialvicreg/{group}={method}").optimizer.lr in trials, method


@pytest.mark.parametrize("place", ["", *(pytest.param(place, marks=pytest.mark.slow) for place in ("_full", "2"))])
def test_rates_are_not_chosen_by_test_images(place: str) -> None:
    tuned, final = (load_sweep(f"study{place}{kind}").runs()[0] for kind in ("_tune", ""))
    first, second = (composed(run.config_name, *run.overrides) for run in (tuned, final))
    assert first.data.train_path.endswith("tune/train")
    assert first.data.val_path.endswith("tune/val")
    assert second.data.val_path.endswith("final/val")
    assert first.runs_dir != second.runs_dir  # a report of the one has none of the other
