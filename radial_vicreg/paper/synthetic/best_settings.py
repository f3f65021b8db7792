"""Evaluation of a sweep: the best setting of each method at each alpha, and its selection bias."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from radial_vicreg.names.counts import counted
from radial_vicreg.paper.synthetic.settings import SyntheticConfig

Row = dict[str, Any]
"""Entry of a run in the results of a sweep, see :func:`radial_vicreg.paper.synthetic.run.summarise`."""

METRIC = "w2_exact"
"""The metric that the best setting minimises."""
METHODS = ("radial_vcreg", "vcreg")
PUBLISHED_WEIGHTS: dict[str, float] = {"beta1": 100.0, "beta2": 100.0, "lambda2": 1.0, "lambda3": 1.0}
"""Weights of the authors' command for figure 1b."""


def method_of(config: Mapping[str, object]) -> str:
    """Return ``vcreg`` when both radial weights are zero, ``radial_vcreg`` otherwise."""
    return "vcreg" if config["beta1"] == config["beta2"] == 0 else "radial_vcreg"


def best_settings(rows: Iterable[Row]) -> dict[tuple[float, str], SyntheticConfig]:
    """Find the setting with the lowest mean :data:`METRIC` over its seeds, by alpha and method.

    Settings with a diverged seed are excluded.

    Args:
        rows: rows of a sweep over one distribution.

    Returns:
        Configuration (for one of its seeds) by ``(alpha, method)``.
    """
    groups: dict[SyntheticConfig, list[float]] = defaultdict(list)
    for row in rows:
        value = np.inf if row["after"] is None else row["after"][METRIC]
        groups[SyntheticConfig(**{**row["config"], "seed": 0})].append(value)
    best: dict[tuple[float, str], tuple[float, SyntheticConfig]] = {}
    for config, values in groups.items():
        place = config.alpha, method_of(vars(config))
        score = float(np.mean(values))
        if score < best.get(place, (np.inf, config))[0]:
            best[place] = score, config
    return {place: config for place, (_, config) in sorted(best.items(), key=lambda item: item[0])}


def winners_on_other_seeds(rows: Iterable[Row]) -> dict[float, tuple[float, float | None, float]]:
    """Measure the selection bias of a minimum over settings: select on one seed, evaluate on the others.

    Args:
        rows: rows of a sweep over one distribution with several seeds.

    Returns:
        By alpha, means over the selecting seed: the lowest value of a Radial-VCReg setting on that seed; the value of
        the same setting on the other seeds (None if all of these runs diverged); the share of these runs that
        diverged. An alpha with only one seed is omitted.
    """
    values: dict[float, dict[SyntheticConfig, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        config = row["config"]
        if method_of(config) == "radial_vcreg":
            value = np.inf if row["after"] is None else row["after"][METRIC]
            values[config["alpha"]][SyntheticConfig(**{**config, "seed": 0})][config["seed"]] = value
    result = {}
    for alpha, by_setting in sorted(values.items()):
        seeds = {seed for by_seed in by_setting.values() for seed in by_seed}
        least, elsewhere = [], []
        for seed in seeds:
            best = min(by_setting.values(), key=lambda by_seed: by_seed.get(seed, np.inf))
            if not np.isfinite(best.get(seed, np.inf)):
                continue
            least.append(best[seed])
            elsewhere += [value for other, value in best.items() if other != seed]
        if elsewhere:
            finished = [value for value in elsewhere if np.isfinite(value)]
            mean = float(np.mean(finished)) if finished else None
            result[alpha] = float(np.mean(least)), mean, 1 - len(finished) / len(elsewhere)
    return result


def summary_lines(rows: list[Row]) -> list[str]:
    """Write a text table: for each alpha, the starting points and the best of each method; then the diverged runs."""
    best = best_settings(rows)
    values: dict[SyntheticConfig, list[float]] = defaultdict(list)
    starts: dict[float, dict[int, float]] = defaultdict(dict)
    for row in rows:
        config = row["config"]
        starts[config["alpha"]][config["seed"]] = row["before"]["w2_exact"]
        if row["after"] is not None:
            values[SyntheticConfig(**{**config, "seed": 0})].append(row["after"]["w2_exact"])
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
    lines += _published_lines(rows)
    lines.append(
        "A minimum over noisy settings is biased low. Best setting by one seed, then its result on the other seeds:"
    )
    for alpha, (least, elsewhere, diverged_share) in winners_on_other_seeds(rows).items():
        other = "-" if elsewhere is None else f"{elsewhere:.3f}"
        lines.append(f"{alpha:6g}  {least:7.3f}  {other:>7}  ({diverged_share:.0%} of these diverged)")
    if len({row["config"]["seed"] for row in rows}) < 2:
        lines[-1] = "A minimum over noisy settings is biased low: with one seed per setting, the bias is unknown"
    diverged = sum(row["diverged_at"] is not None for row in rows)
    still = sum(row["hardly_moved"] for row in rows)
    lines.append(f"{counted(len(rows), 'run')}, {diverged} diverged, {still} hardly moved")
    return lines


def _published_lines(rows: list[Row]) -> list[str]:
    """Write the results of the published weights by alpha and rate; best settings exclude diverged seeds."""
    values: dict[tuple[float, float], list[float | None]] = defaultdict(list)
    for row in rows:
        config = row["config"]
        if PUBLISHED_WEIGHTS.items() <= config.items():
            value = None if row["after"] is None else row["after"]["w2_exact"]
            values[config["alpha"], config["lr"]].append(value)
    lines = []
    for (alpha, lr), by_seed in sorted(values.items()):
        finished = [value for value in by_seed if value is not None]
        text = f"{np.median(finished):.3f} [{min(finished):.3f}, {max(finished):.3f}]" if finished else "-"
        lines.append(f"{alpha:6g}  lr {lr:<8g} {text:<22} {len(by_seed) - len(finished)}/{len(by_seed)} diverged")
    if lines:
        lines.insert(
            0, "Published weights (beta 100 100, lambda 1 1), median [least, largest] of the runs that finished:"
        )
    return lines
