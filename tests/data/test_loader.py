"""The loaders of a run, and images that are kept in memory."""

from __future__ import annotations

import errno
import os
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from configs import make_config
from helpers import one_line, only_run, read_results, tiny_settings, write_images
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from radial_vicreg import cli
from radial_vicreg.config import RunConfig
from radial_vicreg.data import batches as batches_module
from radial_vicreg.data import decoded, loader
from radial_vicreg.data.batches import collate
from radial_vicreg.data.build import open_data
from radial_vicreg.data.errors import (
    LoaderResourceError,
    UnequalShapesError,
    resource_problem,
    resources_named,
)
from radial_vicreg.data.image import open_image, unreadable_images
from radial_vicreg.data.loader import build_train_loader, build_training_set, build_val_loader, faster_loading
from radial_vicreg.errors import UserError
from radial_vicreg.runs.identity import config_hash
from radial_vicreg.train.callbacks.checkpointing import RunCheckpoint
from radial_vicreg.train.callbacks.cost import StepCost
from radial_vicreg.train.callbacks.epoch_seed import EpochSeed
from radial_vicreg.train.callbacks.resumed import FreshBatches

MakeConfig = Callable[..., RunConfig]


@pytest.fixture
def folder_config(noise_folder: Path) -> MakeConfig:
    """Twenty images of several sizes."""
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
    return list(build_val_loader(config, open_data(config)) or [])


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


def batches_of(
    config: RunConfig, epochs: int = 1, folder: Path | None = None, ckpt: Path | None = None
) -> dict[int, list[Any]]:
    """The batches of each epoch as a run gets them: from Lightning, with the callbacks that have a say in it.

    Args:
        config: its seed and images count.
        epochs: train until so many are done.
        folder: where a checkpoint of each epoch goes.
        ckpt: resume from this one.
    """
    quiet: dict[str, Any] = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
    trainer = pl.Trainer(accelerator="cpu", max_epochs=epochs, enable_checkpointing=False, **quiet)
    kept = [] if folder is None else [RunCheckpoint(folder, keep_all=True)]
    trainer.callbacks.extend([EpochSeed(config.seed), FreshBatches(), *kept])  # type: ignore[attr-defined]
    model = Batches()
    pl.seed_everything(config.seed, workers=True, verbose=False)
    trainer.fit(model, train_loader(config), ckpt_path=ckpt)
    return model.epochs


def order_of(batches: list[Any]) -> list[int]:
    return [int(index) for batch in batches for index in batch[0]]


def assert_same_batches(left: list[Any], right: list[Any]) -> None:
    assert len(left) == len(right) > 0
    for ours, theirs in zip(left, right, strict=True):
        flat = [[batch[0], *batch[1], batch[2]] if len(batch) == 3 else batch for batch in (ours, theirs)]
        assert all(torch.equal(a, b) for a, b in zip(*flat, strict=True))


# ---- order ----


@pytest.mark.parametrize(
    "how", [{}, {"data__format": "device"}, pytest.param({"data__num_workers": 2}, marks=pytest.mark.slow)], ids=str
)
def test_an_epoch_depends_on_its_seed_and_number_alone(
    how: dict[str, Any], device_config: MakeConfig, tmp_path: Path
) -> None:
    config = device_config(**{"data__format": "image_folder", **how})
    whole = batches_of(config, epochs=2, folder=tmp_path / "checkpoints")[1]
    resumed = batches_of(config, epochs=2, ckpt=tmp_path / "checkpoints" / "epoch-1.ckpt")
    assert sorted(resumed) == [1]
    assert_same_batches(resumed[1], whole)
    assert sorted(order_of(whole)) == list(range(20))
    images: Any = open_data(config).train_images
    assert torch.cat([batch[2] for batch in whole]).tolist() == [images.targets[index] for index in order_of(whole)]


def test_another_seed_gives_another_order_and_an_incomplete_last_batch_is_dropped(folder_config: MakeConfig) -> None:
    orders = [order_of(list(train_loader(folder_config(seed=seed, optimizer__batch_size=8)))) for seed in (3, 4)]
    assert orders[0] != orders[1]
    assert len(orders[0]) == 16


