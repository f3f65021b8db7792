"""Which colour and marker a method has: the same in every figure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from radial_vicreg.names.terms import ADDED, objective_of, terms_of


@dataclass(frozen=True)
class MethodStyle:
    """How a method is drawn.

    Attributes:
        colour: of its lines, points and areas.
        marker: matplotlib's; the colour is not needed to tell two methods apart.
    """

    colour: str
    marker: str


UNTRAINED = MethodStyle("#7F7F7F", "x")
"""What no method has touched: a network before training, points at the start."""

KNOWN = {
    "vicreg": MethodStyle("#E69F00", "v"),
    "radial_kl": MethodStyle("#0072B2", "o"),
    "radial_kl_centred": MethodStyle("#332288", "D"),
    "radial_wasserstein": MethodStyle("#009E73", "s"),
    "radial_reverse_kl": MethodStyle("#CC79A7", "^"),
    "radial_kl_mean": MethodStyle("#117733", "8"),
    "vicreg_mean": MethodStyle("#999933", "H"),
    "e2mc": MethodStyle("#8C6D31", "<"),
    "lejepa": MethodStyle("#D55E00", "P"),
    "visreg": MethodStyle("#882255", "X"),
    "barlow": MethodStyle("#56B4E9", "*"),
}
"""Styles by :func:`method_key`; colours of Okabe and Ito, and of Tol, told apart by colour-blind readers."""

_COLOURS = ("#AA4499", "#44AA99", "#B5B52B", "#661100", "#88CCEE", "#DDCC77", "#6A3D9A")
_MARKERS = (">", "d", "p", "h")
# Their numbers have no common divisor: counting on in both at once meets every pair of the two.
_OTHERS = [MethodStyle(_COLOURS[i % len(_COLOURS)], _MARKERS[i % len(_MARKERS)]) for i in range(28)]


def method_key(objective: str, centred: bool = False, **added: bool) -> str:
    """Name a method without its weights.

    Args:
        objective: radial objective, or the name of a method that has none of them (``lejepa``, a user's own).
        centred: the radii are those of z minus the batch mean.
        **added: whether a term that any objective may have has a weight, by its symbol: ``e2mc``, ``mean``.

    Returns:
        A key of :func:`method_styles`; VICReg is ``vicreg``, VICReg with E2MC is ``e2mc``.
    """
    names = [term.symbol for term in ADDED if added.get(term.symbol)]
    if objective == "none":
        return "_".join(names if "e2mc" in names else ["vicreg", *names])
    name = f"radial_{objective}" if terms_of(objective) else objective
    return "_".join([name, *["centred"] * centred, *names])


def configured_method(config: Mapping[str, Any]) -> str:
    """Name the method of a run without its weights.

    Args:
        config: the run's configuration, as plain containers.

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
    """Give every method of a report its colour and marker.

    A known method has always the same. Another has one that its name decides, the same in every report; where two names
    of one report decide for the same marker, the later in the alphabet moves on to a free one.

    Args:
        keys: of all methods that are drawn, see :func:`method_key`.

    Returns:
        A style for each, all different (of up to 28 that are not known; their markers differ, too, up to 4).
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
