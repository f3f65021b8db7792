"""Exported backbones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import RESNET, SMALL_STEM, composed, one_line, read_results, write_checkpoint

from radial_vicreg.cli import main
from radial_vicreg.errors import UserError
from radial_vicreg.export import export_run, hub, load_exported, read_card, writing
from radial_vicreg.io.secrets import HIDDEN
from radial_vicreg.runs.loaded import open_run

TIMM_RESNET = ["backbone.name=timm:test_resnet", "backbone.kwargs=null"]


@pytest.mark.parametrize(
    ("overrides", "fmt"),
    [
        *(pytest.param(RESNET, fmt, marks=pytest.mark.slow) for fmt in ("torchvision", "timm", "hf")),
        (SMALL_STEM, "torchvision"),
        ([], "timm"),
        ([], "safetensors"),
        pytest.param([], "hf", marks=pytest.mark.slow),
        pytest.param(TIMM_RESNET, "timm", marks=pytest.mark.slow),
        (TIMM_RESNET, "hf"),
    ],
)
def test_features_after_loading_back_are_the_checkpoint_s(make_run: Callable, overrides: list[str], fmt: str) -> None:
    folder = make_run(*overrides)
    card_file, card = export_run(folder, fmt)
    images = torch.randn(3, 3, 32, 32)
    with torch.no_grad():
        expected = open_run(folder).model(images)["feats"]
        assert torch.allclose(load_exported(card_file)(images), expected, atol=1e-6)
    assert card["feature_dim"] == expected.shape[1]
    assert card["largest_difference"] <= 1e-6


@pytest.mark.parametrize("overrides", [pytest.param(SMALL_STEM, marks=pytest.mark.slow), []], ids=["small stem", "ViT"])
def test_the_card_s_recipe_needs_nothing_of_this_package(
    make_run: Callable, overrides: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    card_file, card = export_run(make_run(*overrides), "timm")
    monkeypatch.chdir(card_file.parent)
    names: dict[str, Any] = {}
    exec("\n".join(card["build"]), names)
    assert not any("radial" in line for line in card["build"])
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.allclose(names["model"].eval()(images), load_exported(card_file)(images), atol=1e-6)
    assert card["normalisation"]["mean"] == pytest.approx([0.485, 0.456, 0.406])
    assert card["config"]["method"] == "radialvicreg"
    assert "Radial-VCReg" in card["citation"]


def test_figures_and_weights_of_different_epochs_are_refused_and_both_named(
    make_run: Callable, make_older_weights: Callable, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_run(epochs=2)
    older = make_older_weights(folder)
    for given in (folder, folder / "checkpoints" / "last.ckpt"):
        assert main(["export", str(given), "--format", "timm"]) == 2
        one_line(capsys.readouterr().err, "results of epoch 2", "weights of epoch 1", "ckpt=auto", str(older))
    assert not (folder / "export").exists()


def test_weights_of_an_earlier_epoch_that_are_given_by_name_get_a_card_without_figures(
    make_run: Callable, make_older_weights: Callable, capsys: pytest.CaptureFixture[str]
) -> None:
    final = {"eval": {"w1_chi": 0.1}, "batch": {}}
    folder = make_run(epochs=2, radii={"final": final})
    older = make_older_weights(folder)
    assert main(["export", str(older), "--format", "timm"]) == 0
    assert "the card has no results: the run has none of epoch 1" in capsys.readouterr().out
    card = read_card(folder / "export" / "timm" / "card.json")
    assert card["metrics"] == {"probes": None, "radii": None}
    assert (card["training"]["epoch"], card["training"]["status"], card["training"]["seed"]) == (1, None, 5)


def test_figures_stand_on_the_card_of_their_own_weights_however_these_are_named(
    make_run: Callable, tmp_path: Path
) -> None:
    folder = make_run(epochs=2)
    weights = (folder / "checkpoints" / "last.ckpt").rename(folder / "checkpoints" / "epoch-2.ckpt")
    (folder / "checkpoints" / "last.ckpt").symlink_to("epoch-2.ckpt")
    cards = [export_run(given, "timm", tmp_path / "out")[1] for given in (folder, weights)]
    assert [card["metrics"]["probes"] for card in cards] == [{"p": {"top1": 9.0}}] * 2
    assert [(card["training"]["epoch"], card["training"]["status"]) for card in cards] == [(2, "finished")] * 2


def test_a_checkpoint_that_was_written_before_its_link_is_the_newest(
    make_run: Callable, make_older_weights: Callable
) -> None:
    """The process was killed in between: ``last.ckpt`` still leads to the epoch before."""
    folder = make_run(epochs=2)
    newest = folder / "epoch-2.ckpt"
    (folder / "checkpoints" / "last.ckpt").rename(newest)
    make_older_weights(folder)
    newest.rename(folder / "checkpoints" / "epoch-2.ckpt")
    assert export_run(folder, "timm")[1]["training"]["epoch"] == 2


def test_other_weights_beside_a_card_are_refused(make_run: Callable) -> None:
    card_file, card = export_run(make_run(), "timm")
    torch.save({}, card_file.parent / card["weights"])
    with pytest.raises(ValueError, match="different SHA-256"):
        load_exported(card_file)


def test_an_export_with_other_features_is_refused_and_leaves_nothing(
    make_run: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = writing._serialise
    monkeypatch.setattr(
        writing, "_serialise", lambda state, *rest: real({k: 1.01 * v for k, v in state.items()}, *rest)
    )
    folder = make_run()
    for fmt in ("timm", "safetensors", "hf"):
        with pytest.raises(UserError, match=r"features differ by 0\.\d+ after loading the export back"):
            export_run(folder, fmt)
        assert list((folder / "export" / fmt).iterdir()) == []


def test_what_timm_makes_of_an_export_is_compared_too(make_run: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    load = hub.load_with_timm
    monkeypatch.setattr(
        hub, "load_with_timm", lambda *arguments: torch.nn.Sequential(load(*arguments), torch.nn.ReLU())
    )
    folder = make_run()
    with pytest.raises(UserError, match="features differ"):
        export_run(folder, "hf")
    assert not (folder / "export" / "hf" / "card.json").exists()


def test_weights_that_are_not_numbers_are_not_exported(
    make_run: Callable, tiny_overrides: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, bias = make_run(), torch.full((24,), float("nan"))
    cfg = composed("radialvicreg", *tiny_overrides)
    write_checkpoint(folder / "checkpoints" / "last.ckpt", cfg, **{"backbone.norm.bias": bias})
    assert main(["export", str(folder), "--format", "timm"]) == 2
    assert "features differ by nan" in capsys.readouterr().err
    assert not (folder / "export" / "timm" / "card.json").exists()


def test_a_card_of_a_run_without_results_holds_no_secret(make_run: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "0123456789abcdef0123456789abcdef"
    folder = make_run()
    config = read_results(folder)["config"]
    config["note"] = "${oc.env:MY_TOKEN}"  # as solo-learn's args.json keeps it
    config["wandb"]["entity"] = config["data"]["name"] = key
    (folder / "args.json").write_text(json.dumps(config))
    (folder / "results.json").unlink()
    monkeypatch.setenv("MY_TOKEN", key)
    for fmt in ("timm", "hf"):
        card_file, card = export_run(folder, fmt)
        assert card["config"]["wandb"]["entity"] == card["config"]["data"]["name"] == HIDDEN
        assert not [file.name for file in card_file.parent.iterdir() if key.encode() in file.read_bytes()]
    text = (card_file.parent / "README.md").read_text()
    assert "The run has no measurement of the embeddings of these weights." in text
    assert "None" not in text


def test_a_vit_has_no_torchvision_form(make_run: Callable, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(make_run()), "--format", "torchvision"]) == 2
    assert "torchvision has no vit_tiny; use --format timm, safetensors or hf" in capsys.readouterr().err


def test_the_command_says_where_and_how_it_was_proven(
    make_run: Callable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(make_run()), "--format", "safetensors", "--out", str(tmp_path / "out")]) == 0
    assert "identical after loading it back" in capsys.readouterr().out
    assert json.loads((tmp_path / "out" / "card.json").read_text())["weights"] == "backbone.safetensors"
