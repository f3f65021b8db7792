"""A key that a text names can be given without a ``+``; an unknown name is answered with the one that was meant."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path

import pytest
from helpers import composed
from omegaconf import OmegaConf

from radial_vicreg import cli
from radial_vicreg.compose import compose, run_config
from radial_vicreg.config import RunConfig
from radial_vicreg.config.trainer_arguments import TRAINER_ARGUMENTS
from radial_vicreg.config.words import inner_model
from radial_vicreg.errors import UserError
from radial_vicreg.names.counts import counted, first_of
from radial_vicreg.names.hints import SYNONYMS, meant
from radial_vicreg.names.networks import OPTIMIZER_DEFAULTS
from radial_vicreg.nets.optimizers import check_optimizer
from radial_vicreg.paper.synthetic.settings import Options
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


# The nearest of the known names


def dotted(node: object, prefix: str = "") -> list[str]:
    if not isinstance(node, dict):
        return []
    return [name for key, child in node.items() for name in (f"{prefix}{key}", *dotted(child, f"{prefix}{key}."))]


PRETRAIN = dotted(OmegaConf.to_container(composed("radialvicreg"), resolve=False))
SYNTHETIC = list(asdict(Options()))


def test_a_key_of_a_run() -> None:
    for given, expected in [
        ("optimizer.learning_rate", "optimizer.lr"),
        ("learning_rate", "optimizer.lr"),
        ("lr", "optimizer.lr"),  # not that of the probes
        ("data.lr", "optimizer.lr"),  # right key, wrong section
        ("optimiser.lr", "optimizer.lr"),
        ("optimizer.nam", "optimizer.name"),
        ("batch_size", "optimizer.batch_size"),
        ("n", "optimizer.batch_size"),
        ("epochs", "max_epochs"),  # not warmup_epochs
        ("warmup", "scheduler.warmup_epochs"),
        ("optimizer.decay", "optimizer.weight_decay"),
        ("beta1", "method_kwargs.radial_ce_loss_weight"),
        ("resume", "ckpt"),  # not resume_from_checkpoint, which is solo-learn's
        ("mehtod_kwargs.proj_output_dim", "method_kwargs.proj_output_dim"),
        ("nonsense", None),
        ("method_kwargs.nonsense", None),
    ]:
        assert meant(given, PRETRAIN) == expected


def test_a_key_of_a_synthetic_run() -> None:
    for given, expected in [("n", "num_samples"), ("learning_rate", "lr"), ("warmup", "warmup_steps")]:
        assert meant(given, SYNTHETIC) == expected


def test_every_synonym_stands_for_a_key_that_there_is() -> None:
    known = {*PRETRAIN, *SYNTHETIC}
    for name, targets in SYNONYMS.items():
        assert known & set(targets), name
        assert {target for target in targets if "." in target} <= known, name


def test_a_name_that_is_no_key() -> None:
    for given, known, expected in [
        ("resnet", ["vit_tiny", "resnet50", "resnet18"], "resnet50"),
        ("pretran", list(cli.COMMANDS), "pretrain"),
        ("list", list(cli.COMMANDS), None),
    ]:
        assert meant(given, known) == expected


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("optimizer.learning_rate=1", r"'optimizer.learning_rate'; did you mean optimizer.lr\?$"),
        ("nonsense=1", r"'nonsense'; see `--cfg` .*\(\+nonsense=... defines a value for"),
        ("gradient_clip_val=1", "does not have this key; add it with .gradient_clip_val=...$"),
        ("optimizer.kwargs.momentum=1", "does not have this key; add it with .optimizer.kwargs.momentum=...$"),
    ],
)
def test_only_what_would_be_accepted_is_suggested(override: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        compose("radialvicreg", [override])


def test_a_synthetic_run_takes_no_further_keys(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["synthetic", "gradient_clip_val=1"]) == 2
    assert capsys.readouterr().err.endswith("unknown key 'gradient_clip_val'; see `--cfg` for the known keys\n")
