"""A figure is of the weights and the images that it names, and a checkpoint of the run that it names."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import (
    HOSTS_SOLO_SLOW,
    Pretrain,
    one_line,
    only_run,
    pretrainer,
    pull_the_plug,
    read_results,
    tiny_settings,
    write_images,
)

from radial_vicreg import cli
from radial_vicreg.io.files import write_json


@pytest.fixture
def finished(finished_run: Callable[[str], Path]) -> Path:
    """A finished run of two epochs; read, never changed."""
    return finished_run("standalone")


@pytest.fixture
def again(finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Pretrain:
    """The command that trained it, with runs of the test's own."""
    root = finished.parents[2]
    return pretrainer([*tiny_settings(root / "train", root / "val", tmp_path), "probes.frozen_linear=true"], capsys)


@pytest.fixture
def found(finished: Path, tmp_path: Path) -> Path:
    """A copy of it where its command looks for runs."""
    place = tmp_path / "runs" / finished.parent.name / finished.name
    return Path(shutil.copytree(finished, place, symlinks=True))


def runs_below(folder: Path) -> list[Path]:
    return sorted(file.parent for file in folder.glob("*/*/results.json"))


def test_other_validation_images_are_another_run_of_the_same_training(
    found: Path, again: Pretrain, tmp_path: Path
) -> None:
    val = write_images(tmp_path / "other", per_class=5)
    other = f"data.val_path={val}"
    wanted = ("ckpt=last: no checkpoint of this configuration", str(found), "validated on other")
    one_line(again(other, "ckpt=last", status=2).stderr, *wanted)
    anew = again(other, "ckpt=auto", "diagnostics.enabled=false")
    assert len(runs_below(anew.folder)) == 2
    assert f"{found} is not used: validated on other images (" in anew.stdout
    assert f"radial-vicreg probe {found} --val {val}" in anew.stdout


def test_a_run_goes_on_with_its_images_wherever_they_lie_and_with_no_others(
    found: Path, finished: Path, again: Pretrain, tmp_path: Path
) -> None:
    other = f"data.train_path={write_images(tmp_path / 'other', per_class=9)}"
    same_names = f"data.train_path={write_images(tmp_path / 'larger', size=64)}"
    checkpoint = found / "checkpoints" / "epoch-1.ckpt"
    for images, ckpt, said in (
        (other, "last", "ckpt=last: no checkpoint of this configuration"),
        (other, f"'{checkpoint}'", "epoch-1.ckpt was trained on other images"),
        (same_names, "last", "trained on other images"),
    ):
        assert said in again(images, f"ckpt={ckpt}", status=2).stderr
    moved = shutil.copytree(finished.parents[2] / "train", tmp_path / "moved")
    assert again(f"data.train_path={moved}", "ckpt=last").run == found


def test_figures_that_were_measured_otherwise_are_not_handed_back_without_a_word(found: Path, again: Pretrain) -> None:
    assert "measured with" not in again("ckpt=auto").stdout
    handed = again("ckpt=auto", "probes.mlp_hidden_dim=9")
    width = handed.results["config"]["probes"]["mlp_hidden_dim"]
    assert f"its results were measured with probes.mlp_hidden_dim={width}, not 9" in handed.stdout
    assert handed.run == found


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("optimizer.lr=0.001", "optimizer.lr is 0.3 there and 0.001 here"),
        ("max_epochs=3", "max_epochs is 2 there and 3 here"),
        ("method=vicreg", "method_kwargs.radial_objective is kl there and none here"),
    ],
)
def test_a_checkpoint_of_another_configuration_is_refused(
    change: str, said: str, finished: Path, again: Pretrain
) -> None:
    checkpoint = finished / "checkpoints" / "epoch-1.ckpt"
    refused = again(change, f"ckpt='{checkpoint}'", status=2)
    one_line(refused.stderr, f"ckpt={checkpoint} is of another run: ", said, "omit ckpt")
    assert runs_below(refused.folder) == []


def test_a_checkpoint_knows_its_run_wherever_it_lies(finished: Path, again: Pretrain, tmp_path: Path) -> None:
    alone = Path(shutil.copy(finished / "checkpoints" / "epoch-1.ckpt", tmp_path / "alone.ckpt"))
    one_line(again("optimizer.lr=0.001", f"ckpt='{alone}'", status=2).stderr, "optimizer.lr is 0.3 there and 0.001")
    content = torch.load(alone, weights_only=True)  # as version 0.2 has left it
    for state in content["callbacks"].values():
        state.pop("config", None)
    torch.save(content, tmp_path / "old.ckpt")
    refused = again(f"ckpt='{tmp_path / 'old.ckpt'}'", status=2)
    one_line(refused.stderr, "does not contain its configuration", "results.json")
    assert [entry["epoch"] for entry in again(f"ckpt='{alone}'").results["history"]] == [1, 2]


