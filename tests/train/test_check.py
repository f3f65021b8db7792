"""``radial-vicreg pretrain --check`` says what a run would be, and leaves nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
from helpers import HOSTS_SOLO_SLOW, Pretrain, one_line
from PIL import Image

from radial_vicreg.train import check as train_check


@pytest.fixture
def check(pretrain: Pretrain) -> Pretrain:
    return partial(pretrain, "--check")


def files(folder: Path) -> dict[Path, int]:
    return {path: path.lstat().st_mtime_ns for path in folder.rglob("*")}


@pytest.mark.parametrize("host", HOSTS_SOLO_SLOW)
def test_a_check_tells_steps_epochs_and_folder_and_writes_nothing(host: str, check: Pretrain, tmp_path: Path) -> None:
    before = files(tmp_path)
    said = check(f"host={host}").stdout
    assert f"host: {host}" in said
    assert re.search(rf"^run folder: {tmp_path}/runs/radialvicreg-custom-vit_tiny-d16-\w{{12}}/TIME$", said, re.M)
    assert "\nimages: 24 for training, 12 for validation\n" in said
    assert "\nsteps: 6 (2 epochs of 3), global batch 8, optimizer.lr 0.3 scaled to 0.009375\n" in said
    assert said.endswith("check finished: nothing was started or written\n")
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    ("overrides", "steps"),
    [
        (["accumulate_grad_batches=2"], "4 (2 epochs of 2), global batch 8, 2 of them per step"),
        (["+max_steps=4"], "4 (2 epochs of 3, cut by max_steps)"),
        (["+limit_train_batches=0.34"], "2 (2 epochs of 1)"),
        (["devices=2", "strategy=ddp", "optimizer.batch_size=4"], "6 (2 epochs of 3), global batch 8"),
    ],
    ids=str,
)
def test_steps_are_those_of_the_run(overrides: list[str], steps: str, check: Pretrain) -> None:
    assert f"steps: {steps}, " in check(*overrides).stdout


def test_warnings_are_those_of_the_run(check: Pretrain) -> None:
    past = check("method_kwargs.radial_ce_normalize=false", "optimizer.lr=30")
    assert "warning: the radial cross-entropy is past stability" in past.stdout
    pulling_away = check("method_kwargs.radial_ce_loss_weight=1", "method_kwargs.radial_ent_loss_weight=10")
    assert "note: the radial term alone is minimal at radii of" in pulling_away.stdout


def test_a_run_that_would_go_on_is_named_with_its_file(pretrain: Pretrain, check: Pretrain, tmp_path: Path) -> None:
    folder = pretrain("diagnostics.enabled=false").run
    (folder / "checkpoints" / "last.ckpt").unlink()  # which a run would make again
    before = files(tmp_path)
    assert f"run folder: {folder}, resuming from {folder}/checkpoints/epoch-2.ckpt\n" in check("ckpt=auto").stdout
    refused = check(f"ckpt={folder}/checkpoints/epoch-2.ckpt", "method_kwargs.proj_output_dim=8", status=2)
    assert "is of another run: method_kwargs.proj_output_dim is 16 there and 8 here" in refused.stderr
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("optimizer.batch_size=500", "has 24 images, too few for a batch of 500"),
        ("ckpt=last", "ckpt=last: no checkpoint of this configuration"),
        ("checkpoint.dir=mine", "checkpoint.dir=mine is read by solo-learn's main_pretrain.py only"),
    ],
)
def test_what_would_stop_the_run_is_said(override: str, said: str, check: Pretrain, tmp_path: Path) -> None:
    assert said in check(override, status=2).stderr
    assert not (tmp_path / "runs").exists()


def test_images_that_would_be_kept_in_memory_are_only_listed(check: Pretrain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("radial_vicreg.data.loader.DecodedImages")
    for option in ("data.cache=ram", "data.format=device"):
        assert "images: 24 for training" in check(option).stdout


def test_a_cifar_that_is_not_there_is_not_downloaded(
    check: Pretrain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("torchvision.datasets.CIFAR10.download")  # which CIFAR-100 inherits
    cifar = ["radialvicreg/dataset=cifar100", f"data.train_path={tmp_path}/cifar", "data.val_path=null"]
    said = check(*cifar, "max_epochs=1").stdout
    assert f"cifar100 is not in {tmp_path}/cifar: the run downloads it" in said
    assert "images: 50,000 for training, 10,000 for validation" in said
    assert "steps: 6,250 (1 epoch of 6,250)" in said
    assert not (tmp_path / "cifar").exists()
    refused = check(*cifar, "data.fraction=0.1", "optimizer.batch_size=6000", status=2)
    assert "5,000 images, too few for a batch of 6000" in refused.stderr


@pytest.fixture
def photos(tmp_path: Path) -> Callable[..., list[str]]:
    """Write two classes of photos, and return the overrides that train on them: sizes in turn, some truncated."""

    def write(sizes: Sequence[tuple[int, int]] = ((32, 32),), truncated: Sequence[int] = ()) -> list[str]:
        for split, count in (("train", 8), ("val", 2)):
            for name in ("a", "b"):
                (folder := tmp_path / "photos" / split / name).mkdir(parents=True)
                for index in range(count):
                    file = folder / f"{index}.jpg"
                    Image.effect_noise(sizes[index % len(sizes)], 90).convert("RGB").save(file)
                    if split == "train" and index in truncated:
                        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
        return [f"data.{split}_path={tmp_path}/photos/{split}" for split in ("train", "val")]

    return write


def test_a_check_opens_images_and_tells_their_sizes_and_two_at_which_the_run_would_stop(
    check: Pretrain, photos: Callable[..., list[str]]
) -> None:
    given = photos([(32, 32), (40, 32)])
    said = check(*given, "data.cache=ram").stdout
    assert "\nopened 16 of data.train_path: all can be read, from 32 x 32 to 40 x 32 pixels\n" in said
    assert "\nopened 4 of data.val_path: all can be read, from 32 x 32 to 40 x 32 pixels\n" in said
    refused = check(*given, "data.format=device", status=2)
    assert "data.format=device needs images of one size, got 2 or more" in refused.stderr
    refused = check(*given, "augmentations.0.rrc.enabled=false", status=2)
    assert "images of 32 x 32 and 40 x 32 pixels cannot be in" in refused.stderr


def test_a_check_names_every_image_that_cannot_be_read(
    check: Pretrain, photos: Callable[..., list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = photos(truncated=(0, 5))
    said = check(*given, status=2).stderr
    one_line(said, "the run would stop: 4 of 16 opened images of data.train_path cannot be read: ")
    assert f"{tmp_path}/photos/train/a/0.jpg (" in said
    assert "); replace or remove these files, or skip such files with data.on_bad_image=skip" in said
    check(*given, "data.on_bad_image=skip")
    monkeypatch.setattr(train_check, "SAMPLE", 4)
    for more, found in ([], "2 of 4 opened images"), (["--all-images"], "4 of 16 opened images"):
        said = check(*given, *more, status=2).stderr
        assert found in said
        assert ("--all-images opens every image" in said) == (not more)


def test_all_images_are_opened_by_a_check_only(pretrain: Pretrain) -> None:
    one_line(pretrain("--all-images", status=2).stderr, "--all-images needs --check")
