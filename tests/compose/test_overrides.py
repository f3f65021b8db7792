"""Overrides that Hydra's grammar does not take, the user's home, and files that would blow up."""

from __future__ import annotations

import re
import shlex
import sys
import warnings
from operator import attrgetter
from pathlib import Path

import pytest
from helpers import composed, one_line
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given
from hypothesis import strategies as st

from radial_vicreg import cli
from radial_vicreg.compose import compose, run_config
from radial_vicreg.compose.overrides import quoted, with_present_groups
from radial_vicreg.errors import UserError

GIVEN = ["radialvicreg/dataset=folder", "data.train_path=images", "name=run"]


def said_by(message: str) -> str:
    """The value that Hydra reads from the quoted form which a message names, pasted into a shell."""
    (form,) = shlex.split(message.partition("special characters: ")[2])
    return str(OverridesParser.create().parse_override(form).value())


def test_the_quoted_form_is_what_a_shell_and_hydra_take(capsys: pytest.CaptureFixture[str]) -> None:
    assert quoted("data.train_path=/data/a (b)") == """'data.train_path="/data/a (b)"'"""
    assert cli.main(["pretrain", *GIVEN[:1], "data.train_path=/data/a (b)", "--cfg"]) == 2
    form = capsys.readouterr().err.partition("special characters: ")[2]
    assert cli.main(["pretrain", *GIVEN[:1], *shlex.split(form), "--cfg"]) == 0
    assert "train_path: /data/a (b)\n" in capsys.readouterr().out


def test_only_a_form_that_the_key_takes_is_suggested() -> None:
    for override, form in {
        "optimizer.lr=0,3": "optimizer.lr=0.3",
        "scheduler.lr_decay_steps=10,20": "'scheduler.lr_decay_steps=[10,20]'",
        "devices=0,1": "'devices=\"0,1\"'",
        "tag=1,2": "'tag=\"1,2\"'",
        "max_epochs=1,000": None,
        "optimizer.lr=[0.3": None,
    }.items():
        with pytest.raises(UserError) as caught:
            compose("radialvicreg", [*GIVEN, override])
        found = re.findall(r"(?:; write|characters:) (.+)$", str(caught.value))
        assert found == ([] if form is None else [form])
        if form is not None:
            run_config(composed("radialvicreg", *GIVEN, *shlex.split(form)))
        elif "[" not in override:
            assert str(caught.value).endswith("; several runs are a sweep: `radial-vicreg sweep FILE`")


@given(value=st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12))
@example(value="/data/größe (b)\\")
@example(value="/data/a,b=#;[c]")
@example(value='/data/it\'s "b"')
@example(value="~x(/y")
def test_what_is_suggested_always_parses_to_what_was_given(value: str) -> None:
    form = quoted(f"runs_dir={value}")
    assert form is None or said_by(f"special characters: {form}") == value
    assert form is not None or "$" in value  # of interpolations alone there may be no text


def test_a_secret_is_not_quoted_back() -> None:
    for override in ("wandb.key=(secret", "password=a,b"):
        with pytest.raises(ValueError, match=r"its syntax is invalid|expected one value per key") as caught:
            compose("radialvicreg", [*GIVEN, override])
        assert override.partition("=")[2] not in str(caught.value)


PATHS = ("data.train_path", "data.val_path", "runs_dir", "ckpt")


def test_home_is_expanded_in_every_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    config = run_config(compose("radialvicreg", [GIVEN[0], *(f'++{key}="~/{key}"' for key in PATHS)]))
    assert [attrgetter(key)(config) for key in PATHS] == [str(tmp_path / key) for key in PATHS]
    relative = run_config(composed("radialvicreg", *GIVEN, 'data.val_path="${data.train_path}/~x"'))
    assert relative.data.val_path == "images/~x"
    said = r"^runs_dir must be a path, whose home folder \(~\) exists, got '~nobody-here/x'$"
    with pytest.raises(UserError, match=said):
        run_config(composed("radialvicreg", *GIVEN, 'runs_dir="~nobody-here/x"'))


def bomb(levels: int, width: int, merged: bool = False) -> str:
    """Lines that expand to ``width ** levels`` values."""
    lines = ["defaults: [/radialvicreg, _self_]", "x0: &a0 {k: 1}" if merged else "x0: &a0 [1]"]
    for level in range(1, levels):
        inner = ", ".join([f"*a{level - 1}"] * width)
        lines.append(f"x{level}: &a{level} " + (f"{{<<: [{inner}]}}" if merged else f"[{inner}]"))
    return "\n".join(lines)


@pytest.mark.parametrize("text", [bomb(12, 9), bomb(24, 9, merged=True), "x: &a [1, *a]\n"], ids=range(3))
def test_anchors_that_blow_up_are_refused(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "study.yaml").write_text(text)
    assert cli.main(["pretrain", "-cp", str(tmp_path), "-cn", "inner/study", "--cfg"]) == 2
    error = capsys.readouterr().err
    assert "study.yaml holds " in error
    assert "once its anchors (&name, *name) are expanded" in error


