"""Complete reproduction of figure 1: the X, the authors' published settings, the same weights at a stable rate.

The published rate is past the stability limit of gradient descent, so rounding decides where a single run ends, or
whether it diverges. Every number is therefore a median with its range over seeds, with the share of diverged runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from radial_vicreg.errors import UserError
from radial_vicreg.figures import figure_files, figure_style
from radial_vicreg.io.files import atomic_file, json_bytes
from radial_vicreg.paper.synthetic import paper_figures
from radial_vicreg.paper.synthetic.best_settings import PUBLISHED_WEIGHTS, Row, best_settings
from radial_vicreg.paper.synthetic.distances import measure, normal_floor
from radial_vicreg.paper.synthetic.folder import result_folder
from radial_vicreg.paper.synthetic.run import run
from radial_vicreg.paper.synthetic.settings import SyntheticConfig
from radial_vicreg.paper.synthetic.sweep import ALPHAS, OnRow, mixed, read_rows, sweep

Array = NDArray[np.float64]
Runs = dict[str, dict[str, list[SyntheticConfig]]]

PUBLISHED: dict[str, Any] = {**PUBLISHED_WEIGHTS, "schedule": "linear"}
"""The authors' command for figure 1b (with X, N = 10,000 and a rate of 0.5). The paper's text states a cosine."""
_VCREG: dict[str, Any] = {"beta1": 0.0, "beta2": 0.0}
X = "x"
"""Key used instead of alpha for runs on X itself, which panels (a) and (b) show."""
_REMARK = (
    "The paper plots the best of 1,125 settings for each method and alpha. Results past stability are noisy, "
    "and a minimum over noisy results is biased low: here, the settings are fixed beforehand and every seed counts."
)


class Range(TypedDict):
    """Median and range of a metric over the finished runs, and the values by seed."""

    median: float | None
    least: float | None
    largest: float | None
    by_seed: list[float | None]


class Spread(TypedDict):
    """Runs with one setting: their number, the number of diverged ones, and the metrics of the final points."""

    runs: int
    diverged: int
    w2_exact: Range
    radial_kl: Range
    off_diagonal_share: Range


@dataclass(frozen=True)
class Size:
    """Size of the runs.

    Attributes:
        num_samples: number of points per run.
        m: spacing of the entropy.
        steps: number of steps per run.
        lr: rate of the published settings.
        stable_lr: rate of the control.
        alphas: shares of X in panel (c).
        seeds: number of seeds per setting.
        subsample: number of points in the exact transport.
    """

    num_samples: int
    m: int
    steps: int
    lr: float
    stable_lr: float
    alphas: tuple[float, ...]
    seeds: int
    subsample: int


SIZES = {
    # m / N, lr / N and the steps are the same in both presets. So are then the length of a step and its distance past
    # stability: the entropy's spacings are m / (N p), its gradient scales with 1 / m and its curvature with N / m^2.
    "quick": Size(1000, 10, 200_000, 0.05, 0.0005, ALPHAS, 8, 500),
    "full": Size(10_000, 100, 200_000, 0.5, 0.005, ALPHAS, 5, 2000),
}


def make_figure1(
    out: Path,
    preset: str = "quick",
    *,
    sweep_folder: Path | None = None,
    seeds: int | None = None,
    workers: int | None = None,
    on_row: OnRow | None = None,
) -> dict[str, Any]:
    """Make the runs of figure 1, plot them and write the results.

    Args:
        out: folder of ``figure1.png``, ``.pdf``, ``.svg``, ``results.json`` and the runs; the same call resumes.
        preset: ``quick`` or ``full``.
        sweep_folder: folder of a sweep whose best settings are plotted as well, as in the paper.
        seeds: number of seeds per setting; default: the preset's.
        workers: number of processes.
        on_row: progress callback, as in :func:`~.sweep.sweep`.

    Returns:
        The content of ``results.json``.

    Raises:
        UserError: the preset is unknown, there are fewer than one seed, or the sweep folder has no rows.
    """
    if preset not in SIZES:
        raise UserError(f"preset must be one of {', '.join(SIZES)}, got {preset!r}")
    if seeds is not None and seeds < 1:
        raise UserError(f"seeds must be at least 1, got {seeds}")
    size = SIZES[preset] if seeds is None else replace(SIZES[preset], seeds=seeds)
    best = None if sweep_folder is None else _best_of_sweep(sweep_folder)
    runs = planned_runs(size)
    made = sweep(
        mixed(config for by_alpha in runs.values() for group in by_alpha.values() for config in group),
        out / "runs",
        subsample=size.subsample,
        workers=workers,
        on_row=on_row,
    )
    rows = {row["key"]: row for row in made}
    numbers = {"preset": preset, "size": vars(size), **_numbers(runs, rows), "best_of_sweep": best, "remark": _REMARK}
    floors = [normal_floor(size.subsample, 2, seed) for seed in range(size.seeds)]
    numbers["floor"] = float(np.mean(floors))
    panels = list(_panels(runs, rows, size, out / "clouds", on_row))
    numbers["panels"] = [{"title": title, **shown} for title, _, shown in panels]
    shown = [(title, points) for title, points, _ in panels]
    with figure_style():
        figure = figure_files(paper_figures.figure1(shown, numbers), "figure1")
    result_folder(out).write({**figure, "results.json": json_bytes(numbers)})
    return numbers


def planned_runs(size: Size) -> Runs:
    """List every run of the figure by method and share of X (``x`` is X itself), one per seed."""
    # The default m is round(sqrt(N)); stating it explicitly would change the key of the run.
    m = None if size.m == round(math.sqrt(size.num_samples)) else size.m
    published = SyntheticConfig(num_samples=size.num_samples, m=m, steps=size.steps, lr=size.lr, **PUBLISHED)
    settings = {
        "radial_vcreg": published,
        "radial_vcreg_cosine": replace(published, schedule="cosine"),
        "radial_vcreg_stable": replace(published, lr=size.stable_lr),
        "vcreg": replace(published, **_VCREG),
    }
    runs: Runs = {}
    for method, config in settings.items():
        places = {X: config}
        if method != "radial_vcreg_cosine":
            places |= {f"{alpha:g}": replace(config, distribution="mixture", alpha=alpha) for alpha in size.alphas}
        runs[method] = {
            place: [replace(config, seed=seed) for seed in range(size.seeds)] for place, config in places.items()
        }
    return runs


def table_lines(numbers: dict[str, Any]) -> list[str]:
    """Write ``results.json`` as text: X for every seed, the distances over alpha, and an explanation."""
    size, methods = numbers["size"], numbers["methods"]
    lines = [
        f"N = {size['num_samples']:,}, {size['steps']:,} steps, seeds 0 to {size['seeds'] - 1}: "
        "median [least, largest] of the runs that finished.",
        f"W2 to N(0, I), exact on {size['subsample']:,} points; two normal samples have {numbers['floor']:.3f}.",
        f"m = {size['m']} and the rate {size['lr']:g} scale with N; the published values are 100 and 0.5 at N = "
        "10,000.",
        "",
        f"{'X':<36}{'W2':<22}{'KL of radii':<13}{'off diagonals':<15}{'diverged':<10}W2 by seed",
    ]
    for method, label in _labels(size).items():
        spread = methods[method][X]
        by_seed = " ".join("-" if value is None else f"{value:.3f}" for value in spread["w2_exact"]["by_seed"])
        lines.append(
            f"{label:<36}{_range(spread['w2_exact']):<22}{_median(spread['radial_kl']):<13}"
            f"{_median(spread['off_diagonal_share']):<15}{_diverged(spread):<10}{by_seed}"
        )
    in_curves = {method: label for method, label in _labels(size).items() if method in paper_figures.METHODS}
    lines += ["", f"{'alpha':<8}" + "".join(f"{label:<36}" for label in in_curves.values()).rstrip()]
    for alpha in size["alphas"]:
        spreads = [methods[method][f"{alpha:g}"] for method in in_curves]
        cells = [_range(s["w2_exact"]) + (f" ({_diverged(s)} diverged)" if s["diverged"] else "") for s in spreads]
        lines.append(f"{alpha:<8g}" + "".join(f"{cell:<36}" for cell in cells).rstrip())
    return [*lines, "", numbers["remark"]]


def _best_of_sweep(folder: Path) -> dict[str, object]:
    rows = read_rows(folder)
    if not rows:
        raise UserError(f"no sweep results in {folder}; make them with: synthetic sweep --out {folder}")
    best = {alpha: config for (alpha, method), config in best_settings(rows).items() if method == "radial_vcreg"}
    values: dict[SyntheticConfig, list[float]] = {config: [] for config in best.values()}
    for row in rows:
        setting = SyntheticConfig(**{**row["config"], "seed": 0})
        if setting in values:
            values[setting].append(row["after"]["w2_exact"])
    return {
        f"{alpha:g}": {"w2_exact": float(np.mean(values[config])), "setting": _setting(config)}
        for alpha, config in best.items()
    }


def _labels(size: Mapping[str, float]) -> dict[str, str]:
    return {
        "start": "untouched",
        "vcreg": "VCReg",
        "radial_vcreg": f"published weights, lr {size['lr']:g}",
        "radial_vcreg_cosine": f"published weights, lr {size['lr']:g}, cosine",
        "radial_vcreg_stable": f"published weights, lr {size['stable_lr']:g}",
    }


def _setting(config: SyntheticConfig) -> dict[str, object]:
    """Return the settings that all runs of a method share."""
    return {name: value for name, value in vars(config).items() if name not in ("distribution", "alpha", "seed")}


def _numbers(runs: Runs, rows: dict[str, Row]) -> dict[str, object]:
    """Collect settings by method, and spreads by method and share of X; ``start`` is the start of the VCReg runs."""
    methods = {
        method: {place: _spread([rows[config.key] for config in group]) for place, group in by_alpha.items()}
        for method, by_alpha in runs.items()
    }
    methods["start"] = {
        place: _spread([{"after": rows[config.key]["before"]} for config in group])
        for place, group in runs["vcreg"].items()
    }
    return {"settings": {method: _setting(by_alpha[X][0]) for method, by_alpha in runs.items()}, "methods": methods}


def _spread(rows: list[Row]) -> Spread:
    """Compute median and range over the finished runs, values by seed (None: diverged), and count diverged runs."""
    return {
        "runs": len(rows),
        "diverged": sum(row["after"] is None for row in rows),
        "w2_exact": _range_of(rows, "w2_exact"),
        "radial_kl": _range_of(rows, "radial_kl"),
        "off_diagonal_share": _range_of(rows, "off_diagonal_share"),
    }


def _range_of(rows: list[Row], metric: str) -> Range:
    by_seed = [None if row["after"] is None else row["after"][metric] for row in rows]
    finished = [value for value in by_seed if value is not None]
    return {
        "median": float(np.median(finished)) if finished else None,
        "least": min(finished, default=None),
        "largest": max(finished, default=None),
        "by_seed": by_seed,
    }


def _panels(
    runs: Runs, rows: dict[str, Row], size: Size, folder: Path, on_row: OnRow | None
) -> Iterator[tuple[str, Array, dict[str, object]]]:
    """Make panels (a), (b), (b'): title, points, numbers, all for the seed with the median distance in (b)."""
    seed = _median_seed([rows[config.key] for config in runs["radial_vcreg"][X]])
    published, stable = (runs[method][X][seed] for method in ("radial_vcreg", "radial_vcreg_stable"))
    shown = {
        "(a) X-distribution": None,
        f"(b) published weights, lr {size.lr:g}": published,
        f"(b') the same, stable lr {size.stable_lr:g}": stable,
    }
    tell = on_row or (lambda *_: None)
    tell(0, len(shown), None)
    for done, (title, config) in enumerate(shown.items(), 1):
        points = published.start() if config is None else _end(config, folder)
        value = measure(points, seed=seed, subsample=size.subsample)["w2_exact"]
        diverged = config is not None and rows[config.key]["after"] is None
        yield title, points, {"seed": seed, "w2_exact": value, "diverged": diverged}
        tell(done, len(shown), {})


def _median_seed(rows: list[Row]) -> int:
    """Return the seed with the median distance of the finished runs: a typical run, not the best one."""
    finished = [seed for seed, row in enumerate(rows) if row["after"] is not None]
    ordered = sorted(finished, key=lambda seed: rows[seed]["after"]["w2_exact"])
    return ordered[(len(ordered) - 1) // 2] if ordered else 0


def _end(config: SyntheticConfig, folder: Path) -> Array:
    """Return the final points of a run (the last finite ones if it diverged), cached in ``folder``."""
    path = folder / f"{config.key}.npy"
    if not path.exists():
        with atomic_file(path) as stream:
            np.save(stream, run(config, snapshots=20, records=1).end)
    points: Array = np.load(path)
    return points


def _range(metric: Range) -> str:
    if metric["median"] is None:
        return "-"
    return f"{metric['median']:.3f} [{metric['least']:.3f}, {metric['largest']:.3f}]"


def _median(metric: Range) -> str:
    return "-" if metric["median"] is None else f"{metric['median']:.3f}"


def _diverged(spread: Spread) -> str:
    return f"{spread['diverged']}/{spread['runs']}"
