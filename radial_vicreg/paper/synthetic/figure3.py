"""Complete reproduction of figure 3: the sunshine, its final samples by beta2, E2MC against the radial loss.

E2MC is plotted as the loss :func:`~radial_vicreg.losses.e2mc_loss`: minus the marginal entropy of the sigmoid, plus
the hypercovariance. Under the name E2MC, the authors' script logs *plus* the marginal entropy alone, which has the
opposite sign. The results contain both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats
from numpy.typing import NDArray

from radial_vicreg.errors import UserError
from radial_vicreg.figures import figure_files, figure_style
from radial_vicreg.io.files import json_bytes
from radial_vicreg.names.counts import counted
from radial_vicreg.paper.synthetic import paper_figures
from radial_vicreg.paper.synthetic.best_settings import Row
from radial_vicreg.paper.synthetic.distances import measure
from radial_vicreg.paper.synthetic.folder import result_folder
from radial_vicreg.paper.synthetic.run import run
from radial_vicreg.paper.synthetic.settings import SyntheticConfig
from radial_vicreg.paper.synthetic.sweep import PRESETS, Grid, OnRow, sweep

Array = NDArray[np.float64]

_BETA2 = (0.0, 0.1, 1.0, 10.0, 100.0)
_CIRCLE: dict[str, Any] = {"beta1": 100.0, "beta2": 0.0, "lambda2": 1.0}
"""Weights of the sweep at which the cross-entropy outweighs the variance term, whose target is a radius of sqrt(d)."""


_NORMAL_SAMPLES = 10
"""Number of normal samples that the reference values are averaged over; single values vary by a few per cent."""
_METRICS = ("radial_kl", "e2mc", "marginal_entropy", "w2_exact")
"""Metrics of panel (c); the authors log ``marginal_entropy`` as E2MC."""


@dataclass(frozen=True)
class Size:
    """Size of the runs.

    Attributes:
        num_samples: number of points per run.
        steps: number of steps per run.
        subsample: number of points in the exact transport.
        lrs: rates of the runs in panel (c).
    """

    num_samples: int
    steps: int
    subsample: int
    lrs: tuple[float, ...]


SIZES = {
    # lr * steps / N, the distance that points can travel, is the same in both presets.
    "quick": Size(1000, 20_000, 500, (0.5, 0.05)),
    "full": Size(10_000, 200_000, 2000, (0.5,)),
}


def make_figure3(
    out: Path,
    preset: str = "quick",
    *,
    workers: int | None = None,
    on_row: OnRow | None = None,
) -> dict[str, Any]:
    """Make the runs of figure 3, plot them and write the results.

    Args:
        out: folder of ``figure3.png``, ``.pdf``, ``.svg``, ``results.json`` and the runs; the same call resumes.
        preset: ``quick`` or ``full``.
        workers: number of processes.
        on_row: progress callback, as in :func:`~.sweep.sweep`.

    Returns:
        The content of ``results.json``.

    Raises:
        UserError: the preset is unknown.
    """
    if preset not in SIZES:
        raise UserError(f"preset must be one of {', '.join(SIZES)}, got {preset!r}")
    size = SIZES[preset]
    base = SyntheticConfig(distribution="sunshine", num_samples=size.num_samples, steps=size.steps)
    betas = PRESETS["full"].axes["beta1"]
    axes = {"distribution": ("x", "sunshine"), "lr": size.lrs, "beta1": betas, "beta2": betas}
    grid = Grid(base, axes, size.subsample)
    rows = sweep(grid.runs(), out / "runs", subsample=size.subsample, workers=workers, on_row=on_row)
    finals = _final_points(base)
    normal = normal_reference(size)
    with figure_style():
        figure = figure_files(paper_figures.figure3(base.start(), finals, rows, normal), "figure3")
    finished = [row for row in rows if row["after"] is not None]
    radii = {title.replace("\n", ", "): np.linalg.norm(points, axis=1) for title, points in finals}
    numbers = {
        "size": vars(size),
        "radius": {
            title: {"mean": float(r.mean()), "std": float(r.std()), "median": float(np.median(r))}
            for title, r in radii.items()
        },
        "spearman": {name: _rank_correlations(finished, name) for name in ("x", "sunshine")},
        "normal": normal,
        "runs": len(rows),
        "diverged": len(rows) - len(finished),
    }
    result_folder(out).write({**figure, "results.json": json_bytes(numbers)})
    return numbers


def table_lines(numbers: dict[str, Any]) -> list[str]:
    """Write the numbers of ``results.json`` as text."""
    lines = [f"{'final radii of the sunshine':<52}{'mean':>8}{'std':>8}"]
    for title, radius in numbers["radius"].items():
        lines.append(f"{title.translate({36: None, 92: None, 95: None}):<52}{radius['mean']:8.3f}{radius['std']:8.3f}")
    lines += ["", f"{'rank correlation over runs':<34}{'x':>8}{'sunshine':>10}"]
    for pair in numbers["spearman"]["x"]:
        lines.append(f"{pair:<34}{numbers['spearman']['x'][pair]:8.2f}{numbers['spearman']['sunshine'][pair]:10.2f}")
    normal, count = numbers["normal"], numbers["size"]["num_samples"]
    lines.append(f"normal samples of N = {count:,}: " + ", ".join(f"{name} {normal[name]:.3f}" for name in _METRICS))
    lines.append(
        "The plot shows the E2MC loss; the authors log marginal_entropy under that name, with the opposite sign."
    )
    return [*lines, f"{counted(numbers['runs'], 'run')}, {numbers['diverged']} diverged"]


def normal_reference(size: Size) -> dict[str, float]:
    """Average the plotted metrics over samples of N(0, I) with the N of the runs, since they depend on N."""
    rng = np.random.default_rng(0)
    samples = [rng.standard_normal((size.num_samples, 2)) for _ in range(_NORMAL_SAMPLES)]
    measured = [measure(points, seed=seed, subsample=size.subsample) for seed, points in enumerate(samples)]
    return {name: float(np.mean([metrics[name] for metrics in measured])) for name in _METRICS}


def _final_points(base: SyntheticConfig) -> list[tuple[str, Array]]:
    panels = []
    configs = (replace(base, **_CIRCLE), *(replace(base, beta2=beta2) for beta2 in _BETA2))
    for number, config in enumerate(configs, 1):
        points, remark = _end(config)
        title = rf"(b{number}) $\beta_1={config.beta1:g}$, $\beta_2={config.beta2:g}$"
        panels.append((f"{title}\n$\\lambda_2={config.lambda2:g}${remark}", points))
    return panels


def _end(config: SyntheticConfig) -> tuple[Array, str]:
    """Return the final points of a run and, where it diverged, a remark."""
    result = run(config, snapshots=20, records=1)
    return result.end, "" if result.diverged_at is None else f", diverged at step {result.diverged_at}"


def _rank_correlations(rows: Sequence[Row], distribution: str) -> dict[str, float]:
    metrics = [row["after"] for row in rows if row["config"]["distribution"] == distribution]
    pairs = [pair for pair in combinations(_METRICS, 2) if pair != ("e2mc", "marginal_entropy")]
    return {
        f"{a} ~ {b}": float(scipy.stats.spearmanr([m[a] for m in metrics], [m[b] for m in metrics]).statistic)
        for a, b in pairs
    }