def test_a_finished_run_has_nothing_left_to_train_for_other_validation_images(
    finished: Path, again: Pretrain, tmp_path: Path
) -> None:
    other = write_images(tmp_path / "other", per_class=5)
    refused = again(f"data.val_path={other}", f"ckpt='{finished / 'checkpoints' / 'last.ckpt'}'", status=2)
    one_line(refused.stderr, "is finished and was validated on other images (2:", f"--val {other}` measures")


def test_a_training_that_goes_on_with_other_validation_images_keeps_no_figure_of_the_first(
    again: Pretrain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        pull_the_plug(patch, epochs=1)
        with pytest.raises(ConnectionAbortedError):
            again()
    run = only_run(tmp_path / "runs")
    before = (run / "results.json").read_bytes()
    other = f"data.val_path={write_images(tmp_path / 'other', per_class=5)}"
    again(other, f"ckpt='{run / 'checkpoints' / 'last.ckpt'}'")
    assert (run / "results.json").read_bytes() == before
    (new,) = (folder for folder in runs_below(tmp_path / "runs") if folder != run)
    results = read_results(new)
    first, second = results["history"]
    assert "val_acc1" in second
    assert not any(name.startswith("val_") for name in first)
    assert "train_loss" in first
    assert results["probes"]["frozen_linear"]["untrained"] is None
    assert results["radii"]["initial"] is None
    assert results["radii"]["final"]["origin"]["val"] == results["config"]["data"]["fingerprints"]["val"]


@pytest.mark.parametrize("host", HOSTS_SOLO_SLOW)
def test_every_figure_names_its_weights_and_its_images(host: str, finished_run: Callable[[str], Path]) -> None:
    results = read_results(finished_run(host))
    known = results["config"]["data"]["fingerprints"]
    assert [mark[:2] for mark in (*known["train"], *known["val"])] == ["1:", "2:", "1:", "2:"]
    assert known["train"][0] == f"1:{results['config']['data']['fingerprint']}"
    assert known["seconds"] >= 0
    both = {"train": known["train"], "val": known["val"]}
    last = {"epoch": 2, "step": 6}
    probes = results["probes"]
    online = {name: figures for name, figures in probes.items() if name.startswith("online_")}
    assert len(online) == 3
    assert all(figures["origin"] == {"checkpoint": last, **both} for figures in online.values())
    assert probes["frozen_linear"]["untrained"]["origin"] == {"checkpoint": "untrained", **both}
    assert probes["frozen_linear"]["trained"]["origin"] == {"checkpoint": last, **both}
    radii = results["radii"]
    assert radii["initial"]["origin"] == {"checkpoint": "untrained", "val": known["val"]}
    assert radii["final"]["origin"] == {"checkpoint": last, "val": known["val"]}


def test_a_probe_of_other_images_is_no_figure_of_the_run(
    found: Path, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["probe", str(found), "--probe", "knn", "--workers", "0", "--add-to-results"]
    assert cli.main([*command, "--val", str(write_images(tmp_path / "other", per_class=5))]) == 0
    said = capsys.readouterr().out
    probes = read_results(found)["probes"]
    assert "offline_knn_encoder" not in probes
    (name,) = (name for name in probes if name.startswith("offline_knn_encoder_images_"))
    assert f"probes.{name}" in said
    known = read_results(found)["config"]["data"]["fingerprints"]
    assert probes[name]["origin"]["train"] == known["train"]
    assert probes[name]["origin"]["val"] != known["val"]
    moved = shutil.copytree(finished.parents[2] / "val", tmp_path / "moved")
    assert cli.main([*command, "--val", str(moved)]) == 0
    figures: dict[str, Any] = read_results(found)["probes"]
    assert figures["offline_knn_encoder"]["origin"]["val"] == known["val"]
    assert figures["offline_knn_encoder"]["origin"]["checkpoint"] == {"epoch": 2, "step": 6}
    assert len(list((found / "probes").glob("*.json"))) == 2


def test_compare_says_why_two_runs_are_kept_apart(
    found: Path, finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = read_results(found)
    content["config"]["data"]["fingerprints"]["val"] = ["1:cccccccc", "2:dddddddd"]
    write_json(found / "results.json", content)
    assert cli.main(["compare", str(finished), str(found)]) == 0
    assert "validated on other images (2:" in capsys.readouterr().out
