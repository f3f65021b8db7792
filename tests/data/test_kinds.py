"""Every kind of images goes the whole way: trained, resumed, probed, diagnosed, exported, reported."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from celeba_copy import write_copy
from helpers import only_run, read_results, tiny_settings

from radial_vicreg import cli
from radial_vicreg.data.celeba import prepare_celeba

Trained = Callable[[str, str], Path]


def celeba_settings(root: Path) -> list[str]:
    """A run on a small CelebA."""
    out = prepare_celeba(root / "celeba", write_copy(root / "copy", (24, 12, 1)))
    folders = tiny_settings(out / "train", out / "val", root)
    return ["--config-name", "celeba/resnet18/radial_kl_d512", *folders[1:], "augment.crop_size=32"]


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Trains a run on a kind of images once, under a host."""

    @cache
    def train(kind: str, host: str) -> Path:
        root = tmp_path_factory.mktemp(f"{kind}-{host}")
        assert cli.main(["pretrain", *celeba_settings(root), f"host={host}", "max_epochs=1"]) == 0
        return only_run(root / "runs")

    return train


def test_celeba_is_probed(trained: Trained) -> None:
    run = trained("celeba", "standalone")
    for probe in ("linear", "knn"):
        assert cli.main(["probe", str(run), "--probe", probe, "--add-to-results"]) == 0
        content = json.loads((run / "probes" / f"{probe}-encoder.json").read_text())
        assert 0 < content["test"]["balanced_accuracy"] < 100
        assert read_results(run)["probes"][f"offline_{probe}_encoder"]["balanced_accuracy"]
