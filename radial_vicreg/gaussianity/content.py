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
        rows: number of rows of a matrix, before the selection.
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
    images: str
    omitted_files: dict[str, int]


class Curves(TypedDict):
    """Curves of embeddings in the figure: histogram of the radii, spectrum, sorted statistics of the slices."""

    radii: dict[str, list[float]]
    spectrum: list[float]
    slices: list[float]


Variants = dict[str, Curves]
"""Curves of the embeddings: unchanged (``raw``) and ``standardised``."""


class Output(TypedDict):
    """Diagnosis of an output: N, d, statistics, statistics of normal samples of this size, and curves."""

    count: int
    dim: int
    statistics: dict[str, float]
    normal: dict[str, float]
    curves: Variants


class Measured(TypedDict):
    """A source with its outputs by name."""

    label: str
    details: Details
    outputs: dict[str, Output]


class Diagnosis(TypedDict):
    """The whole document; the keys of ``normal_curves`` are sizes, ``NxD``."""

    radial_vicreg: str
    seed: int
    slices: int
    normal_draws: int
    sources: list[Measured]
    normal_curves: dict[str, Variants]
