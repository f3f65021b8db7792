"""From plain containers to a configuration: what is filled in, and what each reader refuses."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from radial_vicreg.compose import compose, run_config
from radial_vicreg.config import RunConfig, read_config
from radial_vicreg.config.reading import Reader
from radial_vicreg.config.types import plain
from radial_vicreg.errors import UserError
from radial_vicreg.names.terms import LOSS_DEFAULTS, OBJECTIVE, RADIAL_OBJECTIVES

READERS: tuple[Reader, ...] = ("pretrain", "script", "stored")
WITH_ALL = run_config(
    compose("radialvicreg", ["radialvicreg/dataset=folder", "data.train_path=images", "name=run"])
).plain()
DIMS = {"proj_hidden_dim": 8, "proj_output_dim": 8}


def with_kwargs(**kwargs: Any) -> dict[str, Any]:
    return {**WITH_ALL, "method_kwargs": {**DIMS, **kwargs}}


def with_key(dotted: str, value: Any = 1) -> dict[str, Any]:
    content = copy.deepcopy(WITH_ALL)
    *sections, key = dotted.split(".")
    node: Any = content
    for section in sections:
        node = node[int(section)] if isinstance(node, list) else node.setdefault(section, {})
    node[key] = value
    return content


def test_defaults_of_method_kwargs_are_the_papers() -> None:
    filled = read_config(with_kwargs()).method_kwargs
    assert filled.model_dump() == {**LOSS_DEFAULTS, **DIMS, "small_image_stem": "auto"}
    assert filled.sim_loss_weight == filled.var_loss_weight == 25
    assert filled.cov_loss_weight == 1
    assert filled.radial_objective == "kl"
    assert filled.radial_ce_loss_weight == 100
    assert filled.radial_ent_loss_weight == 0
    assert filled.radial_ce_normalize is True
    assert filled.radial_center is False


@pytest.mark.parametrize("reader", ["pretrain", "script"])
def test_errors_name_the_key_the_value_and_what_is_expected(reader: Reader) -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        (
            {"radial_ce_weight": 1},
            "radial_ce_weight is not a setting; did you mean method_kwargs.radial_ce_loss_weight?",
        ),
        ({"zzz": 1}, f"zzz is not a setting; known keys: {', '.join(sorted(OBJECTIVE)[:3])}"),
        ({"proj_output_dim": 0}, "proj_output_dim must be a whole number, 1 to 1,048,576, got 0"),
        ({"proj_output_dim": None}, "proj_output_dim is not set"),
        ({"proj_hidden_dim": 8.5}, "proj_hidden_dim must be a whole number, 1 to 1,048,576, got 8.5"),
        ({"proj_hidden_dim": True}, "proj_hidden_dim must be a whole number, 1 to 1,048,576, got True"),
        ({"radial_objective": "klx"}, f"radial_objective must be one of {', '.join(RADIAL_OBJECTIVES)}, got 'klx'"),
        ({"radial_ce_loss_weight": -1}, "radial_ce_loss_weight must be a finite number, 0 or more, got -1"),
        ({"sim_loss_weight": float("nan")}, "sim_loss_weight must be a finite number, 0 or more, got nan"),
        ({"radial_spacing": 0}, "radial_spacing must be a whole number, 1 or more, or null, got 0"),
        ({"radial_w1_target": "means"}, "radial_w1_target must be one of samples, quantiles, got 'means'"),
        ({"radial_ce_normalize": "false"}, "radial_ce_normalize must be true or false, got 'false'"),
        ({"small_image_stem": "sometimes"}, "small_image_stem must be auto, true or false, got 'sometimes'"),
    ]
    for kwargs, message in refused:
        with pytest.raises(UserError) as caught:
            read_config(with_kwargs(**kwargs), reader)
        assert str(caught.value).startswith(f"method_kwargs.{message}")


def test_the_stem_is_written_as_text_or_as_flag() -> None:
    for written, read in [("True", True), (False, False), ("false", False), ("auto", "auto")]:
        assert read_config(with_kwargs(small_image_stem=written)).method_kwargs.small_image_stem == read


def test_each_reader_refuses_its_unknown_keys() -> None:
    for key, refused_by in [
        # In a section: pretrain refuses everything, a script what is ours alone or nearly ours.
        ("optimizer.lrr", {"pretrain", "script"}),
        ("optimizer.layer_decay", {"pretrain"}),
        ("data.fold", {"pretrain"}),
        ("data.train_pth", {"pretrain"}),  # solo-learn's
        ("data.on_bad_images", {"pretrain", "script"}),
        ("augmentations.0.solarisation", {"pretrain", "script"}),
        ("augmentations.0.cutout", {"pretrain"}),
        ("augmentations.0.rrc.anything", {"pretrain"}),
        ("diagnostics.zzz", {"pretrain", "script"}),
        ("probes.zzz", {"pretrain", "script"}),
        ("loggers.zzz", {"pretrain", "script"}),
        ("method_kwargs.zzz", {"pretrain", "script"}),
        # Arguments of somebody else's constructor.
        ("backbone.kwargs.zzz", set()),
        ("optimizer.kwargs.zzz", set()),
        # At the top: helper values are free unless they are nearly ours; a script's words are more.
        ("my_study", set()),
        ("gradient_clip_val", set()),
        ("gradient_clip_va", {"pretrain"}),
        ("optimzer", {"pretrain"}),
        ("hosts", {"pretrain"}),
        ("probs", {"pretrain", "script"}),
        ("run_dir", {"pretrain", "script"}),
    ]:
        for reader in READERS:
            if reader not in refused_by:
                read_config(with_key(key), reader)
                continue
            with pytest.raises(UserError, match=rf"^{key} is not a setting; "):
                read_config(with_key(key), reader)


def test_unknown_keys_of_a_finished_run_are_left_out_of_its_sections() -> None:
    config = read_config(with_key("optimizer.lrr"), "stored")
    assert "lrr" not in config.plain()["optimizer"]
    assert config == read_config(WITH_ALL, "stored")


def test_keys_that_another_base_class_reads_are_passed_over() -> None:
    content = with_kwargs(add_projector_classifier=True)
    with pytest.raises(UserError, match=r"method_kwargs\.add_projector_classifier is not a setting"):
        read_config(content, "script")
    config = read_config(content, "script", ignored=["add_projector_classifier"])
    assert config == read_config(with_kwargs(), "script")
    misspelt = with_kwargs(add_projector_clasifier=True)
    with pytest.raises(UserError, match=r"did you mean method_kwargs\.add_projector_classifier\?"):
        read_config(misspelt, "script", ignored=["add_projector_classifier"])
    # Of that section alone.
    with pytest.raises(UserError, match=r"probes\.add_projector_classifier is not a setting"):
        read_config(with_key("probes.add_projector_classifier"), "script", ignored=["add_projector_classifier"])


def test_a_password_is_refused_unless_it_has_been_stored() -> None:
    for reader, refused in [("pretrain", True), ("script", True), ("stored", False)]:
        content = with_key("my_service.api_key", "0123456789")
        if not refused:
            read_config(content, reader)
            continue
        with pytest.raises(UserError, match=r"my_service\.api_key looks like a password") as caught:
            read_config(content, reader)
        assert "0123456789" not in str(caught.value)


def test_every_reader_refuses_a_bad_value() -> None:
    for reader in READERS:
        with pytest.raises(UserError, match=r"optimizer\.batch_size must be a whole number, 2 or more, got 1"):
            read_config(with_key("optimizer.batch_size"), reader)


def test_a_missing_value_is_asked_for() -> None:
    for key in ("method", "name", "max_epochs", "optimizer.lr", "backbone.name", "data.dataset"):
        null, absent = with_key(key, None), with_key(key, None)
        section, _, inner = key.partition(".")
        del (absent[section] if inner else absent)[inner or section]
        for content in (null, absent):
            with pytest.raises(UserError) as caught:
                read_config(content)
            assert str(caught.value) == f"{key} is not set: add it to the configuration or give {key}=VALUE"


def test_a_section_must_be_one() -> None:
    for section in ("backbone", "data", "optimizer", "method_kwargs"):
        for value in (None, 5, "abc"):
            with pytest.raises(UserError, match=rf"^{section} must be a section with keys, got {value!r}$"):
                read_config(with_key(section, value))


def test_null_probes_are_none_at_all() -> None:
    probes = read_config({**WITH_ALL, "probes": None}).probes
    assert not any((probes.projector_linear, probes.encoder_mlp, probes.encoder_knn, probes.frozen_linear))


def test_a_null_section_with_defaults_is_one_that_was_left_out() -> None:
    config = read_config({**WITH_ALL, "diagnostics": None, "auto_resume": None})
    assert config.diagnostics == RunConfig.model_fields["diagnostics"].default
    assert "auto_resume" not in config.plain()


def test_reading_leaves_what_was_given_as_it_is() -> None:
    content = with_key("optimizer.lrr")
    before = copy.deepcopy(content)
    read_config(content, "stored")
    assert content == before


def test_reading_what_was_read_changes_nothing() -> None:
    config = read_config(WITH_ALL)
    assert plain(config.plain()) == WITH_ALL
    assert read_config(config.plain()) == config


def test_attributes_go_with_a_data_set_that_has_them() -> None:
    attributes = {**WITH_ALL, "data": {**WITH_ALL["data"], "dataset": "celeba", "multi_label": True}}
    assert read_config(attributes).data.multi_label
    attributes["data"]["multi_label"] = False
    with pytest.raises(UserError, match=r"data\.dataset=celeba has attributes .*: set data\.multi_label=true"):
        read_config(attributes)
    assert not read_config(attributes, "stored").data.multi_label
    with pytest.raises(UserError, match=r"data\.multi_label=true needs data\.dataset=celeba"):
        read_config({**WITH_ALL, "data": {**WITH_ALL["data"], "multi_label": True}})
