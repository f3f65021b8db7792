"""An unknown name is answered with the one that was meant, or with none."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from helpers import composed
from omegaconf import OmegaConf

from radial_vicreg import cli
from radial_vicreg.compose import compose
from radial_vicreg.names.hints import SYNONYMS, meant
from radial_vicreg.paper.synthetic.settings import Options


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
