"""What a report prints of an objective: every weight and everything else that a term reads."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import composed, words_in_texts
from objectives import CASES, other_values
from omegaconf import OmegaConf

from radial_vicreg.figures import method_styles
from radial_vicreg.names.terms import ADDED, METHOD_LABELS, OBJECTIVE_LABELS, RADIAL, Key, Term
from radial_vicreg.report.collect import collect, group
from radial_vicreg.report.experiments import experiment_csv
from radial_vicreg.report.naming import differences
from radial_vicreg.report.setting import Setting
from radial_vicreg.runs.results import RunResults

KL = "cifar100/resnet18/radialvicreg_d512"
CHOSEN = {term.name: objective.name for objective in RADIAL for term in objective.terms}
CHOSEN |= {term.name: "none" for term in ADDED}
WEIGHED = [term for objective in RADIAL for term in objective.terms] + [*ADDED]
READ = [(term, key) for term in WEIGHED for key in term.reads]

#: Modules that name a method besides ``names/terms.py``, and why.
NAMED_BESIDES = {
    "cli/__init__.py": {"Radial-VICReg", "VICReg"},  # what the command line is for
    "cli/commands/pretrain.py": {"Radial-VICReg", "VICReg"},
    "cli/commands/try_.py": {"Radial-VICReg", "VICReg"},
    "solo/register.py": {"Radial-VICReg"},
    "runs/loaded.py": {"Radial-VICReg", "VICReg"},  # what is refused
    "runs/stored.py": {"Radial-VICReg", "VICReg"},
}


def setting(**kwargs: Any) -> Setting:
    config: Any = OmegaConf.to_container(composed(KL), resolve=True)
    config = {**config, "method_kwargs": {**config["method_kwargs"], **kwargs}}
    return Setting.of(RunResults.model_validate({"schema_version": 2, "status": "finished", "config": config}))


@pytest.mark.parametrize("term", WEIGHED, ids=lambda term: term.name)
def test_two_weights_of_a_term_have_two_labels_and_one_style(term: Term) -> None:
    chosen = {"radial_objective": CHOSEN[term.name]}
    light, heavy = (setting(**chosen, **{term.weight.name: weight}) for weight in (1.0, 50.0))
    assert f"{term.label} 1" in light.label
    assert f"{term.label} 50" in heavy.label
    assert (light.weight(term.symbol), heavy.weight(term.symbol)) == (1, 50)
    assert differences([light, heavy]) == [f"{term.label} 1", f"{term.label} 50"]
    assert (light.kind, light.key) == (heavy.kind, heavy.key)
    assert light.order < heavy.order
    assert term not in ADDED or term.label in light.kind
    assert method_styles([light.key, "vicreg"])[light.key] != method_styles(["vicreg"])["vicreg"]


@pytest.mark.parametrize(("term", "key"), READ, ids=lambda each: each.name)
def test_what_a_term_reads_is_told_where_it_differs(term: Term, key: Key) -> None:
    chosen = {"radial_objective": CHOSEN[term.name], term.weight.name: 2.0}
    (other, *_) = other_values(key)
    default = key.default if key.default is not None else key.unset
    assert differences([setting(**chosen, **{key.name: value}) for value in (key.default, other)]) == [
        f"{key.short} {default}",
        f"{key.short} {other}",
    ]
    assert key.short not in setting(**{**chosen, term.weight.name: 0.0}).details


def test_every_case_has_a_label_of_its_own() -> None:
    described = {name: setting(**kwargs) for name, kwargs in CASES.items()}
    labels = {(each.label, *(f"{key} {value}" for key, value in each.details.items())) for each in described.values()}
    assert len(labels) == len(CASES)


def test_the_list_of_experiments_has_a_column_for_every_weight(make_run: Callable[..., Path], tmp_path: Path) -> None:
    make_run(KL, "method_kwargs.mean_loss_weight=3", "method_kwargs.radial_ent_loss_weight=0.5")
    (row,) = csv.DictReader(experiment_csv(group(collect(tmp_path / "runs")[0])[0]).splitlines())
    shown = {term.symbol: float(row[term.symbol]) for term in WEIGHED}
    assert shown == {**dict.fromkeys(shown, 0.0), "beta1": 100, "beta2": 0.5, "mean": 3}


def test_methods_are_named_by_their_declarations_alone() -> None:
    found = words_in_texts({*OBJECTIVE_LABELS.values(), *METHOD_LABELS.values()})
    assert found.pop("names/terms.py")
    assert found == NAMED_BESIDES, "ask radial_vicreg.names.terms for OBJECTIVE_LABELS or METHOD_LABELS"
