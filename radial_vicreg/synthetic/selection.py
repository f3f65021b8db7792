"""What a sweep says: the best setting of each method at each alpha."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np

from radial_vicreg.synthetic.run import RunConfig

Row = dict[str, Any]

METHODS = ("radial_vcreg", "vcreg")


def method_of(config: dict[str, Any]) -> str:
    """``vcreg`` when both radial weights are zero, ``radial_vcreg`` otherwise."""
    return "vcreg" if config["beta1"] == config["beta2"] == 0 else "radial_vcreg"


def best_settings(rows: Iterable[Row], metric: str = "w2_exact") -> dict[tuple[float, str], RunConfig]:
    """The setting of lowest mean ``metric`` over its seeds, by alpha and method.

    Settings of which a seed diverged are out.

    Args:
        rows: rows of a sweep over one distribution.
        metric: key of the metrics.

    Returns:
        Configuration (of one of its seeds) by ``(alpha, method)``.
    """
    groups: dict[RunConfig, list[float]] = defaultdict(list)
    for row in rows:
        value = np.inf if row["after"] is None else row["after"][metric]
        groups[RunConfig(**{**row["config"], "seed": 0})].append(value)
    best: dict[tuple[float, str], tuple[float, RunConfig]] = {}
    for config, values in groups.items():
        place = config.alpha, method_of(vars(config))
        score = float(np.mean(values))
        if score < best.get(place, (np.inf, config))[0]:
            best[place] = score, config
    return {place: config for place, (_, config) in sorted(best.items(), key=lambda item: item[0])}


def summary_lines(rows: list[Row]) -> list[str]:
    """A table as text: by alpha the untouched start and the best of each method, then what went wrong."""
    best = best_settings(rows)
    values: dict[RunConfig, list[float]] = defaultdict(list)
    starts: dict[float, dict[int, float]] = defaultdict(dict)
    for row in rows:
        config = row["config"]
        starts[config["alpha"]][config["seed"]] = row["before"]["w2_exact"]
        if row["after"] is not None:
            values[RunConfig(**{**config, "seed": 0})].append(row["after"]["w2_exact"])
    lines = ["Wasserstein-2 to N(0, I), exact on a subsample; best setting of each, mean over seeds"]
    lines.append(f"{'alpha':>6}  {'start':>7}  {'VCReg':>7}  {'Radial-VCReg':>12}  setting of Radial-VCReg")
    for alpha in sorted(starts):
        line = f"{alpha:6g}  {np.mean(list(starts[alpha].values())):7.3f}"
        for method, width in (("vcreg", 7), ("radial_vcreg", 12)):
            config = best.get((alpha, method))
            line += f"  {'-':>{width}}" if config is None else f"  {np.mean(values[config]):{width}.3f}"
        if config is not None:
            line += f"  lr {config.lr:g}, beta {config.beta1:g} {config.beta2:g}"
            line += f", lambda {config.lambda2:g} {config.lambda3:g}"
        lines.append(line)
    diverged = sum(row["diverged_at"] is not None for row in rows)
    still = sum(row["hardly_moved"] for row in rows)
    lines.append(f"{len(rows)} runs, {diverged} diverged, {still} hardly moved")
    return lines
