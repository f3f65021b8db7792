"""Training and validation sets that are kept in memory."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from PIL import Image

from radial_vicreg import cli
from radial_vicreg.data import datasets as files
from radial_vicreg.data import opening as memory
from radial_vicreg.data.device import DeviceTrainingSet
from radial_vicreg.data.loader import build_train_loader
from radial_vicreg.train.epoch_seed import EpochSeed


@pytest.fixture
def folder_cfg(make_cfg: Any, image_folder: Path) -> Any:
    """Images of several sizes: for `data.cache=ram`."""
    paths = {"data__train_path": str(image_folder / "train"), "data__val_path": str(image_folder / "val")}
    return make_cfg(**paths, seed=3)


@pytest.fixture
def device_cfg(folder_cfg: Any, tmp_path: Path) -> Any:
    """The same images, all of 32 x 32 pixels: for `data.format=device`."""
    for path in Path(folder_cfg.data.train_path).glob("*/*.jpg"):
        target = tmp_path / "train" / path.parent.name / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        with Image.open(path) as image:
            image.resize((32, 32)).save(target)
    folder_cfg.data.train_path, folder_cfg.data.format = str(tmp_path / "train"), "device"
    return folder_cfg


def epoch(cfg: Any, loader: Any, number: int) -> list[list[Any]]:
    """One epoch as Lightning runs it: the sampler hears of it, then the callbacks."""
    loader.sampler.set_epoch(number)
    trainer = pl.Trainer(logger=False, enable_checkpointing=False, accelerator="cpu", max_epochs=1)
    trainer.fit_loop.epoch_progress.current.completed = trainer.fit_loop.epoch_progress.current.processed = number
    EpochSeed(cfg.seed).on_train_epoch_start(trainer, pl.LightningModule())
    return list(loader)


def assert_same_batches(left: list[list[Any]], right: list[list[Any]]) -> None:
    assert len(left) == len(right) > 0
    for ours, theirs in zip(left, right, strict=True):
        flat = [[batch[0], *batch[1], batch[2]] if len(batch) == 3 else batch for batch in (ours, theirs)]
        assert all(torch.equal(a, b) for a, b in zip(*flat, strict=True))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("fraction", [-1, 0.6])
def test_cached_crops_equal_those_of_the_files_bit_for_bit(folder_cfg: Any, workers: int, fraction: float) -> None:
    folder_cfg.data.num_workers, folder_cfg.data.fraction = workers, fraction
    read = epoch(folder_cfg, build_train_loader(folder_cfg, memory.build_train_dataset(folder_cfg)), 1)
    folder_cfg.data.cache = "ram"
    cached = epoch(folder_cfg, build_train_loader(folder_cfg, memory.build_train_dataset(folder_cfg)), 1)
    assert_same_batches(cached, read)


@pytest.mark.parametrize("crop_size", [32, 64])
def test_cached_validation_images_equal_those_of_the_files(folder_cfg: Any, crop_size: int) -> None:
    folder_cfg.augmentations[0].crop_size = crop_size
    read = list(memory.build_val_loader(folder_cfg))  # type: ignore[arg-type]
    folder_cfg.data.cache = "ram"
    assert_same_batches(list(memory.build_val_loader(folder_cfg)), read)  # type: ignore[arg-type]


def test_unlabelled_images_are_cached_too(make_cfg: Any, image_folder: Path) -> None:
    cfg = make_cfg(data__train_path=str(image_folder / "train" / "cat"), data__no_labels=True, data__cache="ram")
    assert [memory.build_train_dataset(cfg)[index][2] for index in range(8)] == [-1] * 8  # type: ignore[index]
    assert memory.build_val_loader(cfg) is None


def test_validation_on_the_device_equals_that_of_the_files(device_cfg: Any) -> None:
    on_device = list(memory.build_val_loader(device_cfg))  # type: ignore[arg-type]
    device_cfg.data.format = "image_folder"
    for ours, theirs in zip(on_device, files.build_val_loader(device_cfg), strict=True):  # type: ignore[arg-type]
        assert torch.allclose(ours[0], theirs[0], atol=1e-6)
        assert torch.equal(ours[1], theirs[1])


def test_an_epoch_on_the_device_depends_on_seed_and_epoch_alone(device_cfg: Any) -> None:
    def make() -> Any:
        return build_train_loader(device_cfg, memory.build_train_dataset(device_cfg))

    through = make()
    first, second = epoch(device_cfg, through, 0), epoch(device_cfg, through, 1)
    assert_same_batches(epoch(device_cfg, make(), 1), second)
    assert not torch.equal(first[0][1][0], second[0][1][0])
    indexes = torch.cat([batch[0] for batch in second])
    assert sorted(indexes.tolist()) == list(range(20))
    plain = files.build_train_dataset(device_cfg)
    assert torch.cat([batch[2] for batch in second]).tolist() == [plain[int(i)][2] for i in indexes]


def test_images_of_several_sizes_do_not_go_to_the_device(folder_cfg: Any) -> None:
    folder_cfg.data.format = "device"
    with pytest.raises(ValueError, match=r"data.format=device needs images of one size"):
        memory.build_train_dataset(folder_cfg)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"data__cache": "rma"}, r"data.cache must be one of none, ram, got 'rma'; did you mean ram\?"),
        ({"data__format": "devise"}, r"data.format must be one of image_folder, device, got 'devise'.*device\?"),
        ({"data__format": "h5"}, r"data.format must be one of image_folder, device, got 'h5'"),
        ({"data__format": "dali"}, r"data.format=dali is run by solo-learn's main_pretrain.py"),
    ],
)
def test_unknown_values_are_refused_with_the_nearest(make_cfg: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        memory.memory_option(make_cfg(**settings))


@pytest.mark.parametrize("cache", [None, "none"])
def test_nothing_is_kept_by_default(folder_cfg: Any, cache: str | None) -> None:
    folder_cfg.data.cache = cache
    assert memory.memory_option(folder_cfg) is None
    assert not isinstance(memory.build_train_dataset(folder_cfg), DeviceTrainingSet)


# ---- radial-vicreg pretrain ----


@pytest.fixture
def pretrain_overrides(device_cfg: Any, tmp_path: Path) -> list[str]:
    return [
        "shared/dataset=folder",
        f"data.train_path={device_cfg.data.train_path}",
        f"data.val_path={device_cfg.data.val_path}",
        "data.num_workers=0",
        "method_kwargs.proj_hidden_dim=16",
        "method_kwargs.proj_output_dim=16",
        "optimizer.batch_size=8",
        "scheduler.warmup_epochs=1",
        "accelerator=cpu",
        "precision=32",
        f"runs_dir={tmp_path / 'runs'}",
    ]


def results(tmp_path: Path) -> dict[str, Any]:
    (path,) = tmp_path.glob("runs/*/*/results.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.mark.parametrize("option", ["data.format=device", "data.cache=ram"])
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
@pytest.mark.parametrize("option", ["data.format=device", "data.cache=ram"])
def test_a_resumed_run_ends_with_the_weights_of_an_uninterrupted_one(
    pretrain_overrides: list[str], tmp_path: Path, option: str
) -> None:
    settings = [*pretrain_overrides, option, "max_epochs=3", "data.val_path=null", "diagnostics.every_n_epochs=1"]

    def weights() -> dict[str, Any]:
        (path,) = tmp_path.glob("runs/*/*/checkpoints/epoch-3.ckpt")
        return torch.load(path, weights_only=True)["state_dict"]  # type: ignore[no-any-return]

    assert cli.main(["pretrain", *settings]) == 0
    expected, (folder,) = weights(), tmp_path.glob("runs/*/*")
    second = next(folder.glob("checkpoints/epoch-2.ckpt"))
    (folder / "checkpoints" / "epoch-3.ckpt").unlink()
    assert cli.main(["pretrain", *settings, f"ckpt={second}"]) == 0
    found = weights()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], value) for name, value in expected.items() if isinstance(value, torch.Tensor))
    assert results(tmp_path)["radii"]["images"] == "training, augmented"
    shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.parametrize("option", ["data.format=device", "data.cache=ram"])
def test_two_processes_share_the_images(
    pretrain_overrides: list[str], tmp_path: Path, run_python: Callable[..., Any], option: str
) -> None:
    settings = [option, "host=standalone", "devices=2", "strategy=ddp", "optimizer.batch_size=4", "max_epochs=1"]
    done = run_python("-m", "radial_vicreg.cli", "pretrain", *pretrain_overrides, *settings)
    assert done.returncode == 0, done.stderr[-2000:]
    assert (results(tmp_path)["status"], results(tmp_path)["steps"]) == ("finished", 2)


def test_where_images_are_kept_is_no_part_of_the_hash(pretrain_overrides: list[str]) -> None:
    from omegaconf import OmegaConf

    from radial_vicreg.compose import compose
    from radial_vicreg.identity import config_hash

    hashes = {
        config_hash(OmegaConf.to_container(compose("radialvicreg", [*pretrain_overrides, *option]), resolve=True))  # type: ignore[arg-type]
        for option in ([], ["data.format=device"], ["data.cache=ram"])
    }
    assert len(hashes) == 1