def test_references_that_blow_up_are_refused(tmp_path: Path) -> None:
    lines = ["defaults: [/radialvicreg, _self_]", "x0: a"]
    lines += [f"x{level}: " + f"${{x{level - 1}}}" * 8 for level in range(1, 13)]
    (tmp_path / "study.yaml").write_text("\n".join(lines))
    with pytest.raises(ValueError, match=r"x\d+ refers to more than 100,000 values by way of \$\{key\}"):
        compose("study", GIVEN, str(tmp_path))


def test_ordinary_anchors_are_taken(tmp_path: Path) -> None:
    text = "defaults: [/radialvicreg, _self_]\nseed: &s 7\nname: run\ndata: {train_path: a, num_workers: *s}\n"
    (tmp_path / "study.yaml").write_text(text)
    assert compose("study", ["radialvicreg/dataset=folder"], str(tmp_path)).data.num_workers == 7


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, list[str]]:
    """What ``pretrain --cfg`` prints of a command line, and the lines it says besides."""
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # once for each text, as in a process of its own
        warnings.showwarning = lambda message, *_: print(message, file=sys.stderr)
        assert cli.main(["pretrain", *arguments, "--cfg"]) == 0
    said = capsys.readouterr()
    return said.out, said.err.splitlines()


def test_the_command_line_of_a_sweep_of_0_2_means_what_it_meant_and_says_the_new_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fixed = ("--config-name", "cell", "wandb.enabled=true")  # as W&B's agent writes it: swept values last
    now, nothing = printed(capsys, *fixed, "+radialvicreg/study=radial_kl", "seed=7")
    assert nothing == []
    old, said = printed(capsys, *fixed, "+study=radial_kl", "seed=7")
    assert old == now
    assert said == ["the group study is named radialvicreg/study since release 0.3: write +radialvicreg/study=..."]


@pytest.mark.filterwarnings("ignore:the group .* is named")
def test_groups_of_0_2_are_written_by_their_present_names() -> None:
    for old, new in [
        (["+study2=vicreg"], ["+radialvicreg/study2=vicreg"]),
        (["+study=full/vicreg"], ["+radialvicreg/study=full/vicreg"]),
        (["+study/full=vicreg"], ["+radialvicreg/study/full=vicreg"]),
        (["shared/optimizer=adamw", "seed=3"], ["radialvicreg/optimizer=adamw", "seed=3"]),
        (["~shared/method"], ["~radialvicreg/method"]),
        (["shared/dataset@x=digits"], ["radialvicreg/dataset@x=digits"]),
        (["study=a", "shared/other=b", "+cifar100=resnet18/vicreg_d512", "++study=5", "sharedx/method=c", "="], None),
    ]:
        assert with_present_groups(old) == (old if new is None else new)


def test_a_folder_that_extends_ours_keeps_its_group_s_name_and_does_not_fill_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    group = tmp_path / "shared" / "optimizer"  # ours had it until 0.2
    group.mkdir(parents=True)
    for name in ("lars", "mine"):
        (group / f"{name}.yaml").write_text(f"# @package _global_\noptimizer: {{name: {name}, lr: 7}}\n")
    (tmp_path / "mine.yaml").write_text("defaults: [radialvicreg, _self_]\nseed: 77\n")
    (tmp_path / "other.yaml").write_text("defaults: [radialvicreg, shared/optimizer: lars, _self_]\n")
    assert compose("mine", [], str(tmp_path)) == composed("radialvicreg", "seed=77")
    found, said = printed(capsys, "--config-dir", str(tmp_path), "--config-name", "other", "shared/optimizer=mine")
    assert "\n  lr: 7\n" in found
    assert said == []


def test_a_name_of_0_2_in_a_file_is_answered_with_the_present_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for defaults, said in {
        "/quickstart": "In 'own': Could not load 'quickstart'; did you mean /radialvicreg/quickstart?",
        "/study: vicreg": "'study/vicreg'; did you mean /radialvicreg/study/vicreg?",
        "/shared/dataset: digits": "did you mean /radialvicreg/dataset/digits?",
        "/radialvicreg, override /shared/backbone: vit_tiny": "did you mean radialvicreg/backbone?",
        "/radialvicreg, override /radialvicreg/zzz: a": "the groups are radialvicreg/augmentation, ",
    }.items():
        (tmp_path / "own.yaml").write_text(f"defaults: [{defaults}, _self_]\n")
        assert cli.main(["pretrain", "-cp", str(tmp_path), "-cn", "own", "--cfg"]) == 2
        one_line(capsys.readouterr().err, said)


def test_a_configuration_is_found_without_the_prefix_unless_ones_own_has_its_name(tmp_path: Path) -> None:
    name = "study/full/vicreg"
    assert compose(name, []) == composed(f"radialvicreg/{name}")
    assert compose("quickstart.yaml", []) == composed("radialvicreg/quickstart")
    (tmp_path / "study" / "full").mkdir(parents=True)
    (tmp_path / f"{name}.yaml").write_text("# @package _global_\nmine: true\n")
    assert compose(name, [], str(tmp_path)) == {"mine": True}
