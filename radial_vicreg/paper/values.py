"""The paper's settings and values, and how a run compares with them."""

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

# Each run has them: where the configurations of the paper say nothing else, this is our reading.
_OUR_DEFAULTS = {"spacing": OBJECTIVE["radial_spacing"].unset}
_CONDITIONAL = tuple(key.short for term in TERMS for key in term.reads)
"""Details that a run has only when its objective reads them."""


@dataclass(frozen=True)
class Deviation:
    """A setting that is not that of the paper's cell.

    Attributes:
        key: as ``paper.json`` calls it.
        ours: the run's value.
        wanted: the cell's value.
        stated: the paper states it; otherwise it is our choice.
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
        """How far apart the values are: the logarithm of their ratio, or 1 where there is none."""
        ours, wanted = as_number(self.ours), as_number(self.wanted)
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
    """List the keys of one of the paper's configurations whose values are ours: the paper does not state them.

    Args:
        name: key of ``configs`` in ``paper.json``.

    Returns:
        Keys of that configuration, as ``our_choice_keys`` lists them.
    """
    entries = paper()["our_choice_keys"]
    chosen = {key for entry in entries if fnmatchcase(name, entry["configs"]) for key in entry["keys"]}
    return frozenset({*chosen, *_OUR_DEFAULTS})


def matches(setting: Setting, name: str, free: Collection[str] = ()) -> bool:
    """Tell whether a run is the method of one of the paper's configurations: data, backbone, d, objective, weights.

    Args:
        setting: of the run.
        name: key of ``configs`` in ``paper.json``, ``dataset/backbone/variant``.
        free: of ``beta1`` and ``beta2``, those that may have other values. Without any radial weight a run is VICReg,
            and not a Radial-VICReg with other weights.

    Returns:
        True also where rates, epochs or batch size differ: see :func:`deviations`.
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
    """List where a run of the right method differs from a configuration of the paper.

    Args:
        setting: of the run.
        name: key of ``configs`` in ``paper.json``.
        free: keys that are not compared.

    Returns:
        One entry a key, in the order of the setting's details.
    """
    wanted = {**_OUR_DEFAULTS, **paper()["configs"][name]}
    ours = our_choices(name)
    return [
        Deviation(key, value, wanted[key], stated=key not in ours)
        for key, value in setting.details.items()
        if key in wanted and key not in free and str(as_number(value)) != str(as_number(wanted[key]))
    ]


def nearness(found: Sequence[Deviation]) -> tuple[float, ...]:
    """Rank for sorting: by number and size of differences from what the paper states, then from our choices."""
    kinds = [[deviation for deviation in found if deviation.stated is stated] for stated in (True, False)]
    return tuple(x for kind in kinds for x in (len(kind), round(sum(deviation.distance for deviation in kind), 6)))


def paper_rank(experiment: Experiment) -> tuple[float, ...]:
    """Rank for sorting: nearest to one of the paper's settings first, then most seeds."""
    setting = experiment.setting
    near = [nearness(deviations(setting, name)) for name in paper()["configs"] if matches(setting, name)]
    return (*min(near, default=(float("inf"),)), -len(experiment.runs))


def is_conditional(key: str) -> bool:
    """Tell whether only some objectives have this detail, so that a run without it agrees with either value."""
    return key in _CONDITIONAL


def as_number(value: Any) -> Any:
    """Turn a value into a float where it is one, so that 100 and ``"100.0"`` are alike."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return value
