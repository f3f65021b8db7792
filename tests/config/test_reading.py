"""From plain containers to a configuration: what is filled in, and what each reader refuses in one line."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from configs import make_config, plain_config

from radial_vicreg.config import RunConfig, read_config
from radial_vicreg.config.reading import Reader
from radial_vicreg.errors import UserError
from radial_vicreg.names.terms import OBJECTIVE, RADIAL_OBJECTIVES

READERS: tuple[Reader, ...] = ("pretrain", "script", "stored")


def with_key(dotted: str, value: Any = 1) -> dict[str, Any]:
    return plain_config(**{dotted.replace(".", "__"): value})


def test_defaults_of_method_kwargs_are_the_papers() -> None:
    filled = make_config().method_kwargs
    assert filled.sim_loss_weight == filled.var_loss_weight == 25
    assert (filled.cov_loss_weight, filled.radial_objective) == (1, "kl")
    assert (filled.radial_ce_loss_weight, filled.radial_ent_loss_weight) == (100, 0)
    assert (filled.radial_ce_normalize, filled.radial_center) == (True, False)


DEVICES = "must be a list such as [0], a positive number, auto or -1, got"
NEIGHBOURS = "must be a list of one or more, each a whole number, 1 or more, got"
REFUSED: list[tuple[str, Any, str]] = [
    ("method_kwargs.radial_ce_weight", 1, "is not a setting; did you mean method_kwargs.radial_ce_loss_weight?"),
    ("method_kwargs.zzz", 1, f"is not a setting; known keys: {', '.join(sorted(OBJECTIVE)[:3])}"),
    ("method_kwargs.proj_output_dim", 0, "must be a whole number, 1 to 1,048,576, got 0"),
    (
        "method_kwargs.proj_output_dim",
        None,
        "is not set: add it to the configuration or give method_kwargs.proj_output",
    ),
    ("method_kwargs.proj_hidden_dim", 8.5, "must be a whole number, 1 to 1,048,576, got 8.5"),
    ("method_kwargs.proj_hidden_dim", True, "must be a whole number, 1 to 1,048,576, got True"),
    ("method_kwargs.radial_objective", "klx", f"must be one of {', '.join(RADIAL_OBJECTIVES)}, got 'klx'"),
    ("method_kwargs.sim_loss_weight", float("nan"), "must be a finite number, 0 or more, got nan"),
    ("method_kwargs.radial_spacing", 0, "must be a whole number, 1 or more, or null, got 0"),
    ("method_kwargs.radial_ce_normalize", "false", "must be true or false, got 'false'"),
    ("method_kwargs.small_image_stem", "tiny", "must be auto, true or false, got 'tiny'"),
    ("method_kwargs", None, "must be a section with keys, got None"),
    ("optimizer", 5, "must be a section with keys, got 5"),
    ("devices", 0, f"{DEVICES} 0"),
    ("devices", [], f"{DEVICES} []"),
    ("devices", "two", f"{DEVICES} 'two'"),
    ("data.fraction", 1.5, "must be a finite number, -1 to 1, or null, got 1.5"),
    ("data.cache", "rma", "must be one of none, ram, or null, got 'rma'"),
    ("probes.lr", 0.0, "must be a finite number, above 0, got 0.0"),
    ("probes.knn_neighbours", [], f"{NEIGHBOURS} []"),
    ("probes.knn_neighbours", [5, 0], f"{NEIGHBOURS} 0"),
    ("augmentations", [], "must be a list of one or more of sections, got []"),
    ("augmentations.0.mean", [1, 2], "must be three numbers, or null, got [1, 2]"),
    ("name", "a\\b", "must be a text that is valid as a file name, without / and \\, got"),
]


@pytest.mark.parametrize("reader", ["pretrain", "script"])
def test_errors_name_the_key_the_value_and_what_is_expected(reader: Reader) -> None:
    for key, value, said in REFUSED:
        with pytest.raises(UserError) as caught:
            read_config(with_key(key, value), reader)
        assert str(caught.value).startswith(f"{key} {said}")
        assert "\n" not in str(caught.value)


def test_a_missing_value_is_asked_for_whether_it_is_null_or_absent() -> None:
    for key in ("method", "optimizer.lr", "optimizer.classifier_lr", "backbone.name", "data.dataset"):
        null, absent = with_key(key, None), with_key(key, None)
        section, _, inner = key.partition(".")
        del (absent[section] if inner else absent)[inner or section]
        for content in (null, absent):
            with pytest.raises(UserError) as caught:
                read_config(content)
            assert str(caught.value) == f"{key} is not set: add it to the configuration or give {key}=VALUE"


def test_the_stem_is_written_as_text_or_as_flag() -> None:
    for written, read in [("True", True), (False, False), ("false", False), ("auto", "auto")]:
        assert make_config(method_kwargs__small_image_stem=written).method_kwargs.small_image_stem == read


def test_the_smallest_scale_of_crops_may_be_the_largest_and_no_larger() -> None:
    def scales(smallest: float, largest: float) -> tuple[float, float]:
        rrc = {"augmentations__0__rrc__crop_min_scale": smallest, "augmentations__0__rrc__crop_max_scale": largest}
        return make_config(**rrc).augmentations[0].rrc.scale

    assert scales(0.5, 0.5) == (0.5, 0.5)
    with pytest.raises(UserError, match=r"rrc\.crop_min_scale must not be above crop_max_scale, got 0\.51 and 0\.5$"):
        scales(0.51, 0.5)


UNKNOWN: list[tuple[str, set[str]]] = [
    # In a section: pretrain refuses everything, a script what is ours alone or nearly ours.
    ("optimizer.lrr", {"pretrain", "script"}),
    ("optimizer.layer_decay", {"pretrain"}),
    ("data.train_pth", {"pretrain"}),  # solo-learn's
    ("data.on_bad_images", {"pretrain", "script"}),
    ("augmentations.0.solarisation", {"pretrain", "script"}),
    ("augmentations.0.cutout", {"pretrain"}),
    ("augmentations.0.rrc.anything", {"pretrain"}),
    ("probes.zzz", {"pretrain", "script"}),
    # Arguments of somebody else's constructor.
    ("backbone.kwargs.zzz", set()),
    ("optimizer.kwargs.zzz", set()),
    # At the top: helper values are free unless they are nearly ours; a script's words are more.
    ("my_study", set()),
    ("gradient_clip_val", set()),
    ("gradient_clip_va", {"pretrain"}),
    ("optimzer", {"pretrain"}),
    ("probs", {"pretrain", "script"}),
    ("run_dir", {"pretrain", "script"}),
]


def test_each_reader_refuses_its_unknown_keys() -> None:
    for key, refused_by in UNKNOWN:
        for reader in READERS:
            if reader not in refused_by:
                read_config(with_key(key), reader)
                continue
            with pytest.raises(UserError, match=rf"^{key} is not a setting; "):
                read_config(with_key(key), reader)


def test_unknown_keys_of_a_finished_run_are_left_out_of_its_sections() -> None:
    content = with_key("optimizer.lrr")
    before = copy.deepcopy(content)
    config = read_config(content, "stored")
    assert "lrr" not in config.plain()["optimizer"]
    assert config == read_config(plain_config(), "stored")
    assert content == before, "reading changes what it was given"


def test_keys_that_another_base_class_reads_are_passed_over_in_that_section_alone() -> None:
    key, ignored = "method_kwargs.add_projector_classifier", ["add_projector_classifier"]
    with pytest.raises(UserError, match=f"{key} is not a setting"):
        read_config(with_key(key, True), "script")
    assert read_config(with_key(key, True), "script", ignored=ignored) == read_config(plain_config(), "script")
    with pytest.raises(UserError, match=rf"did you mean {key}\?"):
        read_config(with_key("method_kwargs.add_projector_clasifier", True), "script", ignored=ignored)
    with pytest.raises(UserError, match=r"probes\.add_projector_classifier is not a setting"):
        read_config(with_key("probes.add_projector_classifier"), "script", ignored=ignored)


def test_a_password_is_refused_unless_it_has_been_stored() -> None:
    content = with_key("my_service.api_key", "0123456789")
    for reader in ("pretrain", "script"):
        with pytest.raises(UserError, match=r"my_service\.api_key looks like a password") as caught:
            read_config(content, reader)
        assert "0123456789" not in str(caught.value)
    read_config(content, "stored")


def test_null_probes_are_none_at_all_and_another_null_section_is_one_that_was_left_out() -> None:
    probes = make_config(probes=None).probes
    assert not any((probes.projector_linear, probes.encoder_mlp, probes.encoder_knn, probes.frozen_linear))
    config = make_config(diagnostics=None, auto_resume=None)
    assert config.diagnostics == RunConfig.model_fields["diagnostics"].default
    assert "auto_resume" not in config.plain()


def test_attributes_go_with_a_data_set_that_has_them() -> None:
    assert make_config(data__dataset="celeba", data__multi_label=True).data.multi_label
    classes = plain_config(data__dataset="celeba", data__multi_label=False)
    with pytest.raises(UserError, match=r"data\.dataset=celeba has attributes .*: set data\.multi_label=true"):
        read_config(classes)
    assert not read_config(classes, "stored").data.multi_label
    with pytest.raises(UserError, match=r"data\.multi_label=true needs data\.dataset=celeba"):
        make_config(data__multi_label=True)
