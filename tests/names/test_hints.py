"""Whatever key a message or a document names can be given without a ``+``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from helpers import composed
from omegaconf import OmegaConf

from radial_vicreg.compose import run_config
from radial_vicreg.config import RunConfig
from radial_vicreg.config.trainer_arguments import TRAINER_ARGUMENTS
from radial_vicreg.config.words import inner_model
from radial_vicreg.errors import UserError
from radial_vicreg.names.counts import counted, first_of
from radial_vicreg.names.networks import OPTIMIZER_DEFAULTS
from radial_vicreg.nets.optimizers import check_optimizer
from radial_vicreg.runs.identity import config_hash

ROOT = Path(__file__).parents[2]
SECTIONS = "|".join(name for name, field in RunConfig.model_fields.items() if inner_model(field.annotation) is not None)
DOTTED = re.compile(rf"(?<![\w./+~-])((?:{SECTIONS})\.[a-z_]+(?:\.[a-z_]+)*)=(?!=)")
PLAIN = re.compile(r"(?<![\w./+~$-])(?:`+)?([a-z_]+)(?:=(?!=)|`)")
#: Written where another program reads them, or an error echoes what was given.
ECHOED = {"auto_umap", "knn_eval", "backbone.kwargs", "data.num_classes"}


def _texts() -> Iterator[tuple[str, str]]:
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "bash").rglob("*.s*")]:
        if path.name not in ("CHANGELOG.md", "configuration.md"):  # of how things were, and of all that there is
            yield path.name, path.read_text(encoding="utf-8")
    for path in (ROOT / "radial_vicreg").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = [value.value if isinstance(value, ast.Constant) else "{}" for value in node.values]
                yield path.name, "".join(map(str, parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield path.name, node.value


@cache
def texts() -> list[tuple[str, str]]:
    """Where, and a text that a user reads."""
    return list(_texts())


def hints() -> dict[str, str]:
    """Key to the place that names it."""
    settings = {*RunConfig.model_fields, *TRAINER_ARGUMENTS}
    found: dict[str, str] = {}
    for place, text in texts():
        for key in DOTTED.findall(text):
            found.setdefault(key, place)
        for key in PLAIN.findall(text):
            if key in settings and (place.endswith(".md") or f"{key}=" in text):
                found.setdefault(key, place)
    return found


def test_extras_are_quoted_wherever_a_text_installs_them() -> None:
    """zsh takes brackets for a pattern, and refuses ``pip install radial-vicreg[solo]``."""
    bare = re.compile(r"pip install (?:-\S+ )*[\w.-]*\[")
    assert bare.search("pip install -e .[dev]") is not None
    assert [place for place, text in texts() if bare.search(text)] == []


def test_a_count_has_its_noun_in_the_singular_or_the_plural() -> None:
    """``radial_vicreg.names.counts.counted`` writes both."""
    assert [(place, text) for place, text in texts() if re.search(r"\w\((e?s)\)(?!\()", text)] == []
    assert [counted(number, "run") for number in (0, 1, 2, 1000)] == ["0 runs", "1 run", "2 runs", "1,000 runs"]
    assert [counted(number, "entry", "entries") for number in (1, 2)] == ["1 entry", "2 entries"]


def test_the_first_of_many_names_are_written_out() -> None:
    assert [first_of("abcde"[:count]) for count in (0, 1, 5)] == ["none", "a", "a, b, c, d, e"]
    assert first_of(["f"] * 2000, 2) == "f, f and 1,998 more"


def test_every_key_that_a_text_names_can_be_given_without_a_plus() -> None:
    found = hints()
    assert {"data.no_labels", "ckpt", "checkpoint.keep_prev", "resume_from_checkpoint"} <= found.keys()
    known = OmegaConf.to_container(composed("radialvicreg"), resolve=False)
    with_loss = composed("radialvicreg", "radialvicreg/method=lejepa")
    known |= OmegaConf.to_container(OmegaConf.masked_copy(with_loss, ["loss", "loss_views"]))
    refused = {}
    for key, place in found.items():
        node = known
        for part in key.split("."):
            node = node.get(part, ...) if isinstance(node, dict) else ...
        if node is ... and not key.startswith(tuple(ECHOED)):
            refused[key] = place
    assert not refused


def test_defaults_that_are_written_out_change_no_identity() -> None:
    whole = OmegaConf.to_container(composed("radialvicreg"), resolve=True)
    bare = {key: value for key, value in whole.items() if key not in ("num_nodes", "accumulate_grad_batches", "dali")}  # type: ignore[union-attr]
    bare["data"] = {key: value for key, value in whole["data"].items() if key not in ("no_labels", "fraction")}  # type: ignore
    assert config_hash(bare) == config_hash(whole)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", OPTIMIZER_DEFAULTS)
def test_each_optimizer_has_a_group_that_trains(name: str) -> None:
    config = run_config(composed("radialvicreg", f"radialvicreg/optimizer={name}"))
    check_optimizer(config)
    assert config.optimizer.name == name


def test_the_name_of_an_optimizer_alone_leads_to_its_group() -> None:
    config = run_config(composed("radialvicreg", "optimizer.name=adamw"))
    with pytest.raises(UserError, match=r"clip_lr.* do not fit optimizer.name=adamw: .*radialvicreg/optimizer=adamw"):
        check_optimizer(config)
