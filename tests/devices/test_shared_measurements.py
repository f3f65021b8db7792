"""Radii and probes of several processes: shared, and those of one process."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from helpers import finished, only_run, read_results, started, tiny_settings, write_images
from lightning.pytorch.plugins import Precision
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from radial_vicreg.data.build import open_data
from radial_vicreg.data.loader import build_val_loader
from radial_vicreg.diagnostics.embeddings import embed
from radial_vicreg.probes.heads import layers
from radial_vicreg.probes.linear import LinearProbe
from radial_vicreg.runs.loaded import open_run
from radial_vicreg.train.callbacks import radius_monitor as radii
from radial_vicreg.train.callbacks.frozen_probe import FrozenProbe
from radial_vicreg.train.callbacks.radius_monitor import RadiusMonitor

HIDDEN, CLASSES = 16, 3  # of the probe with a hidden layer


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two processes with every probe."""
    root = tmp_path_factory.mktemp("two")
    images = write_images(root / "train"), write_images(root / "val", per_class=4)
    settings = ["host=standalone", "devices=2", "strategy=ddp", "optimizer.batch_size=4", "probes.frozen_linear=true"]
    more = ["probes.encoder_knn=true", f"probes.mlp_hidden_dim={HIDDEN}", "probes.lr=0.05"]
    command = ["-m", "radial_vicreg.cli", "pretrain", *tiny_settings(*images, root), *settings, *more]
    done = finished(started([sys.executable, *command], root))
    assert done.returncode == 0, done.stderr
    return only_run(root / "runs")


@pytest.mark.slow
def test_two_processes_measure_what_one_measures(finished_run: Callable[[str], Path], two_processes: Path) -> None:
    found, expected = read_results(two_processes), read_results(finished_run("standalone"))
    assert found["processes"] == 2
    assert found["probes"]["frozen_linear"]["untrained"] == expected["probes"]["frozen_linear"]["untrained"]
    for mode in ("eval", "batch"):  # of the untrained network, which is the same
        assert found["radii"]["initial"][mode] == pytest.approx(expected["radii"]["initial"][mode], rel=1e-5)


@pytest.mark.slow
def test_online_probes_of_two_processes_report_what_one_computes_from_the_checkpoint(two_processes: Path) -> None:
    probes, run = read_results(two_processes)["probes"], open_run(two_processes)
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


class Flat(nn.Module):
    """Pixels are features and embeddings."""

    device = torch.device("cpu")

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        return {"feats": images.flatten(1), "z": self.scale * images.flatten(1)}


def labelled(count: int) -> DataLoader[Any]:
    return DataLoader(TensorDataset(torch.randn(count, 3, 2, 2), torch.arange(count) % 2), batch_size=4)


def trainer() -> Any:
    names = ("callbacks", "loggers")
    return SimpleNamespace(
        **{name: [] for name in names},
        **{"callback_metrics": {}, "global_rank": 0, "is_global_zero": True, "global_step": 0},
        precision_plugin=Precision(),
    )


def test_the_monitor_has_one_batch_of_images_on_the_device_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(radii, "_BATCH_SIZE", 4)
    alive: list[int] = []
    seen: dict[int, weakref.ref[Tensor]] = {}

    def noting(model: Any, images: Tensor, batch_statistics: bool) -> Tensor:
        seen[id(images)] = weakref.ref(images)
        alive.append(sum(reference() is not None for reference in seen.values()))
        return embed(model, images, batch_statistics)

    monkeypatch.setattr(radii, "embed", noting)
    monitor, run = RadiusMonitor(crop_size=2), trainer()
    run.val_dataloaders = labelled(12)
    monitor.on_train_start(run, Flat())  # type: ignore[arg-type]
    assert alive == [1] * 6  # three batches in two modes
    assert monitor.history[0]["eval"]["count"] == 12


def test_a_gpu_without_room_for_the_frozen_probe_leaves_it_to_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    real, devices = LinearProbe.fit, []

    def fit(self: LinearProbe, features: Tensor, labels: Tensor) -> LinearProbe:
        devices.append(features.device.type)
        if len(devices) == 1:
            raise torch.cuda.OutOfMemoryError("tried to allocate 2 GiB")
        return real(self, features, labels)

    monkeypatch.setattr(LinearProbe, "fit", fit)
    probe = FrozenProbe(LinearProbe, labelled(20).dataset, labelled(8))
    probe.on_train_start(trainer(), Flat())  # type: ignore[arg-type]
    assert devices == ["cpu", "cpu"]
    assert probe.untrained is not None
    assert 0 <= probe.untrained["top1"] <= 100
