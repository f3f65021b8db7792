"""Counts with their nouns, and the first of many names, as messages and captions write them."""

from __future__ import annotations

from collections.abc import Sequence


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Format a count with its noun: ``1 run``, ``2 runs``.

    Args:
        number: the count.
        noun: the noun of one.
        plural: the noun of several; default: with an ``s``.
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def first_of(names: Sequence[str], most: int = 5) -> str:
    """Name the first of a list and count the rest: ``a, b, c, d, e and 4 more``; ``none`` for an empty list.

    Args:
        names: what to name, such as files or settings.
        most: number of names that are written out.
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more if names else "none"
