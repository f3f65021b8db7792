"""Sweep files: their values, W&B's reading of them, and what is refused."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

import yaml
from radial_vicreg.sweeps import load_sweep

PACKAGE = Path(str(resources.files("radial_vicreg")))
YAML = PACKAGE / "yaml"
FOLDER = YAML / "radialvicreg" / "sweeps"
SWEEPS = sorted(str(path.relative_to(FOLDER).with_suffix("")) for path in FOLDER.rglob("*.yaml"))
PAPER: dict[str, Any] = json.loads((PACKAGE / "paper" / "paper.json").read_text())
KEYS = {
    "lr": "optimizer.lr",
    "beta1": "method_kwargs.radial_ce_loss_weight",
    "beta2": "method_kwargs.radial_ent_loss_weight",
    "classifier_lr": "optimizer.classifier_lr",
}
EXPECTED = {
    "cifar100_resnet18_d512": ("cifar100_resnet18", "cifar100/resnet18/radialvicreg_d512"),
    "cifar100_resnet18_d2048": ("cifar100_resnet18", "cifar100/resnet18/radialvicreg_d2048"),
    "cifar100_vit_tiny_d512": ("cifar100_vit_tiny", "cifar100/vit_tiny/radialvicreg_d512"),
    "cifar100_vit_tiny_d2048": ("cifar100_vit_tiny", "cifar100/vit_tiny/radialvicreg_d2048"),
    "imagenet10_resnet18_d512": ("imagenet10_resnet18", "imagenet10/resnet18/radialvicreg_d512"),
    "imagenet10_resnet18_d2048": ("imagenet10_resnet18", "imagenet10/resnet18/radialvicreg_d2048"),
    "imagenet10_resnet18_d8192": ("imagenet10_resnet18", "imagenet10/resnet18/radialvicreg_d8192"),
    "celeba_resnet18": ("celeba_resnet18", "cell"),
}
TABLES = {
    "tables/table1": (8, "cifar100"),
    "tables/table2": (6, "imagenet10"),
    "tables/table3": (4, "cifar100"),
    "tables/table4": (8, "celeba"),
    "tables/figure4": (3, "cifar100"),
}
STUDY = {
    "study": ("", "seed", 35),
    "study_tune": ("", "optimizer.lr", 21),
    "study_full": ("full/", "seed", 35),
    "study_full_tune": ("full/", "optimizer.lr", 21),
    "study_full_short": ("full/", "seed", 7),
}
SECOND_STUDY = {"study2": 50, "study2_tune": 50, "study2_length": 30}
STUDIES = {*STUDY, *SECOND_STUDY}


def test_every_sweep_file_is_listed_here() -> None:
    assert sorted((*EXPECTED, *TABLES, *STUDIES)) == SWEEPS


@pytest.mark.parametrize("name", EXPECTED)
def test_swept_values_are_the_papers(name: str) -> None:
    of_paper, config_name = EXPECTED[name]
    grid, sweep = dict(PAPER["sweeps"][of_paper]), load_sweep(name)
    seeds, runs = grid.pop("seeds"), grid.pop("runs", None)
    assert {key: list(sweep.parameters[KEYS[key]]) for key in grid} == grid
    assert len(set(sweep.parameters["seed"])) == seeds
    assert sweep.config_name == config_name
    assert runs is None or len(sweep.runs()) == runs
    assert set(sweep.parameters) - {KEYS[key] for key in grid} - {"seed"} <= {"+celeba"}


@pytest.mark.parametrize("name", TABLES)
def test_a_tables_sweep_has_three_seeds_of_each_cell(name: str) -> None:
    cells, dataset = TABLES[name]
    sweep = load_sweep(name)
    assert sweep.config_name == "cell"
    assert list(sweep.parameters) == [f"+{dataset}", "seed"]
    chosen = [f"{dataset}/{option}" for option in sweep.parameters[f"+{dataset}"]]
    assert len(set(chosen)) == cells
    assert set(chosen) <= set(PAPER["configs"])
    assert len(set(sweep.parameters["seed"])) == 3


@pytest.mark.parametrize("name", STUDY)
def test_a_sweep_of_the_study_gives_every_method_the_same_trials_or_seeds(name: str) -> None:
    place, varied, runs = STUDY[name]
    sweep = load_sweep(name)
    assert list(sweep.parameters) == ["+radialvicreg/study", varied]
    study = YAML / "radialvicreg" / "study"
    files = {path.relative_to(study).with_suffix("").as_posix() for path in (study / place).glob("*.yaml")}
    assert set(sweep.parameters["+radialvicreg/study"]) == files
    assert len(sweep.runs()) == runs


@pytest.mark.parametrize("name", SECOND_STUDY)
def test_a_sweep_of_the_second_study_has_its_protocol_s_number_of_runs(name: str) -> None:
    assert len(load_sweep(name).runs()) == SECOND_STUDY[name]
    page = (Path(__file__).parents[2] / "docs" / "study2.md").read_text()
    assert re.search(rf"sweep {name} --run +# {SECOND_STUDY[name]} runs", page)


def test_every_cell_is_in_a_tables_sweep() -> None:
    found = {
        f"{TABLES[name][1]}/{option}" for name in TABLES for option in next(iter(load_sweep(name).parameters.values()))
    }
    assert found == set(PAPER["configs"])


@pytest.mark.parametrize("name", SWEEPS)
def test_files_are_read_as_wandb_reads_them_and_point_to_what_exists(name: str) -> None:
    content = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    sweep = load_sweep(name)
    assert sweep.content == content
    assert (YAML / f"{sweep.config_name}.yaml").is_file()
    assert content["program"] in ("main_pretrain.py", "radial-vicreg")
    assert content["command"][-1] == "${args_no_hyphens}"
    celeba = "celeba" in name or name == "tables/table4"
    # solo-learn's script cannot load CelebA, and has neither the study's losses nor its network
    assert (content["program"] == "radial-vicreg") == (celeba or name in STUDIES)
    runs = sweep.runs()  # each point of the grid once
    assert [run.index for run in runs] == list(range(len(runs)))
    assert len({run.overrides for run in runs}) == len(runs)


@pytest.mark.parametrize(
    "name", ["cifar100_vit_tiny_d512", "tables/table1", "tables/table4", "study_full_tune", "study2"]
)
def test_runs_are_written_as_wandbs_own_code_writes_them(name: str) -> None:
    utils = pytest.importorskip("wandb.sdk.launch.sweeps.utils", reason="wandb is not installed")
    sweep = load_sweep(name)
    for run in sweep.runs()[::5]:
        swept = run.overrides[len(sweep.fixed) :]
        point = dict(item.split("=", 1) for item in swept)
        arguments = {
            key: {"value": next(value for value in values if str(value) == point[key])}
            for key, values in sweep.parameters.items()
        }
        assert tuple(utils.create_sweep_command_args({"args": arguments})["args_no_hyphens"]) == swept


def test_the_variant_for_pretrain_differs_in_program_and_command_alone() -> None:
    sweep = load_sweep("tables/table1")
    variant = yaml.safe_load(sweep.for_pretrain())
    assert {**variant, "program": "", "command": ""} == {**sweep.content, "program": "", "command": ""}
    assert variant["program"] == "radial-vicreg"
    assert variant["command"] == [
        *("${env}", "${program}", "pretrain", "--config-name", "cell", "wandb.enabled=true", "${args_no_hyphens}")
    ]


def test_what_the_command_fixes_is_kept_but_for_wandbs_own_keys(small_sweep: Path) -> None:
    assert load_sweep(small_sweep).runs()[2].arguments("max_epochs=1") == [
        *("--config-name", "radialvicreg", "optimizer.lr=0.1"),
        *("method_kwargs.radial_ce_loss_weight=1", "seed=5", "max_epochs=1"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("method: grid", "method: bayes", "'bayes' needs W&B's server"),
        ("[0, 1]", "[]", r"needs `values: \[...\]`"),
        ("values: [0, 1]", "min: 0", "radial_ce_loss_weight needs"),
        ("[0, 1]", "[null]", "has None"),
        ("parameters", "grid", "has no `parameters`"),
        ("--config-name", "--config", "must contain --config-name"),
        ("${args_no_hyphens}", "${args}", r"\$\{args_no_hyphens\}"),
        ("method: grid", "method: [", "cannot be read as YAML"),
    ],
)
def test_other_files_are_refused_with_the_reason(small_sweep: Path, old: str, new: str, message: str) -> None:
    small_sweep.write_text(small_sweep.read_text().replace(old, new))
    with pytest.raises(ValueError, match=message):
        load_sweep(small_sweep)


def test_the_nearest_name_is_offered() -> None:
    with pytest.raises(ValueError, match="did you mean tables/table1"):
        load_sweep("tables/tabel1")


def test_a_sweep_whose_anchors_blow_up_is_refused_at_once(small_sweep: Path) -> None:
    levels = [f"l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * 10)}]" for level in range(1, 9)]
    small_sweep.write_text("\n".join(["l0: &l0 [x]", *levels, small_sweep.read_text()]))
    with pytest.raises(ValueError, match=r"small.yaml holds more than 100,000 values"):
        load_sweep(small_sweep)
