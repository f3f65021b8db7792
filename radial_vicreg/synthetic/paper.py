"""Figures 1 and 3 of the paper from nothing: make the runs, draw them, write their numbers beside them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats
from numpy.typing import NDArray

from radial_vicreg.files import write_json
from radial_vicreg.synthetic import figures
from radial_vicreg.synthetic.metrics import normal_floor
from radial_vicreg.synthetic.run import RunConfig, run
from radial_vicreg.synthetic.selection import best_settings
from radial_vicreg.synthetic.sweep import PRESETS, Grid, read_rows, sweep

Array = NDArray[np.float64]
Row = dict[str, Any]
OnRow = Callable[[int, int, Row | None], None]

FRESH_SEED = 1000
"""First seed of the runs that are shown: settings are chosen on other seeds, so no luck is selected."""
FIGURE3_BETA2 = (0.0, 0.1, 1.0, 10.0, 100.0)
PAST_STABILITY: dict[str, Any] = {"beta1": 10.0, "beta2": 10.0}
"""Weights of the sweep at which a rate of 0.5 is past the stability of gradient descent."""
CIRCLE: dict[str, Any] = {"beta1": 100.0, "beta2": 0.0, "lambda2": 1.0}
"""Weights of the sweep at which the cross-entropy outweighs the variance term, which asks for radius sqrt(d)."""


@dataclass(frozen=True)
class Size:
    """How large the runs of a figure are.

    Attributes:
        num_samples: points a run.
        steps: steps a run.
        seeds: seeds a setting.
        subsample: points of the exact transport.
        figure3_lrs: rates of the runs of figure 3c.
    """

    num_samples: int
    steps: int
    seeds: int
    subsample: int
    figure3_lrs: tuple[float, ...]


SIZES = {
    # lr * steps / N is the same in both, and with it how far a rate carries.
    "quick": Size(1000, 20_000, 3, 500, (0.5, 0.05)),
    "full": Size(10_000, 200_000, 4, 2000, (0.5,)),
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
    """Figure 1: choose each method's best setting by a sweep, then show it on fresh seeds.

    Args:
        out: folder of ``figure1.png``, ``figure1.json`` and the runs; it can be resumed.
        preset: ``quick`` or ``full``, the size of the runs that are shown.
        sweep_folder: rows to choose from; by default the quick sweep is made first.
        seeds: seeds a setting; by default the preset's.
        workers: processes.
        on_row: progress, as in :func:`~.sweep.sweep`.

    Returns:
        The content of ``figure1.json``.

    Raises:
        ValueError: an unknown preset, fewer than one seed, or a sweep folder without rows.
    """
    size = _size(preset, seeds)
    best = best_settings(_choice_rows(out, sweep_folder, workers, on_row))
    alphas = sorted({alpha for alpha, _ in best})
    base = RunConfig(distribution="mixture", num_samples=size.num_samples, steps=size.steps)
    chosen = {
        (alpha, method): replace(config, num_samples=size.num_samples, steps=size.steps)
        for (alpha, method), config in best.items()
    }
    chosen |= {(alpha, "radial_vcreg_1_1"): replace(base, alpha=alpha) for alpha in alphas}
    seeded = {
        place: [replace(config, seed=FRESH_SEED + seed) for seed in range(size.seeds)]
        for place, config in chosen.items()
    }
    configs = list(dict.fromkeys(config for group in seeded.values() for config in group))
    made = sweep(configs, out / "runs", subsample=size.subsample, workers=workers, on_row=on_row)
    rows = {row["key"]: row for row in made}
    curves = _curves(seeded, rows)
    floor = float(np.mean([normal_floor(size.subsample, 2, seed) for seed in range(size.seeds)]))
    figures.figure1(_figure1_points(base), curves, floor, out / "figure1.png")
    numbers = {
        "size": vars(size),
        "settings": {f"{method} alpha={alpha:g}": vars(config) for (alpha, method), config in chosen.items()},
        "w2_exact": {method: {f"{alpha:g}": v for alpha, v in by.items()} for method, by in curves.items()},
        "floor": floor,
        "diverged": sum(row["diverged_at"] is not None for row in made),
    }
    write_json(out / "figure1.json", numbers)
    return numbers


def make_figure3(
    out: Path,
    preset: str = "quick",
    *,
    workers: int | None = None,
    on_row: OnRow | None = None,
) -> dict[str, Any]:
    """Figure 3: the sunshine, its final samples by beta2, and E2MC against the radial loss over runs.

    Args:
        out: folder of ``figure3.png``, ``figure3.json`` and the runs; it can be resumed.
        preset: ``quick`` or ``full``.
        workers: processes.
        on_row: progress, as in :func:`~.sweep.sweep`.

    Returns:
        The content of ``figure3.json``.

    Raises:
        ValueError: an unknown preset.
    """
    size = _size(preset, None)
    base = RunConfig(distribution="sunshine", num_samples=size.num_samples, steps=size.steps)
    betas = PRESETS["full"].axes["beta1"]
    axes = {"distribution": ("x", "sunshine"), "lr": size.figure3_lrs, "beta1": betas, "beta2": betas}
    grid = Grid(base, axes, size.subsample)
    rows = sweep(grid.runs(), out / "runs", subsample=size.subsample, workers=workers, on_row=on_row)
    finals = _figure3_points(base)
    figures.figure3(base.start(), finals, rows, out / "figure3.png")
    finished = [row for row in rows if row["after"] is not None]
    radii = {title: np.linalg.norm(points, axis=1) for title, points in finals}
    numbers = {
        "size": vars(size),
        "radius": {
            title: {"mean": float(r.mean()), "std": float(r.std()), "median": float(np.median(r))}
            for title, r in radii.items()
        },
        "spearman": {name: _rank_correlations(finished, name) for name in ("x", "sunshine")},
        "runs": len(rows),
        "diverged": len(rows) - len(finished),
    }
    write_json(out / "figure3.json", numbers)
    return numbers


def _size(preset: str, seeds: int | None) -> Size:
    if preset not in SIZES:
        raise ValueError(f"preset must be one of {', '.join(SIZES)}, got {preset!r}")
    if seeds is not None and seeds < 1:
        raise ValueError(f"seeds must be at least 1, got {seeds}")
    size = SIZES[preset]
    return size if seeds is None else replace(size, seeds=seeds)


def _choice_rows(out: Path, folder: Path | None, workers: int | None, on_row: OnRow | None) -> Sequence[Row]:
    if folder is None:
        grid = PRESETS["quick"]
        return sweep(grid.runs(), out / "choice", subsample=grid.subsample, workers=workers, on_row=on_row)
    rows = read_rows(folder)
    if not rows:
        raise ValueError(f"no sweep results in {folder}; make them with: synthetic sweep --out {folder}")
    return rows


def _curves(
    seeded: dict[tuple[float, str], list[RunConfig]], rows: dict[str, Row]
) -> dict[str, dict[float, list[float]]]:
    curves: dict[str, dict[float, list[float]]] = {
        method: defaultdict(list) for method in ("start", "vcreg", "radial_vcreg", "radial_vcreg_1_1")
    }
    for (alpha, method), configs in sorted(seeded.items()):
        for config in configs:
            row = rows[config.key]
            if row["after"] is not None:
                curves[method][alpha].append(row["after"]["w2_exact"])
            if method == "radial_vcreg_1_1":
                curves["start"][alpha].append(row["before"]["w2_exact"])
    return curves


def _figure1_points(base: RunConfig) -> list[tuple[str, Array]]:
    x = replace(base, distribution="x", alpha=1.0)
    return [
        ("(a) X-distribution", x.start()),
        (rf"(b) after Radial-VCReg, $\beta_1=\beta_2=1$, lr {x.lr:g}", _end(x)[0]),
        (rf"(b') $\beta_1=\beta_2=10$, lr {x.lr:g}: past stability", _end(replace(x, **PAST_STABILITY))[0]),
    ]


def _figure3_points(base: RunConfig) -> list[tuple[str, Array]]:
    panels = []
    for config in (replace(base, **CIRCLE), *(replace(base, beta2=beta2) for beta2 in FIGURE3_BETA2)):
        points, remark = _end(config)
        weights = rf"$\beta_1={config.beta1:g}$, $\beta_2={config.beta2:g}$, $\lambda_2={config.lambda2:g}$"
        panels.append((f"(b) {weights}{remark}", points))
    return panels


def _end(config: RunConfig) -> tuple[Array, str]:
    """Final points of a run and, where it diverged, a remark."""
    result = run(config, snapshots=20, records=1)
    return result.end, "" if result.diverged_at is None else f", diverged at step {result.diverged_at}"


def _rank_correlations(rows: Sequence[Row], distribution: str) -> dict[str, float]:
    metrics = [row["after"] for row in rows if row["config"]["distribution"] == distribution]
    pairs = (("radial_kl", "e2mc"), ("radial_kl", "w2_exact"), ("e2mc", "w2_exact"))
    return {
        f"{a} ~ {b}": float(scipy.stats.spearmanr([m[a] for m in metrics], [m[b] for m in metrics]).statistic)
        for a, b in pairs
    }
