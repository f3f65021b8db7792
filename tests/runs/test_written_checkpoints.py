"""Writing checkpoints: one tensor after another, whole or not at all, and a line where it takes long."""

from __future__ import annotations

import errno
import io
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import torch

from radial_vicreg.io.files import DiskFullError, _RememberingFile
from radial_vicreg.runs.checkpoints import write_checkpoint
from radial_vicreg.train.callbacks import checkpointing
from radial_vicreg.train.callbacks.checkpointing import AtomicCheckpointIO, slow_writing

MEGABYTE = 2**20


def content(megabytes: int, tensors: int = 4) -> dict[str, Any]:
    size = megabytes * MEGABYTE // 4 // tensors
    return {"epoch": 0, "state_dict": {f"layer{index}": torch.full((size,), float(index)) for index in range(tensors)}}


def test_a_checkpoint_is_what_torch_saves_and_not_built_in_memory(tmp_path: Path) -> None:
    state = content(64)
    tracemalloc.start()
    try:
        write_checkpoint(state, tmp_path / "epoch-1.ckpt")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * MEGABYTE
    buffer = io.BytesIO()
    torch.save(state, buffer)
    assert (tmp_path / "epoch-1.ckpt").read_bytes() == buffer.getvalue()


def test_a_disk_that_is_full_in_the_middle_leaves_the_old_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "epoch-1.ckpt"
    write_checkpoint(content(1), path)
    before, written = path.read_bytes(), 0

    def write(self: Any, data: Any) -> int:
        nonlocal written
        written += len(data)
        if written > MEGABYTE:
            self.problem = OSError(errno.ENOSPC, "No space left on device")
            raise self.problem
        return io.FileIO.write(self, data)

    monkeypatch.setattr(_RememberingFile, "write", write)
    with pytest.raises(
        DiskFullError, match=r"no space left to write .*epoch-1.ckpt \(the previous file is unchanged\)"
    ):
        write_checkpoint(content(4), path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_line_names_the_key_where_writing_takes_more_than_a_twentieth_of_an_epoch() -> None:
    for writing, training, every in ((4.9, 100.0, 1), (9.0, 100.0, 2), (12.0, 80.0, 3), (0.5, 1.0, 1)):
        assert slow_writing(writing, training, every) is None  # the last one is too short for a line
    told = slow_writing(12.0, 100.0, 1)
    assert told is not None
    assert told.startswith("writing a checkpoint takes 12.0 s, 12% of an epoch: checkpoint.frequency=3 writes one")


def test_the_line_is_printed_once_by_what_writes_on_both_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for every, of in ((1, "an epoch: checkpoint.frequency=10 "), (2, "2 epochs: checkpoint.frequency=20 ")):
        clock = iter([10.0, 15.0, 25.0, 30.0, 40.0, 45.0])  # checkpoints of 5 s, and 10 s between them
        monkeypatch.setattr(checkpointing.time, "perf_counter", lambda clock=clock: next(clock))
        written = AtomicCheckpointIO()
        written.save_checkpoint({**content(1), "epoch": 0}, tmp_path / "1.ckpt")
        assert capsys.readouterr().out == ""  # the time before the first checkpoint is not that of an epoch
        for number in (1, 2):
            written.save_checkpoint({**content(1), "epoch": every * number}, tmp_path / "more.ckpt")
        assert capsys.readouterr().out.count(f"50% of {of}") == 1
