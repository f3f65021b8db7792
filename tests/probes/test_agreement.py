"""Online and offline linear probe of one run, on CIFAR-10 itself. Not part of CI: it takes about 20 minutes.

    RADIAL_VICREG_CIFAR10=DIR python -m pytest --slow tests/probes/test_agreement.py

DIR holds ``train/`` and ``test/`` with a folder of images for each class.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from radial_vicreg import cli

CIFAR10 = os.environ.get("RADIAL_VICREG_CIFAR10")
IMAGES = {"train": 1000, "test": 300}  # of each class
#: A network of two tokens; crops so gentle that both probes see nearly the same images; and a rate at which 20 epochs
#: are enough for the online head to settle (docs/probes.md has the figures of other settings).
SETTINGS = [
    "radialvicreg/backbone=vit_tiny",
    "radialvicreg/optimizer=adamw",
    "backbone.kwargs.patch_size=32",
    "augment.crop_size=32",
    "augment.crop_min_scale=0.8",
    "augment.grayscale=0",
    "augment.solarization=0",
    "augmentations.0.color_jitter.prob=0",
    "method_kwargs.proj_hidden_dim=512",
    "optimizer.batch_size=128",
    "optimizer.classifier_lr=0.1",
    "scheduler.warmup_epochs=2",
    "max_epochs=20",
    "probes.encoder_mlp=false",
]


@pytest.fixture
def cifar10(tmp_path: Path) -> Path:
    """The first images of each class, as links."""
    for part, count in IMAGES.items():
        for source in sorted(Path(str(CIFAR10), part).iterdir()):
            (tmp_path / part / source.name).mkdir(parents=True)
            for file in sorted(source.iterdir())[:count]:
                (tmp_path / part / source.name / file.name).symlink_to(file.resolve())
    return tmp_path


@pytest.mark.slow
@pytest.mark.skipif(CIFAR10 is None, reason="RADIAL_VICREG_CIFAR10 names no folder with CIFAR-10's images")
def test_online_and_offline_linear_probe_agree_within_two_points(cifar10: Path) -> None:
    images = [f"data.train_path={cifar10 / 'train'}", f"data.val_path={cifar10 / 'test'}", "data.format=device"]
    trainer = ["host=standalone", "accelerator=cpu", "precision=32", f"runs_dir={cifar10 / 'runs'}"]
    assert cli.main(["pretrain", "radialvicreg/dataset=folder", *images, *trainer, *SETTINGS]) == 0
    (folder,) = (path.parent for path in cifar10.glob("runs/*/*/results.json"))
    assert cli.main(["probe", str(folder), "--probe", "linear", "--add-to-results"]) == 0
    probes = json.loads((folder / "results.json").read_text())["probes"]
    online, offline = (probes[name]["top1"] for name in ("online_linear", "offline_linear_encoder"))
    print(f"online {online:.2f} %, offline {offline:.2f} %")
    assert min(online, offline) > 30  # chance is 10
    assert abs(online - offline) < 2
