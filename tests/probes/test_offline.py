"""Probes of finished runs: opening them, keeping their features, writing the figures."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import RESNET, composed, one_line, read_results, write_checkpoint, write_finished_run
from omegaconf import OmegaConf

from radial_vicreg.cli import main
from radial_vicreg.data.build import open_data
from radial_vicreg.io.files import write_json
from radial_vicreg.probes import LinearProbe, features
from radial_vicreg.probes.offline import add_to_results, probe_run
from radial_vicreg.runs.loaded import open_run

WIDTH, LAYER = 24, "patch_embed.proj.weight"  # of the tiny ViT


@pytest.fixture
def make_run(tiny_overrides: list[str], tmp_path: Path) -> Callable[..., Path]:
    """A finished run without the training: random weights in a checkpoint, and its results."""

    def make(*overrides: str, layout: str = "pretrain") -> Path:
        cfg = composed("radialvicreg", *tiny_overrides, *overrides)
        torch.manual_seed(12)
        classifier = {"classifier.weight": torch.zeros(3, WIDTH)}
        if layout == "pretrain":
            folder = write_finished_run(tmp_path / "run", cfg, epochs=2)
            write_checkpoint(folder / "checkpoints" / "last.ckpt", cfg, 2, **classifier)
            return folder
        # solo-learn's: the configuration unresolved, in args.json
        write_json(tmp_path / "run" / "args.json", OmegaConf.to_container(cfg))
        return write_checkpoint(tmp_path / "run" / "name-ep=1.ckpt", cfg, 2, **classifier).parent

    return make


@pytest.mark.parametrize("layout", ["pretrain", "solo"])
@pytest.mark.parametrize("as_file", [False, True], ids=["folder", "checkpoint"])
def test_runs_of_either_layout_are_opened(make_run: Callable, layout: str, as_file: bool) -> None:
    folder = make_run(layout=layout)
    run = open_run(next(folder.rglob("*.ckpt")) if as_file else folder)
    assert run.folder == folder
    assert run.epoch == 2
    saved = torch.load(next(folder.rglob("*.ckpt")), weights_only=True)["state_dict"]
    assert torch.equal(run.model.backbone.state_dict()[LAYER], saved[f"backbone.{LAYER}"])
    assert not run.model.training


@pytest.mark.parametrize(
    ("backbone", "width"),
    [([], WIDTH), (RESNET, 512)],
    ids=["ViT", "ResNet"],
)
def test_the_feature_dimension_is_the_backbone_s(make_run: Callable, backbone: list[str], width: int) -> None:
    run = open_run(make_run(*backbone))
    with torch.no_grad():
        assert run.model(torch.randn(2, 3, 32, 32))["feats"].shape == (2, width)


def test_untrained_weights_come_from_the_run_s_seed(make_run: Callable) -> None:
    folder = make_run()
    one, two = (open_run(folder, untrained=True).model.state_dict() for _ in range(2))
    assert all(torch.equal(value, two[name]) for name, value in one.items())
    assert not torch.equal(one[f"backbone.{LAYER}"], open_run(folder).model.backbone.state_dict()[LAYER])


def test_figures_are_those_of_the_probe_on_the_features(make_run: Callable) -> None:
    folder = make_run()
    file, content = probe_run(folder)
    assert file == folder / "probes" / "linear-encoder.json"
    run = open_run(folder)
    found = features.run_features(run, open_data(run.config), "encoder", untrained=False)
    assert found.cached
    assert content["test"] == LinearProbe().fit(*found.train).score(*found.val)
    assert (content["train_images"], content["val_images"], content["feature_dim"]) == (24, 12, WIDTH)
    assert json.loads(file.read_text())["chosen"] == content["chosen"]
    assert json.loads((folder / "results.json").read_text())["probes"] == {}  # nothing is merged in silence


def test_features_are_extracted_once_for_all_probes(make_run: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_run()
    assert not probe_run(folder)[1]["features_cached"]
    monkeypatch.setattr(features, "extract", None)  # would fail when called
    for probe, kind in (("knn", "encoder"), ("linear", "projector")):
        assert probe_run(folder, probe=probe, features=kind)[1]["features_cached"]


def test_a_damaged_cache_is_extracted_again(make_run: Callable, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_run()
    first = probe_run(folder)[1]["test"]
    for file in (folder / "probes" / "features").glob("*encoder-train.pt"):
        file.write_bytes(file.read_bytes()[:-1] + b"?")
    again = probe_run(folder)[1]
    assert not again["features_cached"]
    assert again["test"] == first
    assert "does not match its checksum" in capsys.readouterr().out


def test_other_images_and_other_weights_have_features_of_their_own(make_run: Callable, image_folder: Callable) -> None:
    folder = make_run()
    probe_run(folder)
    assert not probe_run(folder, untrained=True)[1]["features_cached"]
    other = image_folder("other", per_class=5)
    content = probe_run(folder, val=other)[1]
    assert not content["features_cached"]
    assert content["val_images"] == 15


def change_time(image: Path) -> None:
    state = image.stat()
    os.utime(image, ns=(state.st_atime_ns, state.st_mtime_ns + 1_000_000))


def change_size(image: Path) -> None:
    state = image.stat()
    image.write_bytes(image.read_bytes() + b"\0")  # after the end of a PNG: the same pixels
    os.utime(image, ns=(state.st_atime_ns, state.st_mtime_ns))


@pytest.mark.parametrize("change", [change_time, change_size])
def test_an_image_of_another_time_or_size_is_another_image(
    make_run: Callable, tmp_path: Path, change: Callable
) -> None:
    folder = make_run()
    probe_run(folder, probe="knn")
    assert probe_run(folder, probe="knn")[1]["features_cached"]
    change(tmp_path / "val" / "class_1" / "2.png")
    assert not probe_run(folder, probe="knn")[1]["features_cached"]


def test_features_of_another_resolution_are_others(make_run: Callable) -> None:
    folder = make_run()
    probe_run(folder, probe="knn")
    results = json.loads((folder / "results.json").read_text())
    results["config"]["augmentations"][0]["crop_size"] = 48
    write_json(folder / "results.json", results)
    assert not probe_run(folder, probe="knn")[1]["features_cached"]


def test_the_command_prints_one_line_and_adds_to_results_when_asked(
    make_run: Callable, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_run()
    write_json(folder / "results.json", {**read_results(folder), "probes": {"online_linear": {"top1": 50.0}}})
    assert main(["probe", str(folder), "--probe", "knn", "--add-to-results"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"knn probe of {WIDTH} encoder features (epoch 2): top-1")
    assert out.count("\n") == 1
    probes = read_results(folder)["probes"]
    assert "k20" in probes["offline_knn_encoder"]
    assert probes["online_linear"]["top1"] == 50


def test_untrained_features_belong_to_the_seed_and_need_no_epoch(make_run: Callable) -> None:
    folder = make_run()
    probe_run(folder, probe="knn", untrained=True)
    results = json.loads((folder / "results.json").read_text())
    results["config"]["seed"] = 6
    write_json(folder / "results.json", results)
    content = probe_run(folder, probe="knn", untrained=True)[1]
    assert not content["features_cached"]
    assert add_to_results(folder, content) == "offline_knn_encoder_untrained"


def test_half_of_a_cache_is_extracted_again(make_run: Callable) -> None:
    folder = make_run()
    probe_run(folder, probe="knn")
    next((folder / "probes" / "features").glob("*encoder-val.pt")).unlink()
    assert not probe_run(folder, probe="knn")[1]["features_cached"]


def test_an_intermediate_checkpoint_is_not_added_to_results(make_run: Callable) -> None:
    folder = make_run()
    with pytest.raises(ValueError, match=r"checkpoint is of epoch 1, results.json is of epoch 2"):
        add_to_results(folder, {"probe": "linear", "features": "encoder", "untrained": False, "epoch": 1})


def test_figures_and_weights_of_different_epochs_are_refused_unless_the_weights_are_named(
    make_run: Callable, make_older_weights: Callable, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_run()
    older = make_older_weights(folder)
    assert main(["probe", str(folder), "--probe", "knn"]) == 2
    one_line(capsys.readouterr().err, "results of epoch 2", "weights of epoch 1", f"pass {older}")
    assert not (folder / "probes").exists()
    assert main(["probe", str(older), "--probe", "knn"]) == 0
    assert "encoder features (epoch 1)" in capsys.readouterr().out
    assert main(["probe", str(older), "--probe", "knn", "--add-to-results"]) == 2
    one_line(capsys.readouterr().err, "checkpoint is of epoch 1, results.json is of epoch 2")


def test_the_untrained_network_needs_no_weights_of_an_epoch(make_run: Callable, make_older_weights: Callable) -> None:
    folder = make_run()
    make_older_weights(folder)
    assert open_run(folder, untrained=True).epoch is None


def test_a_checkpoint_of_solo_learn_s_that_is_older_than_the_figures_is_refused(make_run: Callable) -> None:
    """Of versions up to 0.2: 400 epochs at a frequency of 10 left the weights of epoch 391."""
    folder = make_run(layout="solo")
    write_json(folder / "results.json", {**finished(folder), "epochs": 3})
    said = r"results of epoch 3 .* weights of epoch 2 \(name-ep=1.ckpt.*resume_from_checkpoint=\S+/name-ep=1.ckpt"
    with pytest.raises(ValueError, match=said):
        open_run(folder)
    assert open_run(folder / "name-ep=1.ckpt").epoch == 2


def finished(folder: Path) -> dict[str, Any]:
    unresolved = OmegaConf.create(json.loads((folder / "args.json").read_text()))
    config = OmegaConf.to_container(unresolved, resolve=True)  # as a run writes its results
    return {"schema_version": 2, "config": config, "status": "finished", "probes": {}}


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda f: (f / "results.json").unlink(), "neither results.json nor args.json"),
        (lambda f: (f / "results.json").write_text("{"), "results.json: cut short or not JSON"),
        (lambda f: (f / "checkpoints/last.ckpt").write_bytes(b"?"), "cannot be read as a checkpoint"),
        (lambda f: torch.save({}, f / "checkpoints/last.ckpt"), "no state_dict"),
        (lambda f: torch.save({"state_dict": {}}, f / "checkpoints/last.ckpt"), "do not fit its configuration"),
        (lambda f: (f / "checkpoints/last.ckpt").unlink(), "contains no checkpoint"),
    ],
)
def test_broken_runs_end_in_one_line(
    make_run: Callable, capsys: pytest.CaptureFixture[str], break_it: Callable, message: str
) -> None:
    folder = make_run()
    break_it(folder)
    assert main(["probe", str(folder)]) == 2
    one_line(capsys.readouterr().err, message)


def test_a_checkpoint_that_would_run_code_is_refused(make_run: Callable, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "ran",))

    folder = make_run()
    torch.save({"state_dict": Evil()}, folder / "checkpoints" / "last.ckpt")
    with pytest.raises(ValueError, match="cannot be read as a checkpoint"):
        open_run(folder)
    assert not (tmp_path / "ran").exists()
