"""The loaders of a run, and images that are kept in memory."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from configs import make_config
from helpers import only_run
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from radial_vicreg import cli
from radial_vicreg.compose import compose, run_config
from radial_vicreg.config import RunConfig
from radial_vicreg.data.build import open_data
from radial_vicreg.data.device_sets import DeviceTrainingSet
from radial_vicreg.data.loader import build_train_loader, build_training_set, build_val_loader, memory_option
from radial_vicreg.errors import UserError
from radial_vicreg.identity import config_hash
from radial_vicreg.train.epoch_seed import EpochSeed

MakeConfig = Callable[..., RunConfig]
OPTIONS = ["data.format=device", "data.cache=ram"]


# ---- order ----


class Noise(Dataset):
    """Twenty samples with a random number each, as an augmentation would draw one."""

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> tuple[int, torch.Tensor]:
        return index, torch.rand(())


def noise_loader(**overrides: Any) -> DataLoader[Any]:
    return build_train_loader(make_config(data__train_path="somewhere", **overrides), Noise())


def noise_epoch(loader: Any, number: int) -> tuple[list[int], list[float]]:
    loader.sampler.set_epoch(number)  # as Lightning does
    batches = list(loader)
    indexes = torch.cat([batch[0] for batch in batches]).tolist()
    return indexes, torch.cat([batch[1] for batch in batches]).tolist()


@pytest.mark.parametrize("workers", [0, 2])
def test_an_epoch_is_the_same_whatever_ran_before_it(workers: int) -> None:
    through = noise_loader(data__num_workers=workers)
    first, second = noise_epoch(through, 0), noise_epoch(through, 1)
    again = noise_epoch(noise_loader(data__num_workers=workers), 1)
    assert again[0] == second[0] != first[0]
    assert sorted(second[0]) == list(range(20))
    if workers:  # in the main process the augmentations draw from the global generator, which EpochSeed seeds
        assert again[1] == second[1]


def test_another_seed_gives_another_order() -> None:
    assert noise_epoch(noise_loader(seed=4), 0)[0] != noise_epoch(noise_loader(seed=3), 0)[0]


def test_an_incomplete_last_batch_is_dropped() -> None:
    assert len(noise_loader(optimizer__batch_size=8)) == 2


@pytest.mark.parametrize(
    ("batch_size", "devices", "fits"),
    [(20, [0], True), (21, [0], False), (10, [0, 1], True), (11, [0, 1], False)],
)
def test_the_training_set_must_hold_a_batch_per_process(batch_size: int, devices: list[int], fits: bool) -> None:
    settings = {"optimizer__batch_size": batch_size, "devices": devices}
    if fits:
        assert noise_loader(**settings).batch_size == batch_size
        return
    message = rf"data.train_path=somewhere.*20 images.*batch of {batch_size} .*{len(devices)} proc"
    with pytest.raises(UserError, match=message):
        noise_loader(**settings)


# ---- images in memory ----


@pytest.fixture
def folder_config(noise_folder: Path) -> MakeConfig:
    """Images of several sizes: for `data.cache=ram`."""
    paths = {"data__train_path": str(noise_folder / "train"), "data__val_path": str(noise_folder / "val")}
    return partial(make_config, **paths, seed=3)


@pytest.fixture
def device_config(folder_config: MakeConfig, noise_folder: Path, tmp_path: Path) -> MakeConfig:
    """The same images, all of 32 x 32 pixels: for `data.format=device`."""
    for path in (noise_folder / "train").glob("*/*.jpg"):
        target = tmp_path / "train" / path.parent.name / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        with Image.open(path) as image:
            image.resize((32, 32)).save(target)
    return partial(folder_config, **{"data__train_path": str(tmp_path / "train"), "data__format": "device"})


def train_loader(config: RunConfig) -> DataLoader[Any]:
    return build_train_loader(config, build_training_set(config, open_data(config)))


def val_batches(config: RunConfig) -> list[Any]:
    loader = build_val_loader(config, open_data(config))
    assert loader is not None
    return list(loader)


def epoch(loader: Any, number: int) -> list[list[Any]]:
    """One epoch as Lightning runs it: the sampler hears of it, then the callbacks."""
    loader.sampler.set_epoch(number)
    trainer = pl.Trainer(logger=False, enable_checkpointing=False, accelerator="cpu", max_epochs=1)
    trainer.fit_loop.epoch_progress.current.completed = trainer.fit_loop.epoch_progress.current.processed = number
    EpochSeed(loader.sampler.seed).on_train_epoch_start(trainer, pl.LightningModule())
    return list(loader)


def assert_same_batches(left: list[list[Any]], right: list[list[Any]]) -> None:
    assert len(left) == len(right) > 0
    for ours, theirs in zip(left, right, strict=True):
        flat = [[batch[0], *batch[1], batch[2]] if len(batch) == 3 else batch for batch in (ours, theirs)]
        assert all(torch.equal(a, b) for a, b in zip(*flat, strict=True))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("fraction", [-1, 0.6])
def test_cached_crops_equal_those_of_the_files_bit_for_bit(
    folder_config: MakeConfig, workers: int, fraction: float
) -> None:
    settings = {"data__num_workers": workers, "data__fraction": fraction}
    read = epoch(train_loader(folder_config(**settings)), 1)
    assert_same_batches(epoch(train_loader(folder_config(**settings, data__cache="ram")), 1), read)


@pytest.mark.parametrize("crop_size", [32, 64])
def test_cached_validation_images_equal_those_of_the_files(folder_config: MakeConfig, crop_size: int) -> None:
    size = {"augmentations__0__crop_size": crop_size}
    assert_same_batches(val_batches(folder_config(**size, data__cache="ram")), val_batches(folder_config(**size)))


def test_unlabelled_images_are_cached_too(noise_folder: Path) -> None:
    path = str(noise_folder / "train" / "cat")
    config = make_config(data__train_path=path, data__no_labels=True, data__cache="ram")
    data = open_data(config)
    dataset: Any = build_training_set(config, data)
    assert [dataset[index][2] for index in range(8)] == [-1] * 8
    assert build_val_loader(config, data) is None


def test_validation_on_the_device_equals_that_of_the_files(device_config: MakeConfig) -> None:
    on_device, read = val_batches(device_config()), val_batches(device_config(data__format="image_folder"))
    for ours, theirs in zip(on_device, read, strict=True):
        assert torch.allclose(ours[0], theirs[0], atol=1e-6)
        assert torch.equal(ours[1], theirs[1])


def test_an_epoch_on_the_device_depends_on_seed_and_epoch_alone(device_config: MakeConfig) -> None:
    config = device_config()
    through = train_loader(config)
    first, second = epoch(through, 0), epoch(through, 1)
    assert_same_batches(epoch(train_loader(config), 1), second)
    assert not torch.equal(first[0][1][0], second[0][1][0])
    indexes = torch.cat([batch[0] for batch in second])
    assert sorted(indexes.tolist()) == list(range(20))
    images: Any = open_data(config).train_images
    assert torch.cat([batch[2] for batch in second]).tolist() == [images[int(i)][1] for i in indexes]


def test_images_of_several_sizes_do_not_go_to_the_device(folder_config: MakeConfig) -> None:
    config = folder_config(data__format="device")
    with pytest.raises(UserError, match=r"data.format=device needs images of one size"):
        build_training_set(config, open_data(config))


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ("devise", r"data.format must be one of image_folder, device, got 'devise'; did you mean device\?"),
        ("h5", r"data.format must be one of image_folder, device, got 'h5'"),
        ("dali", r"data.format=dali is run by solo-learn's main_pretrain.py"),
    ],
)
def test_unknown_formats_are_refused_with_the_nearest(layout: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        memory_option(make_config(data__format=layout))


@pytest.mark.parametrize("settings", [{}, {"data__cache": None}, {"data__cache": "none"}])
def test_nothing_is_kept_by_default(folder_config: MakeConfig, settings: dict[str, Any]) -> None:
    config = folder_config(**settings)
    assert memory_option(config) is None
    assert not isinstance(build_training_set(config, open_data(config)), DeviceTrainingSet)


@pytest.mark.parametrize(("accelerator", "pinned"), [("cpu", False), ("auto", True)])
def test_batches_are_pinned_for_a_gpu_that_trains(
    accelerator: str, pinned: bool, folder_config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    config = folder_config(accelerator=accelerator)
    assert train_loader(config).pin_memory is pinned
    val_loader = build_val_loader(config, open_data(config))
    assert val_loader is not None
    assert val_loader.pin_memory is pinned


# ---- radial-vicreg pretrain ----


@pytest.fixture
def pretrain_overrides(device_config: MakeConfig, tmp_path: Path) -> list[str]:
    data = device_config().data
    return [
        *("shared/dataset=folder", f"data.train_path={data.train_path}", f"data.val_path={data.val_path}"),
        *("data.num_workers=0", "method_kwargs.proj_hidden_dim=16", "method_kwargs.proj_output_dim=16"),
        *("optimizer.batch_size=8", "scheduler.warmup_epochs=1", "accelerator=cpu", "precision=32"),
        f"runs_dir={tmp_path / 'runs'}",
    ]


def results(tmp_path: Path) -> dict[str, Any]:
    (path,) = tmp_path.glob("runs/*/*/results.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.mark.parametrize("option", OPTIONS)
def test_another_host_than_standalone_is_refused(
    pretrain_overrides: list[str], capsys: pytest.CaptureFixture[str], option: str
) -> None:
    assert cli.main(["pretrain", *pretrain_overrides, option, "host=solo"]) == 2
    assert f"{option} needs host=standalone" in capsys.readouterr().err


def test_a_run_on_the_device_leaves_all_a_run_leaves(pretrain_overrides: list[str], tmp_path: Path) -> None:
    settings = ["data.format=device", "max_epochs=1", "probes.frozen_linear=true"]
    assert cli.main(["pretrain", *pretrain_overrides, *settings]) == 0
    found = results(tmp_path)
    assert (found["status"], found["host"], found["steps"]) == ("finished", "standalone", 2)
    assert found["config"]["data"]["format"] == "device"
    assert found["radii"]["images"] == "validation"
    assert found["probes"]["frozen_linear"]["trained"]["top1"] >= 0


@pytest.mark.slow
@pytest.mark.resume
@pytest.mark.parametrize("option", OPTIONS)
def test_a_resumed_run_ends_with_the_weights_of_an_uninterrupted_one(
    pretrain_overrides: list[str], tmp_path: Path, option: str
) -> None:
    settings = [*pretrain_overrides, option, "max_epochs=3", "data.val_path=null", "diagnostics.every_n_epochs=1"]

    def weights() -> dict[str, Any]:
        (path,) = tmp_path.glob("runs/*/*/checkpoints/epoch-3.ckpt")
        return torch.load(path, weights_only=True)["state_dict"]  # type: ignore[no-any-return]

    assert cli.main(["pretrain", *settings]) == 0
    expected, folder = weights(), only_run(tmp_path / "runs")
    second = next(folder.glob("checkpoints/epoch-2.ckpt"))
    (folder / "checkpoints" / "epoch-3.ckpt").unlink()
    assert cli.main(["pretrain", *settings, f"ckpt={second}"]) == 0
    found = weights()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], value) for name, value in expected.items() if isinstance(value, torch.Tensor))
    assert results(tmp_path)["radii"]["images"] == "training, augmented"
    shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.parametrize("option", OPTIONS)
def test_two_processes_share_the_images(
    pretrain_overrides: list[str], tmp_path: Path, run_python: Callable[..., Any], option: str
) -> None:
    settings = [option, "host=standalone", "devices=2", "strategy=ddp", "optimizer.batch_size=4", "max_epochs=1"]
    done = run_python("-m", "radial_vicreg.cli", "pretrain", *pretrain_overrides, *settings)
    assert done.returncode == 0, done.stderr[-2000:]
    assert (results(tmp_path)["status"], results(tmp_path)["steps"]) == ("finished", 2)


def test_where_images_are_kept_is_no_part_of_the_hash(pretrain_overrides: list[str]) -> None:
    hashes = {
        config_hash(run_config(compose("radialvicreg", [*pretrain_overrides, *option])).plain())
        for option in ([], *([item] for item in OPTIONS))
    }
    assert len(hashes) == 1
