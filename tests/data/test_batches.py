"""Batches, and what their loading says when it fails: causes are found out, not read from somebody else's message."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from configs import make_config
from torch.utils.data import DataLoader, Dataset, default_collate

from radial_vicreg.data import batches as batches_module
from radial_vicreg.data.batches import collate
from radial_vicreg.data.build import open_data
from radial_vicreg.data.errors import (
    LoaderResourceError,
    UnequalShapesError,
    resource_problem,
    resources_named,
)
from radial_vicreg.data.image import UnreadableImageError, open_image, unreadable_images
from radial_vicreg.data.loader import build_train_loader, build_val_loader


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


def test_batches_are_pytorch_s() -> None:
    samples = [Crops(5, 5)[index] for index in range(2)]
    mine, theirs = collate(samples), default_collate(samples)
    assert torch.equal(mine[0], theirs[0])
    assert all(torch.equal(a, b) for a, b in zip(mine[1], theirs[1], strict=True))


@pytest.mark.parametrize("workers", [0, 1])
def test_shapes_are_compared_before_pytorch_does(workers: int) -> None:
    loader = DataLoader(Crops(5, 5, 7), batch_size=3, num_workers=workers, collate_fn=collate)
    with pytest.raises(UnequalShapesError) as caught:
        list(loader)
    message = str(caught.value)
    assert message.startswith("images of different shapes in one batch ([3, 4, 5] at entry 0 and [3, 4, 7] at entry 2)")
    assert "\n" not in message


def _full(samples: Any) -> Any:
    raise RuntimeError("words that no version of PyTorch has used so far")


def test_a_worker_without_shared_memory_says_how_much_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches_module, "default_collate", _full)
    with pytest.raises(
        LoaderResourceError, match=r"^a loader's worker could not put .*/dev/shm has [\d,]+ MiB left"
    ) as c:
        list(DataLoader(Crops(5, 5), batch_size=2, num_workers=1, collate_fn=collate))
    assert "--shm-size" in str(c.value)
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
    assert not isinstance(LoaderResourceError("x"), UnreadableImageError)


def test_the_loaders_of_both_hosts_use_it(make_folder: Callable[..., Path]) -> None:
    folder = str(make_folder(a=1))
    config = make_config(data__train_path=folder, data__val_path=folder, optimizer__batch_size=2)
    val = build_val_loader(config, open_data(config))
    assert val is not None
    assert build_train_loader(config, Crops(5, 5)).collate_fn is collate is val.collate_fn
