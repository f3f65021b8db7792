"""``radial-vicreg pretrain --check`` says what a run would be, and leaves nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from helpers import HOSTS_SOLO_SLOW, one_line, only_run
from PIL import Image

from radial_vicreg import cli
from radial_vicreg.train import check as train_check


@pytest.fixture
def check(tiny_overrides: list[str]) -> Callable[..., int]:
    """Type the command with overrides; returns its exit status."""
    return lambda *overrides: cli.main(["pretrain", "--check", *tiny_overrides, "host=standalone", *overrides])


def files(folder: Path) -> dict[Path, int]:
    return {path: path.lstat().st_mtime_ns for path in folder.rglob("*")}


@pytest.mark.parametrize("host", HOSTS_SOLO_SLOW)
def test_a_check_tells_steps_epochs_and_folder_and_writes_nothing(
    host: str, check: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(tmp_path)
    assert check(f"host={host}") == 0
    said = capsys.readouterr().out
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
def test_steps_are_those_of_the_run(
    overrides: list[str], steps: str, check: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(*overrides) == 0
    assert f"steps: {steps}, " in capsys.readouterr().out


def test_warnings_are_those_of_the_run(check: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert check("method_kwargs.radial_ce_normalize=false", "optimizer.lr=30") == 0
    said = capsys.readouterr().out
    assert "warning: the radial cross-entropy is past stability" in said
    assert check("method_kwargs.radial_ce_loss_weight=1", "method_kwargs.radial_ent_loss_weight=10") == 0
    assert "note: the radial term alone is minimal at radii of" in capsys.readouterr().out


def test_a_run_that_would_go_on_is_named_with_its_checkpoint(
    check: Callable[..., int], tiny_overrides: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["pretrain", *tiny_overrides, "host=standalone", "diagnostics.enabled=false"]) == 0
    folder = only_run(tmp_path / "runs")
    (folder / "checkpoints" / "last.ckpt").unlink()  # which a run would make again
    before = files(tmp_path)
    capsys.readouterr()
    assert check("ckpt=auto") == 0
    assert f"run folder: {folder}, resuming from {folder}/checkpoints/epoch-2.ckpt\n" in capsys.readouterr().out
    assert check(f"ckpt={folder}/checkpoints/epoch-2.ckpt", "method_kwargs.proj_output_dim=8") == 2
    assert "is of another run: method_kwargs.proj_output_dim is 16 there and 8 here" in capsys.readouterr().err
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["optimizer.batch_size=500"], "has 24 images, too few for a batch of 500"),
        (["ckpt=last"], "ckpt=last: no checkpoint of this configuration"),
        (["checkpoint.dir=mine"], "checkpoint.dir=mine is read by solo-learn's main_pretrain.py only"),
    ],
    ids=str,
)
def test_what_would_stop_the_run_is_said(
    overrides: list[str], said: str, check: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(*overrides) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_images_that_would_be_kept_in_memory_are_only_listed(
    check: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("decoded")

    monkeypatch.setattr("radial_vicreg.data.loader.DecodedImages", refuse)
    for option in ("data.cache=ram", "data.format=device"):
        assert check(option) == 0
        assert "images: 24 for training" in capsys.readouterr().out


def test_a_cifar_that_is_not_there_is_not_downloaded(
    check: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("downloaded")

    monkeypatch.setattr("torchvision.datasets.CIFAR100.download", refuse)
    cifar = ["radialvicreg/dataset=cifar100", f"data.train_path={tmp_path}/cifar", "data.val_path=null"]
    assert check(*cifar, "max_epochs=1") == 0
    said = capsys.readouterr().out
    assert f"cifar100 is not in {tmp_path}/cifar: the run downloads it" in said
    assert "images: 50,000 for training, 10,000 for validation" in said
    assert "steps: 6,250 (1 epoch of 6,250)" in said
    assert not (tmp_path / "cifar").exists()
    assert check(*cifar, "data.fraction=0.1", "optimizer.batch_size=6000") == 2
    assert "5,000 images, too few for a batch of 6000" in capsys.readouterr().err


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


def test_a_check_opens_images_and_tells_their_sizes(
    check: Callable[..., int], photos: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(*photos([(32, 40), (64, 48)])) == 0
    said = capsys.readouterr().out
    assert "\nopened 16 of data.train_path: all can be read, from 32 x 40 to 64 x 48 pixels\n" in said
    assert "\nopened 4 of data.val_path: all can be read, from 32 x 40 to 64 x 48 pixels\n" in said


def test_a_check_names_every_image_that_cannot_be_read(
    check: Callable[..., int],
    photos: Callable[..., list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = photos(truncated=(0, 5))
    assert check(*given) == 2
    said = capsys.readouterr().err
    one_line(said, "the run would stop: 4 of 16 opened images of data.train_path cannot be read: ")
    assert f"{tmp_path}/photos/train/a/0.jpg (" in said
    assert "and 1 more; replace or remove these files, or skip such files with data.on_bad_image=skip" in said
    assert check(*given, "data.on_bad_image=skip") == 0
    capsys.readouterr()
    monkeypatch.setattr(train_check, "SAMPLE", 4)
    for more, found in ([], "2 of 4 opened images"), (["--all-images"], "4 of 16 opened images"):
        assert check(*given, *more) == 2
        said = capsys.readouterr().err
        assert found in said
        assert ("--all-images opens every image" in said) == (not more)


def test_a_check_names_two_sizes_at_which_the_run_would_stop(
    check: Callable[..., int], photos: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    given = photos([(32, 32), (40, 32)])
    for override, message in {
        "data.cache=ram": None,
        "data.format=device": "data.format=device needs images of one size, got 2 or more",
        "augmentations.0.rrc.enabled=false": "images of 32 x 32 and 40 x 32 pixels cannot be in",
    }.items():
        assert check(*given, override) == (0 if message is None else 2)
        assert (message or "") in capsys.readouterr().err


def test_all_images_are_opened_by_a_check_only(tiny_overrides: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["pretrain", *tiny_overrides, "--all-images"]) == 2
    one_line(capsys.readouterr().err, "--all-images needs --check")