def test_the_training_set_must_hold_a_batch_per_process(folder_config: MakeConfig) -> None:
    for batch_size, devices, fits in ((20, 1, True), (21, 1, False), (7, 3, True), (8, 3, False)):
        config = folder_config(optimizer__batch_size=batch_size, devices=list(range(devices)))
        if fits:
            assert train_loader(config).batch_size == batch_size
            continue
        said = rf"data.train_path=.*train has 20 images.*batch of {batch_size} .*{devices} proc"
        with pytest.raises(UserError, match=said):
            train_loader(config)


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


# ---- images in memory ----


@pytest.mark.parametrize("settings", [{"data__num_workers": 2}, {"data__fraction": 0.6}, {"data__no_labels": True}])
def test_cached_images_equal_those_of_the_files_bit_for_bit(
    folder_config: MakeConfig, noise_folder: Path, settings: dict[str, Any]
) -> None:
    if "data__no_labels" in settings:
        settings = {**settings, "data__train_path": str(noise_folder / "train" / "cat")}
    read, kept = folder_config(**settings), folder_config(**settings, data__cache="ram")
    assert_same_batches(batches_of(kept)[0], batches_of(read)[0])
    if "data__no_labels" in settings:
        assert val_batches(kept) == []
    else:
        assert_same_batches(val_batches(kept), val_batches(read))


def test_validation_on_the_device_equals_that_of_the_files(device_config: MakeConfig) -> None:
    on_device, read = val_batches(device_config()), val_batches(device_config(data__format="image_folder"))
    for ours, theirs in zip(on_device, read, strict=True):
        assert torch.allclose(ours[0], theirs[0], atol=1e-6)
        assert torch.equal(ours[1], theirs[1])


