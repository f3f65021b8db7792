"""Configurations: whatever is wrong ends in one line before a file is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lightning.pytorch.strategies import StrategyRegistry
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

import yaml
from radial_vicreg import cli
from radial_vicreg.compose import compose, run_config
from radial_vicreg.compose.references import keys_read
from radial_vicreg.config import RunConfig
from radial_vicreg.config.readers import refuse_unread
from radial_vicreg.config.reading import SHIPPED_HELPERS, Reader
from radial_vicreg.config.trainer_arguments import TRAINER_ARGUMENTS
from radial_vicreg.config.words import inner_model
from radial_vicreg.errors import UserError
from radial_vicreg.names.configurations import CONFIGURATIONS
from radial_vicreg.solo.limits import refuse_impossible
from radial_vicreg.train.run import prepare

# A short name: the usual one takes longer to resolve than all of the checks.
BASE = compose("radialvicreg", ["radialvicreg/dataset=folder", "data.train_path=images", "name=run"])
VIT = {"backbone.name": "vit_tiny"}
YAML = {
    "malformed": "a: [1, 2\nb: }",
    "repeated key": "seed: 1\nseed: 2\n",
    "list": "- a\n- b\n",
    "defaults": "defaults: 5\n",
    "unknown group": "defaults:\n  - /nothing\n",
    "circle": "defaults:\n  - study\n",
    "interpolation": "defaults:\n  - /radialvicreg\n  - _self_\nseed: ${nothing}\n",
    "half an interpolation": "defaults:\n  - /radialvicreg\n  - _self_\nseed: ${\n",
    "resolver": "defaults:\n  - /radialvicreg\n  - _self_\nseed: ${nope:3}\n",
    "python": "defaults:\n  - /radialvicreg\n  - _self_\nx: !!python/object/apply:os.system ['touch ran']\n",
    "binary": b"\xff\xfe\x00\x01",
    "deep": "x: " + "[" * 1200 + "]" * 1200,
    "long number": "seed: " + "9" * 5000,
    "unhashable key": "? [1, 2]\n: x\n",
    "section": "defaults:\n  - /radialvicreg\n  - _self_\nmethod_kwargs: 5\n",
}


def changed(**values: Any) -> DictConfig:
    cfg = BASE.copy()
    OmegaConf.set_struct(cfg, False)
    for key, value in values.items():
        OmegaConf.update(cfg, key, value, merge=False, force_add=True)
    return cfg


@pytest.mark.parametrize("text", YAML.values(), ids=YAML.keys())
def test_a_bad_yaml_file_is_one_line(
    text: str | bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert cli.main(["pretrain", "--config-path", str(tmp_path), "--config-name", "study", "--cfg"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("radial-vicreg pretrain: error: ")
    assert error.count("\n") == 1
    assert "study" in error or "override" in error
    assert not (tmp_path / "ran").exists()


BAD: dict[str, list[Any]] = {
    "optimizer.batch_size": ["abc", -1, 0, 1, 1e9, 2.0, None, True, [8], 10**30],
    "optimizer.lr": ["abc", "", -1, float("nan"), float("inf"), None, False, [0.1]],
    "optimizer.kwargs.eta": ["small"],
    "optimizer.kwargs.betas": [[1, 2]],
    "optimizer": [5, None],
    "max_epochs": [-1, 0, 1.5, "many", 10**30],
    "devices": [[], -3, 0, 1.5, "all", {}],
    "augmentations": [[], {}, None, 5, "crops", [5], [None]],
    "augmentations.0.crop_size": [0, -32, 32.5, "32px", None, 10**6, [32, 32]],
    "augmentations.0.num_crops": [0, 1, -3, "two"],
    "augmentations.0.rrc.crop_min_scale": [0, 1.5, float("nan"), None],
    "augmentations.0.color_jitter.hue": [0.6, "red", None],
    "augmentations.0.horizontal_flip.prob": [-0.1, 2, "yes"],
    "seed": [-1, 2**32],
    "precision": [7],
    "accelerator": ["abacus"],
    "strategy": ["abc"],
    "scheduler.lr_decay_steps": ["never"],
    "scheduler": [5],
    "checkpoint.frequency": [0],
    "probes.knn_neighbours": [[]],
    "data.num_workers": [-2, "two", 10**6],
    "data.fraction": [2],
    "data.on_bad_image": ["ignore"],
    "data.multi_label": [True],
    "data.access_key": ["0123456789"],
    "data": [5, None],
    "method_kwargs.proj_output_dim": [10**12],
    "method_kwargs": [5, None],
    "backbone.kwargs.width": [3],
    "backbone.kwargs.checkpoint_path": ["evil.pth"],
    "backbone.kwargs.weights": ["DEFAULT"],
    "backbone": [5, None],
    "name": ["../../x", "..", "a\nb", "${data.train_path}/../x"],
    "wandb.key": ["0123456789"],
    "wandb": [5],
    "password": ["0123456789"],
    "hub.credentials": ["0123456789"],
}


@pytest.mark.parametrize("key", BAD)
def test_a_bad_value_is_refused_by_name(key: str) -> None:
    for value in BAD[key]:
        with pytest.raises(UserError) as caught:
            prepare(run_config(changed(**{key: value}), "pretrain"))
        message = str(caught.value)
        assert "\n" not in message, value
        assert key.removeprefix("data.") in message or key.split(".")[0] in message, value


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        (None, "does not accept images of 32 pixels"),
        ({"patch_size": 0, "img_size": 32}, "do not fit vit_tiny"),
        ({"patch_size": 4, "img_size": 33}, "does not accept images of 32 pixels"),
        ({"patch_size": 4, "img_size": 32, "checkpoint_path": "x"}, "checkpoint_path would load weights"),
    ],
)
def test_a_network_that_does_not_take_the_images_is_refused(kwargs: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        prepare(run_config(changed(**VIT, **{"backbone.kwargs": kwargs})))


@pytest.mark.parametrize("reader", ["pretrain", "script"])
def test_what_lightning_has_and_no_run_works_with_is_refused(reader: Reader) -> None:
    strategies = {name for name in StrategyRegistry.available_strategies() if "ddp" not in name} - {"single_device"}
    for key, names, supported in (
        ("strategy", strategies, "strategy=ddp"),
        ("accelerator", {"mps", "tpu", "hpu"}, "accelerator=auto, gpu or cpu"),
        (
            "precision",
            {"transformer-engine", "transformer-engine-float16"},
            "precision=bf16-mixed, 16-mixed, 32 or auto",
        ),
    ):
        for value in names:
            with pytest.raises(UserError, match=rf"^{key}={value} is not supported: .*use {supported}"):
                run_config(changed(**{key: value}), reader)
    assert run_config(changed(strategy="single_device"), reader).strategy == "single_device"


def test_the_strategies_that_are_offered_are_supported() -> None:
    with pytest.raises(UserError, match=r"strategy must be one of auto, ddp, .*, got 'abc'") as caught:
        prepare(run_config(changed(strategy="abc")))
    assert "fsdp" not in str(caught.value)


def test_checking_leaves_random_numbers_and_the_configuration_alone() -> None:
    import torch

    cfg = changed(**VIT, **{"backbone.kwargs": {"patch_size": 4, "img_size": 32}})
    before, text = torch.get_rng_state(), OmegaConf.to_yaml(cfg)
    prepare(run_config(cfg))
    assert torch.equal(torch.get_rng_state(), before)
    assert OmegaConf.to_yaml(cfg) == text


def test_unknown_keys_suggest_the_nearest() -> None:
    for key, near in {
        "optimzer": "optimizer",
        "max_epoch": "max_epochs",
        "gradient_clip_va": "gradient_clip_val",  # Lightning's
        "optimizer.lrr": "optimizer.lr",
        "data.on_bad_imgae": "data.on_bad_image",
        "checkpoint.frequncy": "checkpoint.frequency",
        "loggers.tensorbord": "loggers.tensorboard",
        "diagnostics.every_n_epoch": "diagnostics.every_n_epochs",
        "probes.encoder_kn": "probes.encoder_knn",
        "scheduler.warmup_epoch": "scheduler.warmup_epochs",
        "wandb.projct": "wandb.project",
        "backbone.nmae": "backbone.name",
        "augmentations.0.solarisation": "augmentations.0.solarization",
        "augmentations.0.rrc.enable": "augmentations.0.rrc.enabled",
    }.items():
        with pytest.raises(ValueError, match=rf"^{key} is not a setting; did you mean {near}\?"):
            run_config(changed(**{key: 1}))


def test_helper_values_and_solo_learn_s_and_lightning_s_keys_are_accepted() -> None:
    helpers = {"performance.disable_channel_last": True, "knn_eval.enabled": False, "optimizer.lr": "${my_rate}"}
    config = run_config(changed(my_rate=0.3, gradient_clip_val=1.0, **helpers))
    assert config.plain()["gradient_clip_val"] == 1.0


def test_a_key_that_a_reference_reads_is_a_helper() -> None:
    for reference in (
        "${compile}",
        "a-${compile}",
        "${compile.inner}",
        "${compile[0]}",
        "${[compile]}",
        "${ compile }",
        "${oc.select:compile,1}",
        "${oc.select:nothing,${compile}}",
        "${oc.dict.keys:compile}",
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


def test_a_key_that_nothing_reads_is_refused_in_files_and_sweeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "defaults: [/radialvicreg, _self_]\ncompile: true\nmy_rate: 0.1\noptimizer: {lr: '${my_rate}'}\n"
    (tmp_path / "study.yaml").write_text(text)
    given = ["radialvicreg/dataset=folder", "data.train_path=images"]
    assert cli.main(["pretrain", "-cp", ".", "-cn", "study", *given, "--check"]) == 2
    assert capsys.readouterr().err.startswith("radial-vicreg pretrain: error: compile is not a setting; ")
    command = ["--config-name", "radialvicreg", *given, "${args_no_hyphens}"]
    sweep = {"method": "grid", "command": command, "parameters": {"+compile": {"values": [True, False]}}}
    (tmp_path / "sweep.yaml").write_text(json.dumps(sweep))
    for action in ("--status", "--run", "--index=0"):
        assert cli.main(["sweep", "sweep.yaml", action]) == 2
        assert capsys.readouterr().err.startswith("radial-vicreg sweep: error: compile is not a setting; ")


def test_what_is_printed_as_a_configuration_is_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["radialvicreg/dataset=folder", "data.train_path=images", "name=run"]
    assert cli.main(["pretrain", *given, "--cfg"]) == 0
    (tmp_path / "printed.yaml").write_text(printed := capsys.readouterr().out)
    assert "augment:" in printed  # its ${...} are resolved: nothing reads it any more
    assert run_config(compose("printed", [], str(tmp_path))) == run_config(compose("radialvicreg", given))


def test_the_helpers_of_the_shipped_configurations_are_known() -> None:
    keys = {
        key
        for file in CONFIGURATIONS.rglob("*.yaml")
        if "sweeps" not in file.parts
        for key in yaml.safe_load(file.read_text()) or {}
    }
    assert keys - {*RunConfig.model_fields, *TRAINER_ARGUMENTS, "defaults", "hydra"} == set(SHIPPED_HELPERS)


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


@pytest.mark.parametrize("config", ["imagenet10/resnet18/radialvicreg_d512", "celeba/resnet18/radial_kl_d512"])
def test_the_shipped_configurations_pass_both_checks(config: str) -> None:
    read = run_config(compose(config, []), "script")
    refuse_unread(read, "script")
    refuse_impossible(read)
    assert prepare(run_config(compose(config, ["data.format=image_folder"]))).method == "radialvicreg"


def test_solo_learn_s_script_refuses_a_name_that_leads_elsewhere() -> None:
    with pytest.raises(ValueError, match=r"name must be a text that is valid as a file name.*got '\.\./\.\./x'"):
        run_config(changed(name="../../x"), "script")


@pytest.mark.solo
def test_the_method_itself_refuses_under_solo_learn_s_script(tiny_overrides: list[str]) -> None:
    from solo.args.pretrain import parse_cfg
    from solo.methods import METHODS

    import radial_vicreg.hosts.solo  # noqa: F401

    cfg = compose("radialvicreg", [*tiny_overrides, "data.on_bad_image=skip", "runs_dir=runs"])
    OmegaConf.set_struct(cfg, False)
    with pytest.raises(UserError, match=r"data\.on_bad_image=skip is read by `radial-vicreg pretrain` only"):
        METHODS["radialvicreg"](parse_cfg(cfg))
