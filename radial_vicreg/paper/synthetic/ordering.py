"""Sorting of points by radius: an insertion pass after small changes, a radix sort after large ones.

numba's disk cache of the caller, :func:`.kernels.descend`, does not detect changes in this file: touch ``kernels.py``
too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from radial_vicreg.paper.synthetic.jit import compiled

_RADIX_BITS = 11
_INSERTION_BUDGET = 2
"""Moves per point after which an insertion pass gives up, since the radix sort is cheaper beyond."""
_DESCENTS_SHARE = 16
"""If more than N / 16 neighbours are out of order, the insertion pass is skipped."""


@compiled
def repair_order(radius: Any, z: Any, order: Any) -> None:
    """Sort ``radius`` (N,) in ascending order, and permute ``z`` (d, N) and ``order`` (N,) alike."""
    n = len(radius)
    descents = 0
    for i in range(1, n):
        descents += radius[i] < radius[i - 1]
    if descents == 0:
        return
    if descents > n // _DESCENTS_SHARE or not insert(radius, z, order, _INSERTION_BUDGET * n):
        order_by_radius(radius, z, order)


@compiled
def order_by_radius(radius: Any, z: Any, order: Any) -> None:
    """Sort non-negative radii from any order: radix sort by the leading 32 bits, then insertion."""
    _radix_sort(radius, z, order, 32)
    # For points on a circle, the leading bits of all radii are tied, so all 64 are needed.
    if not insert(radius, z, order, _INSERTION_BUDGET * len(radius)):
        _radix_sort(radius, z, order, 0)


@compiled
def _radix_sort(radius: Any, z: Any, order: Any, first_bit: int) -> None:
    """Sort stably by the bits from ``first_bit`` on; for non-negative float64, bits and values have the same order."""
    n = len(radius)
    keys = radius.view(np.int64)
    mask = (1 << _RADIX_BITS) - 1
    source, target = np.arange(n), np.empty(n, np.int64)
    for shift in range(first_bit, 64, _RADIX_BITS):
        starts = np.zeros(mask + 2, np.int64)
        for i in range(n):
            starts[((keys[i] >> shift) & mask) + 1] += 1
        for digit in range(mask + 1):
            starts[digit + 1] += starts[digit]
        for i in range(n):
            digit = (keys[source[i]] >> shift) & mask
            target[starts[digit]] = source[i]
            starts[digit] += 1
        source, target = target, source
    take(radius, source)
    take(order, source)
    for j in range(z.shape[0]):
        take(z[j], source)


@compiled
def take(values: Any, source: Any) -> None:
    """Do ``values[:] = values[source]``."""
    old = values.copy()
    for i in range(len(values)):
        values[i] = old[source[i]]


@compiled
def insert(radius: Any, z: Any, order: Any, budget: int) -> bool:
    """Sort by insertion within ``budget`` moves; return False if it gave up, which leaves a valid permutation."""
    d, n = z.shape[0], len(radius)
    held = np.empty(d)
    for i in range(1, n):
        key = radius[i]
        if key < radius[i - 1]:
            name = order[i]
            for j in range(d):
                held[j] = z[j, i]
            place = i
            while place > 0 and radius[place - 1] > key:
                radius[place] = radius[place - 1]
                order[place] = order[place - 1]
                for j in range(d):
                    z[j, place] = z[j, place - 1]
                place -= 1
            radius[place] = key
            order[place] = name
            for j in range(d):
                z[j, place] = held[j]
            budget -= i - place
            if budget < 0:
                return False
    return True
