"""What a field declares of its key is there, is true, and is what everybody else says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest
import timm
from configs import make_config, plain_config
from lightning.fabric.plugins.precision import precision as lightnings
from lightning.pytorch.strategies import StrategyRegistry

from radial_vicreg.config import OptimizerConfig, RunConfig, read_config
from radial_vicreg.config.fields import choices, leaves, undeclared
from radial_vicreg.config.readers import refuse_unread
from radial_vicreg.config.rules import is_unsupported
from radial_vicreg.config.schema import LONG_PRECISIONS, Precision
from radial_vicreg.config.trainer_arguments import TRAINER_ARGUMENTS
from radial_vicreg.config.words import inner_model
from radial_vicreg.errors import UserError
from radial_vicreg.names.choices import SYNTHETIC_PRESETS
from radial_vicreg.names.networks import BACKBONES, RESNETS
from radial_vicreg.nets.models import timm_architecture
from radial_vicreg.nets.optimizers import OPTIMIZERS, optimizer_arguments
from radial_vicreg.runs.results import Effective
from radial_vicreg.train.hardware import effective_hardware
from radial_vicreg.train.trainer import build_trainer, decided_arguments

REFUSALS = json.loads((Path(__file__).parents[1] / "golden" / "refusals.json").read_text())
"""What each command said of a key that only the other reads, before the fields declared it."""


def test_every_key_declares_its_meaning_and_who_reads_it() -> None:
    assert undeclared() == []


def given(key: str, value: Any) -> RunConfig:
    return read_config(plain_config(**{key.replace(".", "__"): value}), "script")


def test_a_command_refuses_what_it_would_ignore() -> None:
    for command, other in (("script", "pretrain"), ("pretrain", "script")):
        for refused, said in REFUSALS[command].items():
            key, _, value = refused.partition("=")
            config = given(key, json.loads(value))
            with pytest.raises(UserError) as caught:
                refuse_unread(config, command)
            assert str(caught.value) == said
            refuse_unread(config, other)
        frozen = {refused.partition("=")[0] for refused in REFUSALS[command]}
        assert frozen == {key.name for key in leaves() if key.read_by is not None and key.read_by.who == other}


def test_the_page_for_users_of_solo_learn_shows_refusals_as_they_are() -> None:
    page = (Path(__file__).parents[2] / "docs" / "solo_learn.md").read_text()
    row = r"^\| `(\S+)=(\S+)` \| ``(.* is read by `radial-vicreg pretrain` only.*)`` \|$"
    shown = re.findall(row, page, re.MULTILINE)
    assert len(shown) >= 2
    for key, value, said in shown:
        with pytest.raises(UserError) as caught:
            refuse_unread(given(key, value), "script")
        assert str(caught.value) == said


def test_values_at_which_the_script_does_the_same_are_not_refused() -> None:
    for key, value in [("data.cache", None), ("data.format", "h5"), ("data.format", "dali")]:
        refuse_unread(given(key, value), "script")


def test_every_name_that_a_field_lists_can_be_built() -> None:
    assert choices("optimizer.name") == tuple(OPTIMIZERS)
    assert all(timm.is_model(str(timm_architecture(name))) for name in BACKBONES if name not in RESNETS)


def test_arguments_of_optimizers_name_the_optimizers_that_take_them() -> None:
    arguments = inner_model(OptimizerConfig.model_fields["kwargs"].annotation)
    assert arguments is not None
    for key, field in arguments.model_fields.items():
        named = str(field.description).partition(":")[0].split(", ")
        assert sorted(named) == sorted(name for name in OPTIMIZERS if key in optimizer_arguments(name)), key


@pytest.mark.solo
def test_solo_learn_has_the_names_that_the_fields_list() -> None:
    base = pytest.importorskip("solo.methods.base").BaseMethod
    assert {*choices("backbone.name")} == {*base._BACKBONES}
    assert {*choices("optimizer.name")} == {*base._OPTIMIZERS}
    assert {*choices("scheduler.name")} < {*base._SCHEDULERS}


def test_precisions_are_lightnings_and_auto() -> None:
    theirs = {str(name) for name in (*get_args(lightnings._PRECISION_INPUT_INT), *LONG_PRECISIONS)}
    theirs |= {name for name in get_args(lightnings._PRECISION_INPUT_STR) if "engine" not in name}
    assert {*get_args(Precision)} == {"auto", *theirs}
    assert LONG_PRECISIONS == lightnings._PRECISION_INPUT_STR_ALIAS_CONVERSION


def test_strategies_are_those_of_lightning_that_are_supported() -> None:
    theirs = StrategyRegistry.available_strategies()
    assert {*choices("strategy")} == {"auto", *(name for name in theirs if not is_unsupported("strategy", name))}


def test_what_a_machine_may_change_is_known_once() -> None:
    assert effective_hardware(make_config()).keys() <= RunConfig.model_fields.keys() & Effective.model_fields.keys()


DECIDED = [name for name, argument in TRAINER_ARGUMENTS.items() if argument.read_by.who == "script"]


def test_an_argument_that_pretrain_decides_is_declared_and_refused() -> None:
    assert {*decided_arguments(), "callbacks"} == {*DECIDED}
    for name in DECIDED:
        with pytest.raises(UserError, match=rf"^{name}: set by `radial-vicreg pretrain` itself: omit it"):
            build_trainer(make_config(**{name: True}))


@pytest.mark.slow  # the kernels take seconds to load
def test_every_preset_of_the_command_line_has_sizes() -> None:
    from radial_vicreg.paper.synthetic import figure1, figure3, sweep

    assert all(set(found) == set(SYNTHETIC_PRESETS) for found in (figure1.SIZES, figure3.SIZES, sweep.PRESETS))
