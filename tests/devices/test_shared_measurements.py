"""Radii and the frozen probe of several processes: shared, and those of one process."""

from __future__ import annotations

import subprocess
import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from helpers import only_run, read_results
from lightning.pytorch.plugins import Precision
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from radial_vicreg.diagnostics.embeddings import embed
from radial_vicreg.probes.linear import LinearProbe
from radial_vicreg.train.callbacks import radius_monitor as radii
from radial_vicreg.train.callbacks.frozen_probe import FrozenProbe
from radial_vicreg.train.callbacks.radius_monitor import RadiusMonitor


@pytest.mark.slow
def test_two_processes_measure_what_one_measures(
    finished_run: Callable[[str], Path],
    tiny_overrides: list[str],
    tmp_path: Path,
    run_python: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    settings = ["host=standalone", "devices=2", "strategy=ddp", "optimizer.batch_size=4", "probes.frozen_linear=true"]
    done = run_python("-m", "radial_vicreg.cli", "pretrain", *tiny_overrides, *settings)
    assert done.returncode == 0, done.stderr
    found, expected = read_results(only_run(tmp_path / "runs")), read_results(finished_run("standalone"))
    assert found["processes"] == 2
    assert found["probes"]["frozen_linear"]["untrained"] == expected["probes"]["frozen_linear"]["untrained"]
    for mode in ("eval", "batch"):  # of the untrained network, which is the same
        assert found["radii"]["initial"][mode] == pytest.approx(expected["radii"]["initial"][mode], rel=1e-5)


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
