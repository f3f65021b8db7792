"""The figure of docs/offset.md: what share of the radii is an offset while a network trains.

    python -m benchmarks.offset --out docs/figures

Plots the logged terms of the second study's longest trainings in ``docs/evidence``: mean and range over the seeds.
Nothing is trained.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.studies import EVIDENCE, epochs_of, methods_of, runs_of
from radial_vicreg.figures import add_legend, figure_style, method_styles, name_panels, new_figure
from radial_vicreg.report.collect import Run

TERMS = {
    "train_embedding_mean_share": "share of the mean",
    "train_embedding_trace": "tr C / (d − 1)",
    "train_vicreg_variance": "hinge",
}
STUDIES = ("study2_length", "study2")
_NAME = "offset.png"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    with figure_style():
        figure = offset_figure(longest_runs())
        out.mkdir(parents=True, exist_ok=True)
        figure.savefig(out / _NAME, metadata={"Software": None})
    print(f"wrote {out / _NAME}")


def longest_runs(evidence: Path = EVIDENCE) -> list[Run]:
    """Read the runs of the second study that trained longest."""
    runs = [run for study in STUDIES for run in runs_of(evidence / study)]
    longest = max(epochs_of(run) for run in runs)
    return [run for run in runs if epochs_of(run) == longest]


def offset_figure(runs: Sequence[Run]) -> Any:
    """Plot one panel per term, one line per method: the mean over the seeds, and their range."""
    figure, axes = new_figure(1, len(TERMS), wide=True, aspect=0.36)
    styles = method_styles(run.setting.key for run in runs)
    handles = []
    methods = methods_of(runs)
    for place, method in enumerate(methods):
        mine = [run for run in runs if run.setting.kind == method]
        style = styles[mine[0].setting.key]
        for axis, term in zip(axes[0], TERMS, strict=True):
            curves = np.array([[entry.figure(term) for entry in run.results.history] for run in mine])
            epochs = np.arange(1, curves.shape[1] + 1)
            axis.fill_between(epochs, curves.min(axis=0), curves.max(axis=0), color=style.colour, alpha=0.2, lw=0)
            every = max(len(epochs) // 6, 1)
            marked = (place * every // len(methods), every)  # markers of coinciding lines do not overlap
            look = {"color": style.colour, "marker": style.marker, "markevery": marked}
            (line,) = axis.plot(epochs, curves.mean(axis=0), **look)
        line.set_label(method)
        handles.append(line)
    for axis in axes[0]:
        axis.set_xlabel("epoch")
        axis.set_ylim(bottom=0)
        axis.xaxis.get_major_locator().set_params(integer=True)
    name_panels(axes[0], list(TERMS.values()))
    add_legend(figure, handles)
    return figure


if __name__ == "__main__":
    main()
