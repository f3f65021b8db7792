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
from torch.utils.data import DataLoader, Dataset

from radial_vicreg.data import batches as batches_module
from radial_vicreg.data.batches import collate
from radial_vicreg.data.errors import (
    LoaderResourceError,
    UnequalShapesError,
    resource_problem,
    resources_named,
)
from radial_vicreg.data.image import open_image, unreadable_images


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
