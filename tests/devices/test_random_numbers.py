"""Random numbers: a resumed run has those of an uninterrupted one, and only ``EpochSeed`` sets them."""

from __future__ import annotations

import ast
import random
import shutil
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from configs import make_config
from helpers import HOSTS_SOLO_SLOW, TINY_VIT, Pretrain, assert_same_run, composed, write_finished_run
from PIL import Image

from radial_vicreg.compose import compose
from radial_vicreg.data.decoded import DecodedImages
from radial_vicreg.data.device_sets import DeviceTrainingSet
from radial_vicreg.gaussianity.backbones import build_named
from radial_vicreg.nets.models import check_backbone
from radial_vicreg.probes.mlp import MLPProbe
from radial_vicreg.runs.loaded import open_run
from radial_vicreg.runtime import random_state
from radial_vicreg.runtime.random_state import own_random_numbers
from radial_vicreg.train import run as train
from radial_vicreg.train.callbacks.epoch_seed import EpochSeed
from radial_vicreg.train.loss import check_objective

STEPS = 2 * 3
#: What draws on the device, by the settings that ask for it, and what draws in a step.
DRAWING = {
    "images, dropout and lejepa": (
        ["data.format=device", "+backbone.kwargs.proj_drop_rate=0.2", "radialvicreg/method=lejepa"],
        3,
    ),
    "drop path and visreg": (
        ["+backbone.kwargs.drop_path_rate=0.5", "backbone.kwargs.depth=2", "radialvicreg/method=visreg"],
        2,
    ),
}


@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=pytest.mark.slow if "path" in what else ()) for what in DRAWING]
)
def test_a_resumed_run_draws_on_the_device_as_an_uninterrupted_one(
    what: str, device: Any, pretrain: Pretrain, tmp_path: Path
) -> None:
    drawing, times = DRAWING[what]
    settings = ["checkpoint.keep_prev=true", "diagnostics.enabled=false", *drawing]
    folder = pretrain(*settings).run
    assert device.draws >= times * STEPS
    expected = shutil.copytree(folder, tmp_path / "whole")
    for name in ("epoch-2.ckpt", "last.ckpt"):
        (folder / "checkpoints" / name).unlink()
    device.generator.manual_seed(99)  # another process begins with another state
    pretrain(*settings, f"ckpt='{folder / 'checkpoints' / 'epoch-1.ckpt'}'")
    assert_same_run(folder, expected)


def drawn(seed: int, epoch: int, rank: int) -> tuple[float, float, float]:
    trainer: Any = SimpleNamespace(current_epoch=epoch, global_rank=rank)
    EpochSeed(seed).on_train_epoch_start(trainer, pl.LightningModule())
    return random.random(), float(np.random.rand()), float(torch.rand(()))


def test_seed_epoch_and_process_alone_decide_the_random_numbers_of_every_generator() -> None:
    places = [(seed, epoch, rank) for seed in (5, 6) for epoch in (0, 2) for rank in (0, 1, 2)]
    found = [drawn(*place) for place in places]
    assert [drawn(*place) for place in places] == found
    apart = [drawn(*place) for place in ((5, 0, 0), (5, 1, 0), (5, 0, 1), (5, 1, 1))]
    for values in zip(*apart, strict=True):
        assert len(set(values)) == len(apart)


#: Whatever changes the state of a GPU's generator.
SETTERS = ("manual_seed", "manual_seed_all", "seed", "seed_all", "set_rng_state", "set_rng_state_all")

#: Around its sanity check of the validation, even where there is none; it sets what it has read before.
LIGHTNING_RESTORES = "seed.py:_set_rng_states"


