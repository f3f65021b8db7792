"""The paths of a data set: a sequence like a list, in memory that data-loading processes share."""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from radial_vicreg.data.listing import LabelledPaths, Paths

SMAPS = Path("/proc/self/smaps_rollup")
names = st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))


@given(names, st.slices(20))
@example([os.fsdecode(b"/images/\xff.jpg")], slice(None))  # a name that is no text
def test_paths_are_those_of_a_list(paths: list[str], chosen: slice) -> None:
    kept = Paths(paths)
    assert (len(kept), list(kept), list(reversed(kept))) == (len(paths), paths, paths[::-1])
    assert list(kept[chosen]) == paths[chosen]
    assert kept == Paths(iter(paths)) == pickle.loads(pickle.dumps(kept))
    for index in (-len(paths) - 1, len(paths)):
        with pytest.raises(IndexError):
            kept[index]


def test_pairs_are_those_of_a_list() -> None:
    kept = LabelledPaths(Paths("abc"), [0, 0, 1])
    assert list(kept) == [("a", 0), ("b", 0), ("c", 1)]
    assert kept[-1] == ("c", 1)
    assert list(kept[1:]) == [("b", 0), ("c", 1)]


def private_bytes_after_reading(paths: Sequence[str]) -> int:
    """Fork, read all paths in the child, and return by how much the memory of its own grew."""

    def private() -> int:
        lines = SMAPS.read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Private")) * 1024

    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        before = private()
        for index in range(len(paths)):
            paths[index]
        os.write(writer, str(private() - before).encode())
        os._exit(0)
    os.waitpid(child, 0)
    return int(os.read(reader, 32))


@pytest.mark.skipif(not SMAPS.exists(), reason="the memory of a process is read from /proc, which is Linux's")
def test_reading_paths_copies_no_memory_into_a_process() -> None:
    paths = [f"/images/train/n{index // 1300:08d}/n{index:08d}.JPEG" for index in range(50_000)]
    assert private_bytes_after_reading(paths) > 2.5e6  # a list is copied, page by page
    assert private_bytes_after_reading(Paths(paths)) < 0.5e6
