"""Configurations: whatever is wrong ends in one line before a file is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers import one_line
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from radial_vicreg import cli
from radial_vicreg.compose import compose, run_config
from radial_vicreg.compose.references import keys_read
from radial_vicreg.config import RunConfig
from radial_vicreg.config.words import inner_model
from radial_vicreg.errors import UserError
from radial_vicreg.train.run import prepare

# A short name: the usual one takes longer to resolve than all of the checks.
BASE = compose("radialvicreg", ["radialvicreg/dataset=folder", "data.train_path=images", "name=run"])


@pytest.mark.parametrize(
    "text",
    [
        "a: [1, 2\nb: }",
        "seed: 1\nseed: 2\n",
        "- a\n- b\n",
        "defaults: 5\n",
        "defaults:\n  - /nothing\n",
        "defaults:\n  - study\n",
        "defaults: [/radialvicreg, _self_]\nseed: ${nothing}\n",
        "defaults: [/radialvicreg, _self_]\nseed: ${\n",
        "defaults: [/radialvicreg, _self_]\nx: !!python/object/apply:os.system ['touch ran']\n",
        "defaults: [/radialvicreg, _self_]\nmethod_kwargs: 5\n",
        b"\xff\xfe\x00\x01",
        "x: " + "[" * 400 + "]" * 400,
        "seed: " + "9" * 5000,
        "? [1, 2]\n: x\n",
    ],
    ids=lambda text: repr(text)[-30:],
)
def test_a_bad_yaml_file_is_one_line(
    text: str | bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert cli.main(["pretrain", "--config-path", str(tmp_path), "--config-name", "study", "--cfg"]) == 2
    error = capsys.readouterr().err
    one_line(error, "radial-vicreg pretrain: error: ")
    assert "study" in error or "override" in error
    assert not (tmp_path / "ran").exists()


def changed(**values: Any) -> DictConfig:
    cfg = BASE.copy()
    OmegaConf.set_struct(cfg, False)
    for key, value in values.items():
        OmegaConf.update(cfg, key, value, merge=False, force_add=True)
    return cfg


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("optimizer.batch_size", 10**30, "optimizer.batch_size must be a whole number"),
        ("augmentations.0.crop_size", 10**6, "augmentations.0.crop_size must be a whole number"),
        ("method_kwargs.proj_output_dim", 10**12, "proj_hidden_dim must be a whole number"),
        ("data.num_workers", 10**6, "data.num_workers must be a whole number"),
        ("name", "../../x", "name must be a text that is valid as a file name"),
        ("backbone.kwargs", {"checkpoint_path": "evil.pth"}, "checkpoint_path would load weights"),
        ("backbone.kwargs", {"patch_size": 0, "img_size": 32}, "do not fit vit_tiny"),
        ("backbone.kwargs", {"patch_size": 4, "img_size": 33}, "does not accept images of 32 pixels"),
        ("strategy", "fsdp", "strategy=fsdp is not supported: .*use strategy=ddp"),
        ("accelerator", "mps", "accelerator=mps is not supported: .*use accelerator=auto, gpu or cpu"),
        ("precision", "transformer-engine", "precision=.* is not supported: .*use precision=bf16-mixed, 16-mixed, 32"),
    ],
)
def test_a_value_that_no_run_works_with_is_refused(key: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        prepare(run_config(changed(**{"backbone.name": "vit_tiny", key: value})))


def test_a_key_that_a_reference_reads_is_a_helper() -> None:
    for reference in (
        "${compile}",
        "${compile.inner}",
        "${[compile]}",
        "${oc.select:compile,1}",
        "${oc.select:nothing,${compile}}",
        "${.compile}",
        "${which_${compile}}",
        "${which_${other}}",  # any name
    ):
        assert "compile" in keys_read({"tag": reference, "compile": 1}), reference
        below = {"a": {"b": [{"c": reference.replace("${.", "${....")}]}, "compile": 1}
        assert "compile" in keys_read(below), reference
    for reference in ("compile", "$compile", "${other.compile}", "${compiler}", "${..compile}"):
        assert "compile" not in keys_read({"a": {"b": {"c": reference}}, "compile": "${compile}"}), reference


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("compile", "`radial-vicreg config-schema --markdown` lists the settings"),
        ("batch_size", "did you mean optimizer.batch_size?"),
        ("gpus", "did you mean devices?"),
        ("my_study", "`radial-vicreg config-schema --markdown` lists the settings"),
    ],
)
def test_a_key_that_nothing_reads_is_refused(key: str, hint: str) -> None:
    with pytest.raises(UserError) as caught:
        run_config(changed(**{key: True, "optimizer.lr": "${my_rate}", "my_rate": 0.3}))
    assert str(caught.value) == f"{key} is not a setting; {hint} (to define your own value, use it in a ${{{key}}})"
    assert run_config(changed(**{key: True}), "script").plain()[key] is True  # solo-learn's, or its user's


def test_a_key_that_nothing_reads_is_refused_in_sweeps_and_left_out_of_what_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["radialvicreg/dataset=folder", "data.train_path=images", "name=run"]
    command = ["--config-name", "radialvicreg", *given, "${args_no_hyphens}"]
    sweep = {"method": "grid", "command": command, "parameters": {"+compile": {"values": [True, False]}}}
    (tmp_path / "sweep.yaml").write_text(json.dumps(sweep))
    for action in ("--status", "--run", "--index=0"):
        assert cli.main(["sweep", str(tmp_path / "sweep.yaml"), action]) == 2
        one_line(capsys.readouterr().err, "radial-vicreg sweep: error: compile is not a setting; ")
    assert cli.main(["pretrain", *given, "--cfg"]) == 0
    (tmp_path / "printed.yaml").write_text(printed := capsys.readouterr().out)
    assert "augment:" in printed  # its ${...} are resolved: nothing reads it any more
    assert run_config(compose("printed", [], str(tmp_path))) == run_config(BASE)


def test_a_configuration_of_one_s_own_may_leave_out_devices_logging_and_checkpoints() -> None:
    cfg = BASE.copy()
    OmegaConf.set_struct(cfg, False)
    for key in ("devices", "accelerator", "wandb", "checkpoint", "loggers", "ckpt", "runs_dir", "probes", "seed"):
        del cfg[key]
    completed = run_config(OmegaConf.merge(cfg, {"name": "mine", "auto_resume": None}))  # type: ignore[arg-type]
    assert (completed.seed, completed.ckpt, completed.wandb.enabled) == (5, None, False)
    assert "auto_resume" not in completed.plain()


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.integers(-2, 40), max_size=3),
    st.dictionaries(st.sampled_from(["a", "prob", "enabled"]), st.integers(), max_size=2),
)


def dotted(model: type = RunConfig, prefix: str = "") -> list[str]:
    """Every key of the configuration."""
    keys = []
    for name, field in model.model_fields.items():  # type: ignore[attr-defined]
        inner = inner_model(field.annotation)
        place = f"{prefix}{name}.0" if name == "augmentations" else f"{prefix}{name}"
        keys += [place] if inner is None else [place, *dotted(inner, f"{place}.")]
    return keys


@given(changes=st.dictionaries(st.sampled_from(sorted(dotted())), VALUES, min_size=1, max_size=2))
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_value_is_accepted_or_refused_in_words(changes: dict[str, Any]) -> None:
    try:
        cfg = changed(**changes)
    except OmegaConfBaseException:  # it cannot hold that: `pretrain` never sees it
        return
    try:
        config = run_config(cfg)
    except UserError as error:
        message = str(error)
        assert any(words in message for words in (" must ", " is not ", " needs ", " looks like "))
        assert "\n" not in message
    else:
        assert isinstance(config, RunConfig)


WORDS = st.sampled_from(
    ["seed", "optimizer", "lr", "augmentations", "0", "radialvicreg/dataset", "cifar10", "name", "data"]
)
MARKS = st.sampled_from(
    ["=", ".", "+", "~", "[", "]", "{", "}", "${", "'", '"', ",", ":", "@", "/", " ", "\n", "é", "-"]
)
OVERRIDES = st.one_of(
    st.text(max_size=12),
    st.lists(st.one_of(WORDS, MARKS), min_size=1, max_size=8).map("".join),
    st.tuples(WORDS, st.text(max_size=8)).map("=".join),
)


@given(overrides=st.lists(OVERRIDES, min_size=1, max_size=2))
@settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_no_override_ends_in_a_traceback(overrides: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    status = cli.main(["pretrain", *overrides, "--cfg"])
    error = capsys.readouterr().err
    assert status in (0, 2)
    assert error.count("\n") == (status == 2)
