"""Runs on CelebA: labels are never mixed up, figures are those of all validation images."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from celeba_copy import ATTRIBUTES
from helpers import HOSTS, composed, only_run, read_results, weights_of, without
from sklearn.metrics import balanced_accuracy_score

from radial_vicreg import cli
from radial_vicreg.compose import run_config
from radial_vicreg.data.build import open_data
from radial_vicreg.data.loader import build_val_loader
from radial_vicreg.runs.loaded import open_run
from radial_vicreg.solo.host import build_solo
from radial_vicreg.sweeps.grid import load_sweep
from radial_vicreg.train.callbacks.online_probes import OnlineProbes
from radial_vicreg.train.run import build_standalone, prepare


@pytest.fixture
def celeba_overrides(celeba: Path, tmp_path: Path) -> list[str]:
    """Cuts a CelebA cell down to a few steps on a CPU."""
    return [
        f"data.train_path={celeba / 'train'}",
        f"data.val_path={celeba / 'val'}",
        "data.num_workers=0",
        "augment.crop_size=32",
        "method_kwargs.proj_output_dim=8",
        "optimizer.batch_size=4",  # validation has six images: batches of four and two
        "max_epochs=1",
        "scheduler.warmup_epochs=0",
        "accelerator=cpu",
        "diagnostics.enabled=false",
        f"runs_dir={tmp_path / 'runs'}",
    ]


def balanced_accuracy_of(folder: Path, sizes: list[int]) -> tuple[float, float]:
    """Of the checkpoint's linear probe over all validation images, and the mean of the batches' values."""
    run = open_run(folder)
    loader = build_val_loader(run.config, open_data(run.config))
    assert loader is not None
    state = torch.load(run.checkpoint, weights_only=True)["state_dict"]
    probe = torch.nn.functional.linear
    with torch.no_grad():
        batches = [
            (probe(run.model(images)["feats"], state["classifier.weight"], state["classifier.bias"]), targets)
            for images, targets in loader
        ]
    assert [len(targets) for _, targets in batches] == sizes

    def score(logits: torch.Tensor, targets: torch.Tensor) -> float:
        mixed = [a for a in range(ATTRIBUTES) if 0 < targets[:, a].sum() < len(targets)]
        return float(np.mean([100 * balanced_accuracy_score(targets[:, a], logits[:, a] > 0) for a in mixed]))

    logits, targets = (torch.cat(parts) for parts in zip(*batches, strict=True))
    return score(logits, targets), float(np.mean([score(*batch) for batch in batches]))


def pretrain(overrides: list[str], host: str, tmp_path: Path) -> Path:
    """The folder of a run."""
    cell = ["--config-name", "celeba/resnet18/radial_kl_d512", *overrides, f"host={host}"]
    assert cli.main(["pretrain", *cell]) == 0
    return only_run(tmp_path / "runs")


@pytest.mark.slow
@pytest.mark.parametrize("host", HOSTS)
def test_it_trains_and_validates_on_either_host(host: str, celeba_overrides: list[str], tmp_path: Path) -> None:
    folder = pretrain(celeba_overrides, host, tmp_path)
    results = read_results(folder)
    assert (results["status"], results["steps"]) == ("finished", 3)
    epoch: dict[str, Any] = results["history"][-1]
    for name in ("train_class_loss", "val_loss"):
        assert 0.3 < epoch[name] < 2.0  # binary cross-entropy of an untrained probe is about ln 2 = 0.69
    assert 20 < epoch["val_attribute_acc"] < 80
    assert not any(name.endswith(("val_acc1", "val_acc5", "train_acc1", "train_acc5")) for name in epoch)
    assert not any("balanced" in name for name in weights_of(folder))  # older checkpoints load as strictly
    exact, mean_of_batches = balanced_accuracy_of(folder, [4, 2])
    assert epoch["val_balanced_accuracy"] == pytest.approx(exact, abs=1e-3)
    assert results["probes"]["online_linear"]["balanced_accuracy"] == pytest.approx(exact, abs=1e-3)
    assert abs(mean_of_batches - exact) > 0.1
    for sweep in ("celeba_resnet18", "tables/table4"):
        assert load_sweep(sweep).content["metric"]["name"] in epoch


@pytest.mark.slow
@pytest.mark.parametrize("host", HOSTS)
def test_without_online_probes_the_results_have_the_host_s_own_figures(
    host: str, celeba_overrides: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It would score the host's probe once more, with a figure for every attribute.
    monkeypatch.setattr(OnlineProbes, "results", lambda self: {})
    results = read_results(pretrain(celeba_overrides, host, tmp_path))
    epoch, figures = results["history"][-1], results["probes"]["online_linear"]
    del figures["origin"]
    assert figures == {"balanced_accuracy": epoch["val_balanced_accuracy"], "accuracy": epoch["val_attribute_acc"]}


@pytest.mark.slow
def test_two_processes_count_all_validation_images(
    celeba_overrides: list[str], tmp_path: Path, run_python: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    cell = ["--config-name", "celeba/resnet18/vicreg_d512", *celeba_overrides]
    two = ["host=standalone", "devices=2", "strategy=ddp", "optimizer.batch_size=2"]
    done = run_python("-m", "radial_vicreg.cli", "pretrain", *cell, *two)
    assert done.returncode == 0, done.stderr
    results = read_results(folder := only_run(tmp_path / "runs"))
    exact, _ = balanced_accuracy_of(folder, [2, 2, 2])
    assert results["history"][-1]["val_balanced_accuracy"] == pytest.approx(exact, abs=1e-3)
    assert results["probes"]["online_linear"]["balanced_accuracy"] == pytest.approx(exact, abs=1e-3)


@pytest.mark.parametrize("host", HOSTS)
def test_a_training_batch_carries_the_attributes_that_its_images_show(host: str, celeba_overrides: list[str]) -> None:
    plain = [f"augment.{name}=0" for name in ("horizontal_flip", "gaussian_blur", "grayscale")]
    whole = ["augment.crop_size=64", "augmentations.0.color_jitter.prob=0", "augmentations.0.rrc.enabled=false"]
    overrides = [*without(celeba_overrides, "augment.crop_size"), *plain, *whole]
    config = prepare(run_config(composed("celeba/resnet18/vicreg_d512", *overrides)))
    build = build_solo if host == "solo" else build_standalone
    for _, views, targets in build(config, open_data(config)).train_loader:
        for view in views:
            # 40 x 64 pixels resized to 64 x 102 and normalised: the sign of a square's centre is its attribute.
            scale = view.shape[-2] / 5
            rows = ((torch.arange(5) + 0.5) * scale).long()
            columns = ((torch.arange(8) + 0.5) * view.shape[-1] / 8).long()
            shown = (view.mean(1)[:, rows][:, :, columns] > 0).float().flatten(1)
            assert torch.equal(shown, targets)
