"""Probes of finished runs: opening them, keeping their features, writing the figures."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import composed, one_line, read_results, write_checkpoint, write_finished_run
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
        cfg, folder = composed("radialvicreg", *tiny_overrides, *overrides), tmp_path / "run"
        if layout == "pretrain":
            checkpoint = write_finished_run(folder, cfg, epochs=2) / "checkpoints" / "last.ckpt"
        else:  # solo-learn's: the configuration unresolved, in args.json
            checkpoint = write_json(folder / "args.json", OmegaConf.to_container(cfg)).with_name("name-ep=1.ckpt")
        write_checkpoint(checkpoint, cfg, 2, **{"classifier.weight": torch.zeros(3, WIDTH)})
        return folder

    return make


@pytest.mark.parametrize("layout", ["pretrain", "solo"])
def test_runs_of_either_layout_are_opened(make_run: Callable, layout: str) -> None:
    folder = make_run(layout=layout)
    (file,) = folder.rglob("*.ckpt")
    saved = torch.load(file, weights_only=True)["state_dict"][f"backbone.{LAYER}"]
    for place in (folder, file):
        run = open_run(place)
        assert (run.folder, run.epoch, run.model.training) == (folder, 2, False)
        assert torch.equal(run.model.backbone.state_dict()[LAYER], saved)
        with torch.no_grad():
            assert run.model(torch.randn(2, 3, 32, 32))["feats"].shape == (2, WIDTH)
    untrained = [open_run(folder, untrained=True).model.backbone.state_dict()[LAYER] for _ in range(2)]
    assert torch.equal(*untrained)
    assert not torch.equal(untrained[0], saved)


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
    assert read_results(folder)["probes"] == {}  # nothing is merged in silence


def test_features_are_extracted_once_for_the_same_images_and_network(
    make_run: Callable, image_folder: Callable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, image = make_run(), tmp_path / "val" / "class_1" / "2.png"
    kept, state = folder / "probes" / "features", image.stat()

    def cached(probe: str = "knn", **how: Any) -> bool:
        return bool(probe_run(folder, probe=probe, **how)[1]["features_cached"])

    def change_config(key: str, section: Callable[[dict], dict], value: int) -> None:
        results = read_results(folder)
        section(results["config"])[key] = value
        write_json(folder / "results.json", results)

    assert not cached()
    assert cached("linear", features="projector")
    assert not cached(untrained=True)
    assert not cached(val=image_folder("other", per_class=5))
    for change in (
        lambda: os.utime(image, ns=(state.st_atime_ns, state.st_mtime_ns + 1_000_000)),
        lambda: image.write_bytes(image.read_bytes() + b"\0"),  # after the end of a PNG: the same pixels
        lambda: [file.unlink() for file in kept.glob("*encoder-val.pt")],
        lambda: [file.write_bytes(b"?") for file in kept.glob("*encoder-train.pt")],
        lambda: change_config("crop_size", lambda config: config["augmentations"][0], 48),
    ):
        change()
        assert [cached(), cached()] == [False, True]
    assert "does not match its checksum" in capsys.readouterr().out
    change_config("seed", lambda config: config, 6)
    content = probe_run(folder, probe="knn", untrained=True)[1]
    assert not content["features_cached"]
    keys = [
        add_to_results(folder, found)  # without a trained epoch
        for found in (content, probe_run(folder, probe="knn", features="projector", untrained=True)[1])
    ]
    assert keys == ["offline_knn_encoder_untrained", "offline_knn_projector_untrained"]
    assert set(keys) <= read_results(folder)["probes"].keys()


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
    assert open_run(folder, untrained=True).epoch is None


def test_a_checkpoint_of_solo_learn_s_that_is_older_than_the_figures_is_refused(make_run: Callable) -> None:
    """Of versions up to 0.2: 400 epochs at a frequency of 10 left the weights of epoch 391."""
    folder = make_run(layout="solo")
    config = OmegaConf.create(json.loads((folder / "args.json").read_text()))
    write_finished_run(folder, config, epochs=3)
    shutil.rmtree(folder / "checkpoints")
    said = r"results of epoch 3 .* weights of epoch 2 \(name-ep=1.ckpt.*resume_from_checkpoint=\S+/name-ep=1.ckpt"
    with pytest.raises(ValueError, match=said):
        open_run(folder)
    assert open_run(folder / "name-ep=1.ckpt").epoch == 2


def test_broken_runs_end_in_one_line(make_run: Callable, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_run()
    checkpoint = folder / "checkpoints" / "last.ckpt"
    for break_it, message in (
        (lambda: torch.save({"state_dict": {}}, checkpoint), "do not fit its configuration"),
        (lambda: torch.save({}, checkpoint), "no state_dict"),
        (lambda: (folder / "results.json").unlink(), "neither results.json nor args.json"),
        (lambda: checkpoint.unlink(), "contains no checkpoint"),
    ):
        break_it()
        assert main(["probe", str(folder)]) == 2
        one_line(capsys.readouterr().err, message)
