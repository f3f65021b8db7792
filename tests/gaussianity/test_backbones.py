"""Backbones of timm and torchvision by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.error import URLError

import pytest
import torch
import torchvision
from helpers import one_line
from PIL import Image

from radial_vicreg.cli import main
from radial_vicreg.gaussianity.backbones import _remove_head, build_named


@pytest.mark.parametrize(
    ("source", "dim"), [("timm:mobilenetv3_small_050", 1024), ("torchvision:mobilenet_v3_small", 1024)]
)
def test_a_library_s_backbone_gives_features_alone(
    source: str, dim: int, diagnosed: Callable, image_folder: Callable
) -> None:
    images = image_folder("images", classes=1, per_class=4)
    (found,) = diagnosed(source, "--images", images, "--no-pretrained")["sources"]
    assert set(found["outputs"]) == {"encoder"}
    assert (found["outputs"]["encoder"]["count"], found["outputs"]["encoder"]["dim"]) == (4, dim)
    assert found["label"] == source
    assert found["details"]["weights"] == "random, seed 0"


@pytest.mark.parametrize(("name", "dim"), [("vgg11", 4096), ("vit_b_16", 768), ("swin_t", 768)])
def test_the_head_is_removed_wherever_torchvision_puts_it(name: str, dim: int) -> None:
    with torch.device("meta"):
        model = torchvision.models.get_model(name, weights=None).eval()
        _remove_head(model, name)
        assert model(torch.zeros(1, 3, 224, 224)).shape == (1, dim)


@pytest.mark.parametrize("library", ["timm", "torchvision"])
def test_random_weights_are_the_seed_s_and_leave_the_generator_alone(library: str) -> None:
    state = torch.get_rng_state()
    first, transform = build_named(library, "resnet18", pretrained=False, seed=3)
    again, _ = build_named(library, "resnet18", pretrained=False, seed=3)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first.conv1.weight, again.conv1.weight)
    assert transform(Image.new("RGB", (4000, 2))).shape == (3, 224, 224)
    assert not first.training


def test_weights_that_cannot_be_downloaded_are_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise URLError("no network")

    monkeypatch.setattr("timm.create_model", refuse)
    assert main(["diagnose", "timm:resnet18", "--images", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    one_line(error, "the weights of timm:resnet18 cannot be downloaded", "no network", "--no-pretrained")
