"""The structure of a diagnosis in ``diagnose.json``."""

from __future__ import annotations

from typing import TypedDict


class Details(TypedDict, total=False):
    """Details of a source; each kind of source has some of them.

    Attributes:
        kind: ``run``, ``export``, ``matrix`` or a library.
        source: path or name of the source.
        weights: weights of a library's backbone.
        untrained: whether the weights are random, from the run's seed.
        method: method of a run, see :func:`radial_vicreg.figures.configured_method`.
        epoch: epoch of a run's weights.
        checkpoint: file name of a run's checkpoint.
        config_hash: configuration hash of a run.
        experiment_hash: experiment hash of a run.
        architecture: architecture of an export.
        weights_sha256: checksum of an export's weights.
        rows: number of rows of a matrix, or of each view, before the selection.
        views: number of views in a matrix file.
        images: location of the images.
        omitted_files: number of files of unsupported types, by extension.
    """

    kind: str
    source: str
    weights: str
    untrained: bool
    method: str
    epoch: int | None
    checkpoint: str | None
    config_hash: str | None
    experiment_hash: str | None
    architecture: str
    weights_sha256: str
    rows: int
    views: int
    images: str
    omitted_files: dict[str, int]


class Curves(TypedDict):
    """Curves of embeddings in the figure: histogram of the radii, spectrum, sorted statistics of the slices."""

    radii: dict[str, list[float]]
    spectrum: list[float]
    slices: list[float]


Variants = dict[str, Curves]
"""Curves of the embeddings: unchanged (``raw``) and ``standardised``."""


class NormalCurves(Curves):
    """Curves of normal samples: radii of the first sample, medians of the others, and the range of each point."""

    spectrum_band: list[list[float]]
    slices_band: list[list[float]]


class Output(TypedDict):
    """Diagnosis of an output, next to normal samples of its size.

    Attributes:
        count: N.
        dim: d.
        statistics: statistics of the embeddings.
        draws: number of normal samples.
        normal: median of each statistic over these.
        normal_band: least and largest value over these.
        percentile: percentage of these with a smaller value; empty if there are too few.
        curves: curves of the embeddings.
    """

    count: int
    dim: int
    statistics: dict[str, float]
    draws: int
    normal: dict[str, float]
    normal_band: dict[str, tuple[float, float]]
    percentile: dict[str, float]
    curves: Variants


class Measured(TypedDict):
    """A source with its outputs by name."""

    label: str
    details: Details
    outputs: dict[str, Output]


class Diagnosis(TypedDict):
    """The whole document.

    Attributes:
        radial_vicreg: version.
        seed: seed of slices and normal samples.
        slices: number of slices.
        normal_draws: number of normal samples, the least of all sizes.
        sources: sources in the requested order.
        normal_curves: curves of normal samples by size, ``NxD``.
    """

    radial_vicreg: str
    seed: int
    slices: int
    normal_draws: int
    sources: list[Measured]
    normal_curves: dict[str, dict[str, NormalCurves]]
