"""The one place of every key: its defaults are the YAML's and the loss's, and nobody can change a configuration."""

from __future__ import annotations

import copy
import pickle
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from configs import plain_config
from hypothesis import example, given
from hypothesis import strategies as st
from omegaconf import OmegaConf
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from radial_vicreg.config import MethodConfig, RunConfig, read_config
from radial_vicreg.config.reading import FILLED_IN
from radial_vicreg.config.types import plain
from radial_vicreg.config.words import inner_model
from radial_vicreg.losses import RadialVICRegLoss
from radial_vicreg.names.terms import OBJECTIVE

BASE = Path(__file__).parents[2] / "yaml" / "radialvicreg" / "base.yaml"
REQUIRED = {"name", "max_epochs"}  # no value suits every run
# Without a name there is no schedule, which is solo-learn's rule and part of a run's identity.
OTHERWISE_LEFT_OUT = {"scheduler.name"}
PROJECTOR = ("proj_hidden_dim", "proj_output_dim")


def fields(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every key of every section, with its dotted name."""
    for name, field in model.model_fields.items():
        yield f"{prefix}{name}", field
        if (inner := inner_model(field.annotation)) is not None:
            yield from fields(inner, f"{prefix}{name}.")


FIELDS = dict(fields(RunConfig))


def leaves(content: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in content.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def test_the_defaults_are_those_of_the_yaml() -> None:
    base: Any = OmegaConf.to_container(OmegaConf.load(BASE), resolve=False)
    del base["hydra"]
    written = dict(leaves(base))
    assert written.keys() <= FIELDS.keys()
    assert {key for key in written if FIELDS[key].is_required()} == REQUIRED
    others = {key: value for key, value in written.items() if key not in REQUIRED}
    defaults = {key: plain(FIELDS[key].default) for key in others}
    differing = {key for key, value in others.items() if defaults[key] != value}
    assert differing == OTHERWISE_LEFT_OUT, {key: (defaults[key], others[key]) for key in differing}


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 40),
    st.integers(),
    st.floats(),
    st.text(max_size=3),
    st.sampled_from([choice for key in OBJECTIVE.values() for choice in key.choices]),
    st.lists(st.integers(), max_size=1),
)


@given(name=st.sampled_from(sorted(OBJECTIVE)), value=ANYTHING)
@example(name="sim_loss_weight", value=10**400)  # beyond float64
@example(name="sim_loss_weight", value=float("inf"))
@example(name="sim_loss_weight", value=-0.0)
@example(name="radial_spacing", value=1)
@example(name="radial_spacing", value=2.0)
@example(name="radial_center", value=1)
@example(name="radial_w1_target", value="quantiles")
def test_the_loss_and_the_configuration_accept_the_same_values(name: str, value: Any) -> None:
    try:
        read = MethodConfig.model_validate({**dict.fromkeys(PROJECTOR, 8), name: value})
    except ValidationError:
        with pytest.raises(ValueError, match=name):
            RadialVICRegLoss(**{name: value})
    else:
        assert getattr(RadialVICRegLoss(**{name: value}), name) == getattr(read, name)


CONTENT = plain_config(
    backbone__kwargs={"img_size": [32, 32], "inner": {"deep": [1, {"x": 2}]}},
    augmentations__0__mean=[0, 0.5, 1],
    optimizer__kwargs={"eta": 0.02, "betas": [0.9, 0.99]},
    probes__knn_neighbours=[5],
    precision=32,
    mine={"list": [1]},
)


def values(node: Any) -> Iterator[Any]:
    """Everything inside of a configuration, itself included."""
    yield node
    parts: list[Any] = []
    if isinstance(node, BaseModel):
        parts = [getattr(node, name) for name in type(node).model_fields] + list((node.model_extra or {}).values())
    elif isinstance(node, tuple):
        parts = list(node)
    for part in parts:
        yield from values(part)


def test_nothing_in_a_configuration_can_be_changed_and_what_it_gives_away_is_a_copy() -> None:
    content = copy.deepcopy(CONTENT)
    config = read_config(content)
    kinds = {type(value) for value in values(config) if not isinstance(value, BaseModel)}
    assert kinds <= {tuple, str, int, float, bool, type(None)}
    for section in (value for value in values(config) if isinstance(value, BaseModel)):
        for name in (*type(section).model_fields, *(section.model_extra or {}), "new"):
            with pytest.raises(ValidationError):
                setattr(section, name, 1)
    content["backbone"]["kwargs"]["img_size"].append(3)
    content["mine"]["list"].append(2)
    config.backbone.arguments()["inner"]["deep"].append(3)
    config.optimizer.arguments()["betas"].append(3)
    config.plain()["mine"]["list"].append(3)
    assert config == read_config(CONTENT)


def test_a_configuration_survives_plain_containers_pickling_and_copying() -> None:
    config = read_config(CONTENT)
    for again in (read_config(config.plain()), pickle.loads(pickle.dumps(config)), copy.deepcopy(config)):
        assert again == config
        assert again.plain() == config.plain()


def test_plain_holds_what_was_given_and_what_is_filled_in_and_all_method_kwargs() -> None:
    found = read_config(CONTENT).plain()
    assert found.keys() == {*CONTENT, *FILLED_IN}
    given = ("backbone", "data", "augmentations", "probes", "devices", "mine")
    assert {key: found[key] for key in given} == {key: CONTENT[key] for key in given}
    assert found["method_kwargs"].keys() == MethodConfig.model_fields.keys()
    assert found["method_kwargs"]["radial_ce_loss_weight"] == 100.0
    assert found["wandb"] == {"enabled": False, "entity": None, "project": "radial-vicreg", "offline": False}


IMPORT_ALL = """
import importlib, pkgutil, sys
for name in ("names", "config", "compose", "sweeps"):
    package = importlib.import_module("radial_vicreg." + name)
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
        heavy = {"torch", "lightning", "timm", "torchvision"} & set(sys.modules)
        assert not heavy, (module.name, heavy)
"""


def test_what_only_reads_configurations_loads_no_torch(
    run_python: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    done = run_python("-c", IMPORT_ALL)
    assert done.returncode == 0, done.stderr
