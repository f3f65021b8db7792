"""Train the methods of a trial, and measure them on the same images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from radial_vicreg import __version__
from radial_vicreg.compose import compose, run_config
from radial_vicreg.figures import configured_method, method_label
from radial_vicreg.gaussianity.content import Curves
from radial_vicreg.gaussianity.measure import diagnose
from radial_vicreg.gaussianity.settings import Settings
from radial_vicreg.names.probes import HOST_PROBE, frozen_key
from radial_vicreg.runs.stored import open_stored_run
from radial_vicreg.train.run import pretrain
from radial_vicreg.trial import CONFIGURATION, METHODS

_OUTPUT = "projector"
_CONFIDENCE = 0.95


class Accuracy(TypedDict):
    """Top-1 accuracy of a linear probe of frozen features in percent, with Wilson's 95 % interval."""

    top1: float
    low: float
    high: float


class Measured(TypedDict):
    """A trained method.

    Attributes:
        label: name for people.
        style: key of its style, see :func:`radial_vicreg.figures.method_key`.
        run: folder of the run.
        steps: number of its optimizer steps.
        statistics: statistics of the projector's output, see
            :func:`radial_vicreg.diagnostics.gaussianity_statistics`.
        curves: histogram of the radii and spectrum.
        probe: accuracy after training; None without labels.
    """

    label: str
    style: str
    run: str
    steps: int
    statistics: dict[str, float]
    curves: Curves
    probe: Accuracy | None


class Comparison(TypedDict):
    """The content of ``comparison.json``.

    Attributes:
        radial_vicreg: version.
        count: number N of embeddings.
        dim: dimension d.
        methods: the trained methods.
        untrained: accuracy of the untrained network; None without labels.
        normal: statistics of normal samples of the same size.
        normal_curves: curves of a normal sample.
    """

    radial_vicreg: str
    count: int
    dim: int
    methods: list[Measured]
    untrained: Accuracy | None
    normal: dict[str, float]
    normal_curves: Curves


def train(overrides: Sequence[str]) -> list[Path]:
    """Train every method with the quickstart's configuration; finished runs of the same configuration are kept.

    Args:
        overrides: Hydra overrides that all methods share.

    Returns:
        Folders of the runs, in the order of :data:`METHODS`.

    Raises:
        UserError: see :func:`radial_vicreg.train.run.pretrain`, also for the other errors.
    """
    configs = [
        run_config(compose(CONFIGURATION, [f"radialvicreg/method={method}", "ckpt=auto", *overrides]))
        for method in METHODS
    ]
    runs = []
    for config in configs:
        print(f"\n{method_label(configured_method(config.plain()))}")
        runs.append(pretrain(config))
    return runs


def compare(runs: Sequence[Path]) -> Comparison:
    """Measure the projector outputs of the runs, and read their probes.

    Args:
        runs: folders from :func:`train`.

    Returns:
        The comparison.
    """
    content = diagnose([str(run) for run in runs], Settings(workers=0))
    measured: list[Measured] = []
    untrained = None
    first = content["sources"][0]["outputs"][_OUTPUT]
    for run, source in zip(runs, content["sources"], strict=True):
        found, results = source["outputs"][_OUTPUT], open_stored_run(run).results
        frozen = getattr(results.probes, frozen_key(HOST_PROBE), None)
        figures = [None, None] if frozen is None else [frozen.untrained, frozen.trained]
        before, after = (
            None if each is None or each.top1 is None else _accuracy(each.top1, found["count"]) for each in figures
        )
        untrained = untrained or before
        measured.append(
            {
                "label": method_label(source["details"]["method"]),
                "style": source["details"]["method"],
                "run": str(run),
                "steps": results.steps or 0,
                "statistics": found["statistics"],
                "curves": found["curves"]["raw"],
                "probe": after,
            }
        )
    return {
        "radial_vicreg": __version__,
        "count": first["count"],
        "dim": first["dim"],
        "methods": measured,
        "untrained": untrained,
        "normal": first["normal"],
        "normal_curves": content["normal_curves"][f"{first['count']}x{first['dim']}"]["raw"],
    }


def _accuracy(top1: float, images: int) -> Accuracy:
    from scipy.stats import binomtest

    interval = binomtest(round(top1 * images / 100), images).proportion_ci(_CONFIDENCE, method="wilson")
    return {"top1": top1, "low": 100 * float(interval.low), "high": 100 * float(interval.high)}
