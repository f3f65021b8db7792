"""The number of threads with which this machine trains fastest at present."""

from __future__ import annotations

import os
import time

import torch

_REPEATS = 3
_BATCH, _CHANNELS, _PIXELS = 32, 64, 16  # of the trial convolution: a layer of a small ResNet


def fastest_threads() -> int:
    """Measure how many threads are fastest, in half a second, and use that many.

    On a machine whose cores are busy, threads wait for one another, so that fewer are faster. ``OMP_NUM_THREADS``
    decides where it is set.

    Returns:
        The number of threads.
    """
    most = torch.get_num_threads()
    if most > 1 and "OMP_NUM_THREADS" not in os.environ:
        counts = sorted({most, max(1, most // 2), 1}, reverse=True)
        torch.set_num_threads(min(counts, key=_seconds))  # the first, which is the largest, of equal ones
    return torch.get_num_threads()


def _seconds(threads: int) -> float:
    torch.set_num_threads(threads)
    layer = torch.nn.Conv2d(_CHANNELS, _CHANNELS, 3, padding=1)
    images = torch.zeros(_BATCH, _CHANNELS, _PIXELS, _PIXELS)
    layer(images).sum().backward()  # starts the threads
    found = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        layer(images).sum().backward()
        found.append(time.perf_counter() - began)
    return sorted(found)[_REPEATS // 2]
