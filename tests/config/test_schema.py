"""The one place of every key: YAML, loss, JSON schema and tables say the same, and no configuration can be changed."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pydantic
import pytest
from configs import plain_config
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from omegaconf import OmegaConf
from packaging.version import parse as version
from pydantic import BaseModel, ValidationError

from radial_vicreg import cli
from radial_vicreg.config import MethodConfig, ProbesConfig, read_config
from radial_vicreg.config.documents import json_schema, key_tables
from radial_vicreg.config.fields import leaves
from radial_vicreg.config.reading import FILLED_IN
from radial_vicreg.config.types import plain
from radial_vicreg.losses import RadialVICRegLoss
from radial_vicreg.names.terms import OBJECTIVE

ROOT = Path(__file__).parents[2]
BASE = ROOT / "yaml" / "radialvicreg" / "base.yaml"
REQUIRED = {"name", "max_epochs"}  # no value suits every run
# Without a name there is no schedule, which is solo-learn's rule and part of a run's identity.
OTHERWISE_LEFT_OUT = {"scheduler.name"}
PROJECTOR = ("proj_hidden_dim", "proj_output_dim")


FIELDS = {key.name: key.field for key in leaves()}


def values_by_key(content: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in content.items():
        if isinstance(value, dict):
            yield from values_by_key(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def test_the_defaults_are_those_of_the_yaml() -> None:
    base: Any = OmegaConf.to_container(OmegaConf.load(BASE), resolve=False)
    del base["hydra"]
    written = dict(values_by_key(base))
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


VALIDATOR = Draft202012Validator(json_schema())


def problems(content: Any) -> list[str]:
    return [error.message for error in VALIDATOR.iter_errors(content)]


@pytest.mark.skipif(
    version(pydantic.VERSION) < version("2.12"), reason=f"pydantic {pydantic.VERSION} words a schema in another way"
)
def test_the_committed_schema_is_of_this_configuration() -> None:
    written = json.loads((ROOT / "yaml" / "schema.json").read_text())
    assert written == json_schema(), "run `radial-vicreg config-schema > yaml/schema.json`"


def test_the_page_of_keys_is_of_this_configuration() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text()
    assert page.endswith(key_tables()), "run `radial-vicreg config-schema --markdown`"


def test_every_shipped_file_fits_the_schema_and_says_where_it_is() -> None:
    for file in sorted(file for file in (ROOT / "yaml").rglob("*.yaml") if "sweeps" not in file.parts):
        assert problems(OmegaConf.to_container(OmegaConf.load(file), resolve=False)) == []
        named = [line for line in file.read_text().splitlines() if line.startswith("# yaml-language-server: $schema=")]
        if file.name != "cell.yaml":  # it takes other files as groups
            (line,) = named
            assert (file.parent / line.partition("=")[2]).resolve() == ROOT / "yaml" / "schema.json"


def test_an_editor_sees_what_is_wrong_and_takes_interpolations_and_keys_of_ones_own() -> None:
    for content in [
        {"optimizer": {"lrr": 0.3}},
        {"optimizer": {"lr": "fast"}},
        {"method_kwargs": {"radial_objective": "kll"}},
        {"scheduler": {"name": "exponential"}},
        {"backbone": {"name": "resnet19"}},
        {"backbone": {"name": "timm:"}},
        {"method": "a/b"},
        {"augmentations": [{"crop_size": 0}]},
        {"seed": -1},
    ]:
        assert problems(content)
    assert problems({"method": "lejepa", "backbone": {"name": "timm:resnet10t"}, "scheduler": {"name": None}}) == []
    assert problems({"my_rate": 0.1, "optimizer": {"lr": "${my_rate}"}, "gradient_clip_val": 1.0}) == []


def test_the_page_of_probes_holds_every_key() -> None:
    page = (ROOT / "docs" / "probes.md").read_text()
    assert [key for key in ProbesConfig.model_fields if f"`{key}`" not in page] == []


def test_the_command_prints_either(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["config-schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json_schema()
    assert cli.main(["config-schema", "--markdown"]) == 0
    assert "| `method_kwargs.radial_ce_loss_weight` | a finite number, 0 or more | `100` |" in capsys.readouterr().out
