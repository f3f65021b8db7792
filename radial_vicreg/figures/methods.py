"""Colour and marker of each method, the same in every figure."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from radial_vicreg.names.terms import (
    ADDED,
    METHOD_LABELS,
    RADIAL_OBJECTIVES,
    method_in_words,
    objective_of,
    terms_of,
)


@dataclass(frozen=True)
class MethodStyle:
    """Plot style of a method.

    Attributes:
        colour: colour of its lines, points and areas.
        marker: matplotlib marker; it distinguishes methods without colour.
    """

    colour: str
    marker: str


UNTRAINED = MethodStyle("#8F8F8F", "x")
"""Style of untrained data: a network before training, points at the start."""

KNOWN = {
    "vicreg": MethodStyle("#DE7301", "v"),  # orange
    "radial_kl": MethodStyle("#0072B2", "o"),  # blue
    "radial_kl_centred": MethodStyle("#332288", "D"),  # dark blue
    "radial_wasserstein": MethodStyle("#1A5E4B", "s"),  # green
    "radial_reverse_kl": MethodStyle("#A82F7D", "^"),  # pink
    "radial_kl_mean": MethodStyle("#1B3C12", "p"),  # dark green
    "vicreg_mean": MethodStyle("#757E3A", "H"),  # olive
    "e2mc": MethodStyle("#654D00", "<"),  # brown
    "lejepa": MethodStyle("#F12137", "P"),  # red
    "visreg": MethodStyle("#680650", "X"),  # wine
    "barlow": MethodStyle("#4794BA", "*"),  # light blue
}
"""Styles by :func:`method_key`.

Every colour has a contrast of 3 or more to white, and every two differ by 15 or more in CIELAB, for readers without red
or green receptors too: the largest smallest difference that a search near the usual colours found.
"""

_COLOURS = ("#861D6C", "#3B9874", "#9E940B", "#450400", "#0086C1", "#7B5D22", "#3E2D9F")
_MARKERS = (">", "d", "8", "h")
# The numbers of colours and markers are coprime, so cycling through both reaches every pair.
_OTHERS = [MethodStyle(_COLOURS[i % len(_COLOURS)], _MARKERS[i % len(_MARKERS)]) for i in range(28)]


def method_key(objective: str, centred: bool = False, **added: bool) -> str:
    """Name a method without its weights.

    Args:
        objective: radial objective, or the name of another method (``lejepa``, a custom method).
        centred: whether the radii are those of z minus the batch mean.
        **added: whether an added term has a weight, by its symbol: ``e2mc``, ``mean``.

    Returns:
        A key of :func:`method_styles`; VICReg is ``vicreg``, VICReg with E2MC is ``e2mc``.
    """
    names = [term.symbol for term in ADDED if added.get(term.symbol)]
    if objective == "none":
        return "_".join(names if "e2mc" in names else ["vicreg", *names])
    name = f"radial_{objective}" if terms_of(objective) else objective
    return "_".join([name, *["centred"] * centred, *names])


def _labels() -> dict[str, str]:
    """Return the words for every key of our objectives."""
    symbols = [term.symbol for term in ADDED]
    choices = [added for count in range(len(symbols) + 1) for added in itertools.combinations(symbols, count)]
    return {
        method_key(objective, centred, **dict.fromkeys(added, True)): method_in_words(objective, centred, added)
        for objective in RADIAL_OBJECTIVES
        for centred in ((False, True) if terms_of(objective) else (False,))
        for added in choices
    }


_LABELS = _labels()


def method_label(key: str) -> str:
    """Name a method as legends show it.

    Args:
        key: see :func:`method_key`.

    Returns:
        ``VICReg`` for ``vicreg``, for example; the key itself for a method that is not ours.
    """
    return _LABELS.get(key) or METHOD_LABELS.get(key, key)


def configured_method(config: Mapping[str, Any]) -> str:
    """Name the method of a run without its weights.

    Args:
        config: configuration of the run as plain containers.

    Returns:
        See :func:`method_key`.
    """
    read = objective_of(config)
    if "loss" in read:
        return method_key(config["method"])
    return method_key(
        read["radial_objective"],
        centred=read.get("radial_center", False),
        **{term.symbol: term.weight.name in read for term in ADDED},
    )


def method_styles(keys: Iterable[str]) -> dict[str, MethodStyle]:
    """Assign a colour and a marker to every method of a report.

    Known methods have fixed styles. The style of any other method is derived from its name, so that it is the same in
    every report; if two names of a report lead to the same marker, the alphabetically later one gets a free marker.

    Args:
        keys: keys of all plotted methods, see :func:`method_key`.

    Returns:
        A style for each method. Styles are distinct for up to 28 unknown methods, and their markers for up to 4.
    """
    styles: dict[str, MethodStyle] = {}
    for key in sorted(set(keys)):
        styles[key] = KNOWN.get(key) or _free_style(key, styles.values())
    return styles


def _free_style(key: str, taken: Iterable[MethodStyle]) -> MethodStyle:
    first = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") % len(_OTHERS)
    choices = [*_OTHERS[first:], *_OTHERS[:first]]
    used = set(taken)
    free = [style for style in choices if style not in used] or choices
    markers = {style.marker for style in used}
    return next((style for style in free if style.marker not in markers), free[0])
