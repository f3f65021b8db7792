"""Names that tell runs apart."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import composed

from radial_vicreg.compose import canonical_numbers, run_config
from radial_vicreg.data.fingerprint import fingerprints_of
from radial_vicreg.io.files import write_json
from radial_vicreg.runs.identity import Identity
from radial_vicreg.runs.origin import names_only
from radial_vicreg.runs.provenance import describe_run
from radial_vicreg.train.run import prepare
from radial_vicreg.train.run_name import LONGEST_NAME, named, run_name

IDENTITY = "0123456789ab"


@pytest.fixture
def name_of(tiny_overrides: list[str]) -> Callable[..., str]:
    """The name that ``radial-vicreg pretrain`` gives a run."""
    return lambda *overrides: prepare(run_config(composed("radialvicreg", *tiny_overrides, *overrides))).name


def test_a_name_ends_with_the_identity_and_the_images() -> None:
    assert re.fullmatch("study-seed5-[0-9a-f]{8}-fedcba98", run_name("study-seed5", IDENTITY, "fedcba98"))
    assert re.fullmatch("study-seed5-[0-9a-f]{8}", run_name("study-seed5", IDENTITY, None))
    assert run_name("study-seed5", IDENTITY, None) != run_name("study-seed5", IDENTITY[::-1], None)


@pytest.mark.parametrize("text", ["x" * 500, "ü" * 500, "-".join(["ab"] * 200)])
def test_a_long_name_is_cut_and_stays_one_of_its_own(text: str) -> None:
    names = {run_name(t, identity, "fedcba98") for t in (text, f"{text}b") for identity in (IDENTITY, IDENTITY[::-1])}
    assert len(names) == 4
    assert all(len(name.encode()) <= LONGEST_NAME and "--" not in name for name in names)


def test_a_number_is_written_in_one_way_and_what_is_none_stays() -> None:
    values = [100.0, 100, 0.3, -0.0, 1e-3, True, None, "100.0", float("inf")]
    written = ["100", "100", "0.3", "0", "0.001", "True", "None", "100.0", "inf"]
    assert [str(value) for value in canonical_numbers({"list": values})["list"]] == written


def test_a_run_has_one_name_however_its_numbers_are_written(name_of: Callable[..., str]) -> None:
    whole = name_of("method_kwargs.radial_ce_loss_weight=100", "optimizer.lr=1e-1")
    assert whole == name_of("method_kwargs.radial_ce_loss_weight=100.0", "optimizer.lr=0.1")
    assert "-ce100-" in whole
    assert "-lr0.1-" in whole


def test_a_run_is_named_once_by_the_fingerprint_of_names_alone(tiny_overrides: list[str], tmp_path: Path) -> None:
    """That of version 0.2: solo-learn's auto-resume compares names."""
    config = named(run_config(composed("radialvicreg", *tiny_overrides)), tmp_path)
    assert config.name.endswith("-43285646")
    assert config.data.fingerprint == "43285646"
    assert config.data.fingerprints is not None
    assert (config.data.fingerprints.train or [None])[0] == "1:43285646"
    assert named(config, tmp_path) is config
    # Read again from its results, and the images are elsewhere now.
    data = config.data.model_copy(update={"train_path": "/nowhere"})
    assert named(config.model_copy(update={"data": data}), tmp_path).name == config.name


def test_only_an_unfinished_run_of_release_0_2_keeps_its_name(tiny_overrides: list[str], tmp_path: Path) -> None:
    clipped, other = (
        run_config(composed("radialvicreg", *tiny_overrides, f"+gradient_clip_val={value}")) for value in (0.5, 5)
    )
    text, mark = clipped.name, names_only(fingerprints_of(clipped).train)
    name_of_0_2 = run_name(text, Identity.of_release_0_2(clipped).config_hash, mark)
    name = named(clipped, tmp_path).name
    assert name != name_of_0_2

    def leave(status: str) -> None:
        content = {"name": name_of_0_2, "status": status, "max_epochs": 2}
        results = {**describe_run(named(clipped, tmp_path).plain(), "solo"), **content}
        write_json(tmp_path / "method" / "run" / "results.json", results)

    leave("running")
    assert named(clipped, tmp_path).name == name_of_0_2
    assert named(other, tmp_path).name not in (name, name_of_0_2), "release 0.2 gave it the same name"
    leave("finished")
    assert named(clipped, tmp_path).name == name
