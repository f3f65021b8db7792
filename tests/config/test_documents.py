"""The JSON schema and the tables say what the configuration is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pydantic
import pytest
from jsonschema import Draft202012Validator
from omegaconf import OmegaConf
from packaging.version import parse as version

from radial_vicreg import cli
from radial_vicreg.config import ProbesConfig
from radial_vicreg.config.documents import json_schema, key_tables

ROOT = Path(__file__).parents[2]
FILES = sorted(file for file in (ROOT / "yaml").rglob("*.yaml") if "sweeps" not in file.parts)


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
    for file in FILES:
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
