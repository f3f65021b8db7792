"""The paper's settings and values, and the deviations of a run from them."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from radial_vicreg.names.terms import OBJECTIVE, RADIAL_TERMS, TERMS
from radial_vicreg.report.collect import Experiment
from radial_vicreg.report.setting import Setting

# Every run has these settings. Where the paper's configurations do not give a value, this is our choice.
_OUR_DEFAULTS = {"spacing": OBJECTIVE["radial_spacing"].unset}
_CONDITIONAL = tuple(key.short for term in TERMS for key in term.reads)
"""Details that a run has only if its objective reads them."""


@dataclass(frozen=True)
class Deviation:
    """A setting that differs from that of the paper's cell.

    Attributes:
        key: name in ``paper.json``.
        ours: value of the run.
        wanted: value of the cell.
        stated: whether the paper states the value; otherwise it is our choice.
    """

    key: str
    ours: Any
    wanted: Any
    stated: bool

    def __str__(self) -> str:
        """Write ``key ours (wanted)``."""
        return f"{self.key} {self.ours} ({self.wanted})"

    @property
    def distance(self) -> float:
        """Distance of the values: the absolute logarithm of their ratio, or 1 if it is not defined."""
        ours, wanted = _as_number(self.ours), _as_number(self.wanted)
        if isinstance(ours, float) and isinstance(wanted, float) and ours > 0 and wanted > 0:
            return abs(math.log(ours / wanted))
        return 1.0


@cache
def paper() -> dict[str, Any]:
    """Read ``paper.json``."""
    content: dict[str, Any] = json.loads((Path(__file__).parent / "paper.json").read_text(encoding="utf-8"))
    return content


@cache
def our_choices(name: str) -> frozenset[str]:
    """Return the keys of a paper configuration whose values are our choice, since the paper does not state them.

    Args:
        name: key of ``configs`` in ``paper.json``.

    Returns:
        Keys of that configuration, from ``our_choice_keys``.
    """
    entries = paper()["our_choice_keys"]
    chosen = {key for entry in entries if fnmatchcase(name, entry["configs"]) for key in entry["keys"]}
    return frozenset({*chosen, *_OUR_DEFAULTS})


def matches(setting: Setting, name: str, free: Collection[str] = ()) -> bool:
    """Return whether a run matches a paper configuration in data, backbone, d, objective and weights.

    Args:
        setting: setting of the run.
        name: key of ``configs`` in ``paper.json``, ``dataset/backbone/variant``.
        free: those of ``beta1`` and ``beta2`` that may have other values. A run without any radial weight is VICReg,
            and never matches Radial-VICReg.

    Returns:
        True even if rates, epochs or batch size differ; see :func:`deviations`.
    """
    dataset, backbone, _ = name.split("/")
    wanted = paper()["configs"][name]
    objective = "none" if wanted["method"] == "vicreg" else wanted.get("objective", "kl")
    weights = {term.symbol: wanted.get(term.symbol, 0) for term in RADIAL_TERMS if term.symbol not in free}
    return (
        (setting.dataset, setting.backbone, setting.dim) == (dataset, backbone, wanted["proj_output_dim"])
        and setting.objective == objective
        and all(setting.weight(symbol) == value for symbol, value in weights.items())
        and setting.weights == tuple(wanted[key] for key in ("sim", "var", "cov"))
        and not setting.center
        and not setting.added
    )


def deviations(setting: Setting, name: str, free: Collection[str] = ()) -> list[Deviation]:
    """List the deviations of a run from a paper configuration that it matches.

    Args:
        setting: setting of the run.
        name: key of ``configs`` in ``paper.json``.
        free: keys that are not compared.

    Returns:
        One entry per key, in the order of the setting's details.
    """
    wanted = {**_OUR_DEFAULTS, **paper()["configs"][name]}
    ours = our_choices(name)
    return [
        Deviation(key, value, wanted[key], stated=key not in ours)
        for key, value in setting.details.items()
        if key in wanted and key not in free and str(_as_number(value)) != str(_as_number(wanted[key]))
    ]


def nearness(found: Sequence[Deviation]) -> tuple[float, ...]:
    """Return a sort key: number and size of the deviations from stated settings, then from our choices."""
    kinds = [[deviation for deviation in found if deviation.stated is stated] for stated in (True, False)]
    return tuple(x for kind in kinds for x in (len(kind), round(sum(deviation.distance for deviation in kind), 6)))


def paper_rank(experiment: Experiment) -> tuple[float, ...]:
    """Return a sort key: nearest to a paper configuration first, then most seeds."""
    setting = experiment.setting
    near = [nearness(deviations(setting, name)) for name in paper()["configs"] if matches(setting, name)]
    return (*min(near, default=(float("inf"),)), -len(experiment.runs))


def is_conditional(key: str) -> bool:
    """Return whether only some objectives have this detail; a run without it then agrees with any value."""
    return key in _CONDITIONAL


def _as_number(value: Any) -> Any:
    """Convert a value to float if possible, so that 100 and ``"100.0"`` are equal."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return value
