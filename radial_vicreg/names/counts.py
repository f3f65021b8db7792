"""Counts with their nouns, as messages and captions write them."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Format a count with its noun: ``1 run``, ``2 runs``.

    Args:
        number: the count.
        noun: the noun of one.
        plural: the noun of several; default: with an ``s``.
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
