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
from helpers import composed, only_run, read_results, tiny_settings, write_images
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from radial_vicreg import cli
from radial_vicreg.compose import run_config
from radial_vicreg.config import RunConfig
from radial_vicreg.data import decoded, loader
from radial_vicreg.data.build import open_data
from radial_vicreg.data.device_sets import DeviceTrainingSet
from radial_vicreg.data.formats import memory_option
from radial_vicreg.data.loader import build_train_loader, build_training_set, build_val_loader, faster_loading
from radial_vicreg.errors import UserError
from radial_vicreg.runs.identity import config_hash
from radial_vicreg.train.callbacks.checkpointing import RunCheckpoint
from radial_vicreg.train.callbacks.cost import StepCost
from radial_vicreg.train.callbacks.epoch_seed import EpochSeed
from radial_vicreg.train.callbacks.resumed import FreshBatches

MakeConfig = Callable[..., RunConfig]
OPTIONS = ["data.format=device", "data.cache=ram"]


# ---- order ----


class Batches(pl.LightningModule):
    """Keeps the batches that Lightning trains it on, by epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.epochs: dict[int, list[Any]] = {}

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        self.epochs.setdefault(self.current_epoch, []).append(batch)
        return 0.0 * self.weight

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def lightning_batches(
    config: RunConfig, loader: DataLoader[Any], epochs: int = 1, folder: Path | None = None, ckpt: Path | None = None
) -> dict[int, list[Any]]:
    """The batches of each epoch as a run gets them: from Lightning, with the callbacks that have a say in it.

    Args:
        config: its seed counts.
        loader: the training set's.
        epochs: train until so many are done.
        folder: where a checkpoint of each epoch goes.
        ckpt: resume from this one.
    """
    quiet: dict[str, Any] = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
    trainer = pl.Trainer(accelerator="cpu", max_epochs=epochs, enable_checkpointing=False, **quiet)
    callbacks = [
        EpochSeed(config.seed),
        FreshBatches(),
        *([] if folder is None else [RunCheckpoint(folder, keep_all=True)]),
    ]
    trainer.callbacks.extend(callbacks)  # type: ignore[attr-defined]
    model = Batches()
    pl.seed_everything(config.seed, workers=True, verbose=False)
    trainer.fit(model, loader, ckpt_path=ckpt)
    return model.epochs


class Noise(Dataset):
    """Twenty samples with a random number each, as an augmentation would draw one."""

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> tuple[int, torch.Tensor]:
        return index, torch.rand(())


def noise_config(**overrides: Any) -> RunConfig:
    return make_config(data__train_path="somewhere", **overrides)


def noise_loader(**overrides: Any) -> DataLoader[Any]:
    return build_train_loader(noise_config(**overrides), Noise())


@pytest.mark.parametrize("workers", [0, 2])
def test_an_epoch_is_the_same_whatever_ran_before_it(workers: int, tmp_path: Path) -> None:
    config = noise_config(data__num_workers=workers)

    def epochs(**how: Any) -> dict[int, list[list[torch.Tensor]]]:
        return lightning_batches(config, build_train_loader(config, Noise()), epochs=3, **how)

    whole = epochs(folder=tmp_path)
    resumed = epochs(ckpt=tmp_path / "epoch-1.ckpt")
    assert sorted(resumed) == [1, 2]
    for number in resumed:
        order, noise = (torch.cat(part) for part in zip(*whole[number], strict=True))
        again, again_noise = (torch.cat(part) for part in zip(*resumed[number], strict=True))
        assert sorted(order.tolist()) == list(range(20))
        assert torch.equal(again, order)
        assert torch.equal(again_noise, noise)


def test_another_seed_gives_another_order() -> None:
    orders = [torch.cat([batch[0] for batch in noise_loader(seed=seed)]).tolist() for seed in (3, 4)]
    assert orders[0] != orders[1]


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


def batches_of(config: RunConfig, epochs: int = 1, **how: Any) -> dict[int, list[Any]]:
    return lightning_batches(config, train_loader(config), epochs, **how)


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
    read = batches_of(folder_config(**settings))
    assert_same_batches(batches_of(folder_config(**settings, data__cache="ram"))[0], read[0])


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


def test_an_epoch_on_the_device_depends_on_seed_and_epoch_alone(device_config: MakeConfig, tmp_path: Path) -> None:
    config = device_config()
    whole = batches_of(config, epochs=2, folder=tmp_path / "checkpoints")[1]
    assert_same_batches(batches_of(config, epochs=2, ckpt=tmp_path / "checkpoints" / "epoch-1.ckpt")[1], whole)
    indexes = torch.cat([batch[0] for batch in whole])
    assert sorted(indexes.tolist()) == list(range(20))
    images: Any = open_data(config).train_images
    assert torch.cat([batch[2] for batch in whole]).tolist() == [images[int(i)][1] for i in indexes]


def test_images_of_several_sizes_do_not_go_to_the_device(folder_config: MakeConfig) -> None:
    config = folder_config(data__format="device")
    with pytest.raises(UserError, match=r"data.format=device needs images of one size"):
        build_training_set(config, open_data(config))


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ("devise", r"data.format must be one of image_folder, device, got 'devise'; did you mean device\?"),
        ("h5", r"data.format=h5 is read by solo-learn's main_pretrain.py only; use data.format=image_folder or device"),
        ("dali", r"data.format=dali is read by solo-learn's main_pretrain.py"),
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


# ---- a faster setting ----


@pytest.mark.parametrize(
    ("changes", "setting"),
    [
        ({}, "data.format=device keeps"),
        ({"host": "solo"}, "data.format=device host=standalone keeps"),
        ({"data__cache": "ram"}, "data.format=device keeps"),
        ({"data__format": "device"}, None),
    ],
)
def test_images_of_one_size_are_faster_on_the_device(
    device_config: MakeConfig, changes: dict[str, str], setting: str | None
) -> None:
    config = device_config(**{"data__format": "image_folder"} | changes)
    advice = faster_loading(config, open_data(config))
    assert advice is None if setting is None else advice is not None and advice.startswith(setting)


@pytest.mark.parametrize(
    ("workers", "cache", "cores", "setting"),
    [(1, "none", 2, "data.num_workers=2,"), (2, "none", 2, "data.cache=ram decodes"), (2, "ram", 2, None)],
)
def test_images_of_several_sizes_get_a_worker_for_each_core_and_then_memory(
    folder_config: MakeConfig,
    monkeypatch: pytest.MonkeyPatch,
    workers: int,
    cache: str,
    cores: int,
    setting: str | None,
) -> None:
    monkeypatch.setattr(loader, "usable_cores", lambda: cores)
    config = folder_config(data__num_workers=workers, data__cache=cache)
    advice = faster_loading(config, open_data(config))
    assert advice is None if setting is None else advice is not None and advice.startswith(setting)


def test_more_workers_than_cores_are_reported_once_and_kept(
    tiny_overrides: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(loader, "usable_cores", lambda: 1)
    line = "note: data.num_workers=2 on 1 core: data.num_workers=1 usually loads as fast, and is the same experiment"
    arguments = ["pretrain", "--check", *tiny_overrides, "host=standalone"]
    for workers, times in (1, 0), (2, 1):
        assert cli.main([*arguments, f"data.num_workers={workers}"]) == 0
        assert capfd.readouterr().out.splitlines().count(line) == times


def test_images_that_do_not_fit_into_memory_stay_on_the_disk(
    device_config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoded, "free_memory", lambda: 1000)
    config = device_config(data__format="image_folder", data__num_workers=10**3)
    assert faster_loading(config, open_data(config)) is None


def test_images_that_do_not_fit_onto_the_gpu_are_not_kept_there(device_config: MakeConfig) -> None:
    images = open_data(device_config()).train_images
    pixels = len(images) * 32 * 32 * 3
    assert decoded.can_keep(images, same_size=True, copies=2, on_device=2 * pixels)
    assert not decoded.can_keep(images, same_size=True, copies=2, on_device=pixels)  # none would be left


class Waiting(StepCost):
    """Steps of which so much was spent on waiting."""

    steps, image_wait_share = 20, 0.5


def test_a_run_that_waits_for_its_images_says_once_what_is_faster(
    pretrain_overrides: list[str],
    add_callback: Callable[[pl.Callback], None],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    add_callback(Waiting())
    assert cli.main(["pretrain", *pretrain_overrides, "max_epochs=2"]) == 0
    out = capsys.readouterr().out
    assert out.count("50% of the steps' time is spent on waiting for images; data.format=device keeps them") == 1
    share = read_results(only_run(tmp_path / "runs"))["cost"]["image_wait_share"]
    assert f"waiting for images: {100 * share:.0f} % of the steps' time" in out


# ---- radial-vicreg pretrain ----


@pytest.fixture
def pretrain_overrides(device_config: MakeConfig, tmp_path: Path) -> list[str]:
    data = device_config().data
    return [
        *("radialvicreg/dataset=folder", f"data.train_path={data.train_path}", f"data.val_path={data.val_path}"),
        *("data.num_workers=0", "method_kwargs.proj_hidden_dim=16", "method_kwargs.proj_output_dim=16"),
        *("optimizer.batch_size=8", "scheduler.warmup_epochs=1", "accelerator=cpu", "precision=32"),
        f"runs_dir={tmp_path / 'runs'}",
    ]


class Views(pl.Callback):
    """Keeps order and views of every epoch of a run."""

    def __init__(self) -> None:
        self.order: dict[int, list[int]] = {}
        self.views: dict[int, list[torch.Tensor]] = {}

    def on_train_batch_start(self, trainer: pl.Trainer, _: Any, batch: Any, batch_idx: int) -> None:
        self.order.setdefault(trainer.current_epoch, []).extend(batch[0].tolist())
        self.views.setdefault(trainer.current_epoch, []).append(torch.stack(batch[1]).transpose(0, 1))


@pytest.mark.parametrize("settings", [["data.num_workers=2"], ["data.num_workers=0"], ["data.format=device"]], ids=str)
def test_order_and_crops_differ_between_epochs(
    settings: list[str], tmp_path: Path, add_callback: Callable[[pl.Callback], None]
) -> None:
    """All images are the same one: other crops can only come from other random numbers, whatever the order is."""
    train = write_images(tmp_path / "train", classes=1, per_class=1)
    for index in range(1, 16):
        shutil.copy(train / "class_0" / "0.png", train / "class_0" / f"{index}.png")
    quick = ["data.val_path=null", "diagnostics.enabled=false", "host=standalone"]
    add_callback(views := Views())
    assert cli.main(["pretrain", *tiny_settings(train, train, tmp_path), *quick, *settings]) == 0
    assert sorted(views.order) == [0, 1]
    assert sorted(views.order[0]) == sorted(views.order[1]) == list(range(16))
    assert views.order[0] != views.order[1]
    first, second = (torch.cat(views.views[number]).flatten(1) for number in (0, 1))
    assert (first != second).any(dim=1).all()


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


@pytest.mark.slow
def test_a_run_on_the_device_leaves_all_a_run_leaves(pretrain_overrides: list[str], tmp_path: Path) -> None:
    settings = ["data.format=device", "max_epochs=1", "probes.frozen_linear=true"]
    assert cli.main(["pretrain", *pretrain_overrides, *settings]) == 0
    found = results(tmp_path)
    assert (found["status"], found["host"], found["steps"]) == ("finished", "standalone", 2)
    assert found["config"]["data"]["format"] == "device"
    assert found["radii"]["images"] == "validation"
    assert found["probes"]["frozen_linear"]["trained"]["top1"] >= 0


def test_images_that_are_kept_are_no_part_of_the_hash_and_other_random_crops_are(
    pretrain_overrides: list[str],
) -> None:
    files, ram, device = (
        config_hash(run_config(composed("radialvicreg", *pretrain_overrides, *option)).plain())
        for option in ([], ["data.cache=ram"], ["data.format=device"])
    )
    assert files == ram != device
