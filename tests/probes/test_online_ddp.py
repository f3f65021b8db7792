"""Online probes under DDP: two processes report the figures of all images together."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from radial_vicreg.data.build import open_data
from radial_vicreg.data.loader import build_val_loader
from radial_vicreg.probes.heads import layers
from radial_vicreg.runs.loaded import open_run

HIDDEN, CLASSES = 16, 3


@pytest.mark.slow
def test_two_processes_report_what_one_computes_from_the_checkpoint(
    tiny_overrides: list[str], tmp_path: Path, run_python: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    settings = ["host=standalone", "devices=2", "strategy=ddp", "optimizer.batch_size=4", "probes.encoder_knn=true"]
    more = [f"probes.mlp_hidden_dim={HIDDEN}", "probes.lr=0.05"]
    done = run_python("-m", "radial_vicreg.cli", "pretrain", *tiny_overrides, *settings, *more)
    assert done.returncode == 0, done.stderr
    (folder,) = (path.parent for path in tmp_path.glob("runs/*/*/results.json"))
    probes = json.loads((folder / "results.json").read_text())["probes"]
    run = open_run(folder)
    checkpoint = torch.load(run.checkpoint, weights_only=True)
    (state,) = (value for name, value in checkpoint["callbacks"].items() if "OnlineProbes" in name)
    loader = build_val_loader(run.config, open_data(run.config))
    assert loader is not None
    with torch.no_grad():
        pairs = [(run.model(images), labels) for images, labels in loader]
    labels = torch.cat([target for _, target in pairs])
    assert len(labels) == 12  # both processes have six, so none is counted twice
    for name, hidden, features in (("projector_linear", [], "z"), ("mlp", [HIDDEN], "feats")):
        inputs = torch.cat([out[features] for out, _ in pairs])
        head = layers(inputs.shape[1], *hidden, CLASSES)
        own = {key.removeprefix(f"{name}."): value for key, value in state["trainer"]["heads"].items()}
        head.load_state_dict({key: value for key, value in own.items() if key in head.state_dict()})
        right = head(inputs).argmax(dim=1) == labels
        assert probes[f"online_{name}"]["top1"] == pytest.approx(100 * float(right.float().mean()), abs=1e-3)
    right = probes["online_knn20"]["top1"] * len(labels) / 100
    assert right == pytest.approx(round(right), abs=1e-3)  # a share of all images, each counted once