@pytest.fixture
def setters(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Our functions and Lightning's that have set a GPU's random state, as ``file:function``."""
    callers: list[str] = []

    def note(*_: Any, **__: Any) -> None:
        frames = [frame for frame in reversed(traceback.extract_stack()) if "/torch/" not in frame.filename]
        callers.append(f"{Path(frames[1].filename).name}:{frames[1].name}")

    for name in SETTERS:
        monkeypatch.setattr(torch.cuda, name, note)
    return callers


@pytest.mark.parametrize("host", HOSTS_SOLO_SLOW)
def test_nothing_but_the_seed_of_an_epoch_sets_a_device_s_state(
    host: str, setters: list[str], pretrain: Pretrain, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = train.fit

    def fit(*arguments: Any) -> None:
        setters.clear()  # the seed of the run, before its network was built
        real(*arguments)

    monkeypatch.setattr(train, "fit", fit)
    pretrain(f"host={host}", "probes.frozen_linear=true", "probes.encoder_knn=true", "diagnostics.every_n_epochs=1")
    ours = [caller for caller in setters if caller != LIGHTNING_RESTORES]
    assert ours == ["epoch_seed.py:on_train_epoch_start"] * 2


def _run(tmp_path: Path) -> Path:
    return write_finished_run(tmp_path, compose("radialvicreg", [*TINY_VIT, "data.train_path=x"]))


def test_what_draws_for_itself_leaves_every_state_as_it_was(
    setters: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("radial_vicreg.probes.mlp._FEWEST_STEPS", 2)
    run = write_finished_run(tmp_path, composed("radialvicreg", *TINY_VIT, "data.train_path=x"))
    features, labels = torch.randn(20, 3), torch.arange(20) % 2
    mse = make_config(method="mse", loss={"_target_": "torch.nn.MSELoss"})
    before = torch.get_rng_state()
    open_run(run, untrained=True)
    MLPProbe([1e-2], hidden_dim=4).fit(features, labels)
    build_named("timm", "test_resnet", pretrained=False, seed=1)
    check_backbone(make_config(backbone={"name": "timm:test_vit"}, augmentations__0__crop_size=160))
    check_objective(mse, torch.device("cpu"))
    assert setters == []
    assert torch.equal(torch.get_rng_state(), before)


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> tuple[torch.Generator, torch.Generator]:
    """Stand-ins for the generators of two GPUs; the second one is the process's."""
    generators = torch.Generator().manual_seed(1), torch.Generator().manual_seed(2)
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch.cuda, "default_generators", generators)
    return generators


@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_one_gpu_s_numbers_are_seeded_and_restored_and_no_other_gpu_s(
    name: str, two_gpus: tuple[torch.Generator, torch.Generator]
) -> None:
    other, own = two_gpus
    states = [generator.get_state() for generator in (torch.default_generator, other, own)]
    expected = torch.rand(3, generator=torch.Generator().manual_seed(5))
    with own_random_numbers(5, torch.device(name)):
        assert torch.equal(torch.rand(3), expected)
        assert torch.equal(torch.rand(3, generator=own), expected)
        assert torch.equal(other.get_state(), states[1])
    with own_random_numbers(5):  # no device is named
        assert torch.equal(own.get_state(), states[2])
    for generator, state in zip((torch.default_generator, other, own), states, strict=True):
        assert torch.equal(generator.get_state(), state)


def test_images_on_a_device_move_to_a_gpu_with_its_index(two_gpus: object, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[torch.device] = []

    def free(device: torch.device) -> tuple[int, int]:
        asked.append(device)
        raise MemoryError  # as far as it goes without a GPU

    monkeypatch.setattr(torch.cuda, "mem_get_info", free)
    squares = [(Image.new("RGB", (4, 4)), label) for label in range(2)]
    images = DecodedImages(squares, threads=1, option="data.format=device", same_size=True)
    with pytest.raises(MemoryError):
        DeviceTrainingSet(images, on_gpu=True, pipelines=[], num_crops=[]).collate([0])
    assert [device.index for device in asked] == [1]


def test_no_other_module_seeds_the_generators_that_all_share() -> None:
    package = Path(random_state.__file__).parents[1]
    found = {
        str(file.relative_to(package))
        for file in package.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("torch.manual_seed", "torch.random.fork_rng")
    }
    assert found == {"train/callbacks/epoch_seed.py"}