def test_images_in_memory_need_our_host_and_only_other_crops_are_another_experiment(
    tiny_overrides: list[str], folder_config: MakeConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    for option in ("data.format=device", "data.cache=ram"):
        assert cli.main(["pretrain", *tiny_overrides, option, "host=solo"]) == 2
        one_line(capsys.readouterr().err, f"{option} needs host=standalone")
    files, ram, device = (
        config_hash(folder_config(**option).plain())
        for option in ({}, {"data__cache": "ram"}, {"data__format": "device"})
    )
    assert files == ram != device


@pytest.mark.parametrize(("accelerator", "pinned"), [("cpu", False), ("auto", True)])
def test_batches_are_pinned_for_a_gpu_that_trains(
    accelerator: str, pinned: bool, folder_config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    config = folder_config(accelerator=accelerator)
    val_loader = build_val_loader(config, open_data(config))
    assert val_loader is not None
    assert train_loader(config).pin_memory is val_loader.pin_memory is pinned


# ---- a faster setting ----


def assert_faster(config: RunConfig, setting: str) -> None:
    assert (faster_loading(config, open_data(config)) or "nothing").startswith(setting)


def test_images_of_one_size_are_faster_on_the_device_where_they_fit(
    device_config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = partial(device_config, data__format="image_folder")
    assert_faster(files(), "data.format=device keeps")
    assert_faster(files(data__cache="ram"), "data.format=device keeps")
    assert_faster(files(host="solo"), "data.format=device host=standalone keeps")
    assert_faster(device_config(), "nothing")
    images = open_data(files()).train_images
    pixels = len(images) * 32 * 32 * 3
    assert decoded.can_keep(images, same_size=True, copies=2, on_device=2 * pixels)
    assert not decoded.can_keep(images, same_size=True, copies=2, on_device=pixels)  # a GPU would have none left
    monkeypatch.setattr(decoded, "free_memory", lambda: 1000)
    assert_faster(files(data__num_workers=10**3), "nothing")


def test_images_of_several_sizes_get_a_worker_for_each_core_and_then_memory(
    folder_config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "usable_cores", lambda: 2)
    assert_faster(folder_config(data__num_workers=1), "data.num_workers=2, one for each core")
    assert_faster(folder_config(data__num_workers=2), "data.cache=ram decodes")
    assert_faster(folder_config(data__num_workers=2, data__cache="ram"), "nothing")


class Waiting(StepCost):
    """Steps of which so much was spent on waiting."""

    steps, image_wait_share = 20, 0.5


def test_a_run_that_waits_for_its_images_says_once_what_is_faster(
    tiny_overrides: list[str],
    add_callback: Callable[[pl.Callback], None],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    add_callback(Waiting())
    assert cli.main(["pretrain", *tiny_overrides, "host=standalone"]) == 0
    out = capsys.readouterr().out
    assert out.count("50% of the steps' time is spent on waiting for images; data.format=device keeps them") == 1
    share = read_results(only_run(tmp_path / "runs"))["cost"]["image_wait_share"]
    assert f"waiting for images: {100 * share:.0f} % of the steps' time" in out


def test_more_workers_than_cores_are_reported_once(
    tiny_overrides: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(loader, "usable_cores", lambda: 1)
    assert cli.main(["pretrain", "--check", *tiny_overrides, "host=standalone", "data.num_workers=2"]) == 0
    line = "note: data.num_workers=2 on 1 core: data.num_workers=1 usually loads as fast, and is the same experiment"
    assert capfd.readouterr().out.splitlines().count(line) == 1


# ---- what loading says when it fails: causes are found out, not read from a message ----


class Crops(Dataset):
    """Samples as the hosts make them; the images' widths are given."""

    def __init__(self, *widths: int) -> None:
        self.widths = widths

    def __len__(self) -> int:
        return len(self.widths)

    def __getitem__(self, index: int) -> tuple[int, list[torch.Tensor], int]:
        image = torch.full((3, 4, self.widths[index]), float(index))
        return index, [image, image], 1


@contextmanager
def few_files(spare: int) -> Iterator[None]:
    """A process that may open no more than ``spare`` files on top of those that are open."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    probe = os.open(os.devnull, os.O_RDONLY)
    os.close(probe)
    resource.setrlimit(resource.RLIMIT_NOFILE, (probe + spare, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_shapes_are_compared_before_pytorch_does() -> None:
    loader = DataLoader(Crops(5, 5, 7), batch_size=3, num_workers=1, collate_fn=collate)
    said = r"^images of different shapes in one batch \(\[3, 4, 5\] at entry 0 and \[3, 4, 7\] at entry 2\)[^\n]*$"
    with pytest.raises(UnequalShapesError, match=said):
        list(loader)


def test_a_worker_without_shared_memory_says_how_much_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(samples: Any) -> Any:
        raise RuntimeError("words that no version of PyTorch has used so far")

    monkeypatch.setattr(batches_module, "default_collate", full)
    said = r"^a loader's worker could not put .*/dev/shm has [\d,]+ MiB left.*--shm-size"
    with pytest.raises(LoaderResourceError, match=said):
        list(DataLoader(Crops(5, 5), batch_size=2, num_workers=1, collate_fn=collate))
    with pytest.raises(RuntimeError, match="words that"):  # without a worker nothing is shared
        list(DataLoader(Crops(5, 5), batch_size=2, collate_fn=collate))


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EMFILE, "whatever the system calls it"),
        OSError(errno.ENFILE, "likewise"),
        RuntimeError("received 0 items of ancdata"),
    ],
)
def test_too_many_open_files_are_told_by_their_number_also_as_a_cause(error: Exception) -> None:
    outer = RuntimeError("communication is no longer possible")
    outer.__cause__ = error
    for seen in (error, outer):
        assert "ulimit -n" in str(resource_problem(seen))
    assert resource_problem(RuntimeError("another")) is None
    with pytest.raises(LoaderResourceError, match="too many open files"), resources_named():
        raise outer


def test_workers_that_run_out_of_files_are_named() -> None:
    loader = DataLoader(Crops(*[5] * 400), batch_size=2, num_workers=2, collate_fn=collate)
    batches = iter(loader)  # the workers are there before the limit, which they would inherit, and wait for ever
    with few_files(24), pytest.raises(LoaderResourceError, match=r"too many open files \(.*ulimit"), resources_named():
        list(batches)  # every tensor of a worker is a file in this process


def test_a_good_image_is_not_left_out_for_want_of_files(make_folder: Callable[..., Path]) -> None:
    (image,) = (make_folder(a=1) / "a").iterdir()
    open_image(image)  # Pillow's plug-ins are files as well
    with few_files(0):
        with pytest.raises(LoaderResourceError, match="too many open files"):
            open_image(image)
        with pytest.raises(LoaderResourceError, match="too many open files"):
            unreadable_images([image], "skip")
