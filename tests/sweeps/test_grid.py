"""Sweep files: their values, W&B's reading of them, and what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from helpers import read_results

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
OF_THE_PAPER = [name for name in SWEEPS if not name.startswith(("tables/", "study"))]
TABLES = {"table1": 8, "table2": 6, "table3": 4, "table4": 8, "figure4": 3}
STUDY = {
    "study": ("", "seed", 35),
    "study_tune": ("", "optimizer.lr", 21),
    "study_full": ("full/", "seed", 35),
    "study_full_tune": ("full/", "optimizer.lr", 21),
    "study_full_short": ("full/", "seed", 7),
}
SECOND_STUDY = {"study2": 50, "study2_tune": 50, "study2_length": 30}


@pytest.mark.parametrize("name", OF_THE_PAPER)
def test_swept_values_are_the_papers(name: str) -> None:
    of_paper, _, dimension = name.partition("_d")
    grid, sweep = dict(PAPER["sweeps"][of_paper]), load_sweep(name)
    seeds, runs = grid.pop("seeds"), grid.pop("runs", None)
    assert {key: list(sweep.parameters[KEYS[key]]) for key in grid} == grid
    assert len(set(sweep.parameters["seed"])) == seeds
    dataset, network = of_paper.split("_", 1)
    assert sweep.config_name == (f"{dataset}/{network}/radialvicreg_d{dimension}" if dimension else "cell")
    assert runs is None or len(sweep.runs()) == runs
    assert set(sweep.parameters) - {KEYS[key] for key in grid} - {"seed"} <= {"+celeba"}


def test_every_cell_has_three_seeds_in_a_tables_sweep() -> None:
    found = set()
    for name, cells in TABLES.items():
        sweep = load_sweep(f"tables/{name}")
        assert sweep.config_name == "cell"
        (group, options), (seed, seeds) = sweep.parameters.items()
        assert (len(set(options)), seed, len(set(seeds))) == (cells, "seed", 3)
        found |= {f"{group[1:]}/{option}" for option in options}
    assert found == set(PAPER["configs"])


@pytest.mark.parametrize("name", STUDY)
def test_a_sweep_of_the_study_gives_every_method_the_same_trials_or_seeds(name: str) -> None:
    place, varied, runs = STUDY[name]
    sweep = load_sweep(name)
    assert list(sweep.parameters) == ["+radialvicreg/study", varied]
    files = {f"{place}{path.stem}" for path in (YAML / "radialvicreg" / "study" / place).glob("*.yaml")}
    assert set(sweep.parameters["+radialvicreg/study"]) == files
    assert len(sweep.runs()) == runs


@pytest.mark.parametrize("name", SECOND_STUDY)
def test_a_sweep_of_the_second_study_has_its_protocol_s_number_of_runs(name: str) -> None:
    assert len(load_sweep(name).runs()) == SECOND_STUDY[name]
    page = (Path(__file__).parents[2] / "docs" / "study2.md").read_text()
    assert re.search(rf"sweep {name} --run +# {SECOND_STUDY[name]} runs", page)


@pytest.mark.parametrize("name", SWEEPS)
def test_files_are_read_as_wandb_reads_them_and_point_to_what_exists(name: str) -> None:
    content = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    sweep = load_sweep(name)
    assert sweep.content == content
    assert (YAML / f"{sweep.config_name}.yaml").is_file()
    assert content["command"][-1] == "${args_no_hyphens}"
    # solo-learn's script cannot load CelebA, and has neither the studies' losses nor their network
    ours = "celeba" in name or name == "tables/table4" or name.startswith("study")
    assert content["program"] == ("radial-vicreg" if ours else "main_pretrain.py")
    runs = sweep.runs()  # each point of the grid once
    assert [run.index for run in runs] == list(range(len(runs)))
    assert len({run.overrides for run in runs}) == len(runs)


def test_sweeps_over_classes_maximise_what_a_run_logs(finished_run: Callable[[str], Path]) -> None:
    logged = read_results(finished_run("standalone"))["history"][-1]
    names = [name for name in SWEEPS if "celeba" not in (FOLDER / f"{name}.yaml").read_text()]
    assert {load_sweep(name).content["metric"]["name"] for name in names} <= logged.keys()


@pytest.mark.slow  # importing W&B takes seconds
@pytest.mark.parametrize("name", ["cifar100_vit_tiny_d512", "tables/table1", "study_full_tune", "study2"])
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
    assert variant.pop("program") == "radial-vicreg"
    assert variant.pop("command") == [
        *("${env}", "${program}", "pretrain", "--config-name", "cell", "wandb.enabled=true", "${args_no_hyphens}")
    ]
    assert variant == {key: value for key, value in sweep.content.items() if key not in ("program", "command")}


def test_what_the_command_fixes_is_kept_but_for_wandbs_own_keys(small_sweep: Path) -> None:
    assert load_sweep(small_sweep).runs()[2].arguments("max_epochs=1") == [
        *("--config-name", "radialvicreg", "optimizer.lr=0.1"),
        *("method_kwargs.radial_ce_loss_weight=1", "seed=5", "max_epochs=1"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("method: grid", "method: bayes", "'bayes' needs W&B's server"),
        ("values: [0, 1]", "min: 0", r"radial_ce_loss_weight needs `values: \[...\]`"),
        ("[0, 1]", "[null]", "has None"),
        ("--config-name", "--config", "must contain --config-name"),
        ("${args_no_hyphens}", "${args}", r"\$\{args_no_hyphens\}"),
        ("method: grid", "method: [", "cannot be read as YAML"),
    ],
)
def test_other_files_are_refused_with_the_reason(small_sweep: Path, old: str, new: str, message: str) -> None:
    small_sweep.write_text(small_sweep.read_text().replace(old, new))
    with pytest.raises(ValueError, match=message):
        load_sweep(small_sweep)


def test_a_sweep_whose_anchors_blow_up_is_refused_at_once(small_sweep: Path) -> None:
    levels = [f"l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * 10)}]" for level in range(1, 9)]
    small_sweep.write_text("\n".join(["l0: &l0 [x]", *levels, small_sweep.read_text()]))
    with pytest.raises(ValueError, match=r"small.yaml holds more than 100,000 values"):
        load_sweep(small_sweep)
