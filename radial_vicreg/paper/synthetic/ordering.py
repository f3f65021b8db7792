"""Keeping points ordered by radius: an insertion pass when little has changed, a radix sort when much has.

numba's disk cache of :func:`.kernels.descend`, which calls this, does not notice changes here: touch
``kernels.py`` too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from radial_vicreg.paper.synthetic.jit import compiled

RADIX_BITS = 11
INSERTION_BUDGET = 2
"""Moves per point after which an insertion pass gives up: beyond it the radix sort is cheaper."""
DESCENTS_SHARE = 16
"""More than N / 16 neighbours out of order: not worth an insertion pass."""


@compiled
def repair_order(radius: Any, z: Any, order: Any) -> None:
    """Restore ascending ``radius`` (N,), carrying ``z`` (d, N) and ``order`` (N,) along."""
    n = len(radius)
    descents = 0
    for i in range(1, n):
        descents += radius[i] < radius[i - 1]
    if descents == 0:
        return
    if descents > n // DESCENTS_SHARE or not insert(radius, z, order, INSERTION_BUDGET * n):
        order_by_radius(radius, z, order)


@compiled
def order_by_radius(radius: Any, z: Any, order: Any) -> None:
    """Sort from any order, non-negative keys: by their leading 32 bits, then insertion for the rest."""
    radix_sort(radius, z, order, 32)
    # A cloud on a circle ties the leading bits of all radii: there all 64 are needed.
    if not insert(radius, z, order, INSERTION_BUDGET * len(radius)):
        radix_sort(radius, z, order, 0)


@compiled
def radix_sort(radius: Any, z: Any, order: Any, first_bit: int) -> None:
    """Sort stably by the bits from ``first_bit`` on, which ascend with a non-negative float64's value."""
    n = len(radius)
    keys = radius.view(np.int64)
    mask = (1 << RADIX_BITS) - 1
    source, target = np.arange(n), np.empty(n, np.int64)
    for shift in range(first_bit, 64, RADIX_BITS):
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
    """Sort by insertion within ``budget`` moves; False when it gave up, with every point still in exactly one place."""
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
