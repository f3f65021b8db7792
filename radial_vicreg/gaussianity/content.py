"""The document of a diagnosis, as ``diagnose.json`` has it."""

from __future__ import annotations

from typing import TypedDict


class Details(TypedDict, total=False):
    """What is known of a source; each kind has some of it.

    Attributes:
        kind: ``run``, ``export``, ``matrix`` or a library.
        source: its path or name.
        weights: of a library's backbone.
        untrained: the weights are those of the run's seed.
        method: of a run, see :func:`radial_vicreg.figures.configured_method`.
        epoch: of its weights.
        checkpoint: name of its file.
        config_hash: of the run.
        experiment_hash: of the run.
        architecture: of an export.
        weights_sha256: of an export.
        rows: of a matrix, before some are chosen.
        images: where they lie.
        omitted_files: numbers of files whose type is not read, by extension.
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
    """What the figure shows of embeddings: histogram of the radii, spectrum, sorted statistics of the slices."""

    radii: dict[str, list[float]]
    spectrum: list[float]
    slices: list[float]


Variants = dict[str, Curves]
"""Curves of embeddings as they are, ``raw``, and ``standardised``."""


class Output(TypedDict):
    """Numbers of an output: N, d, statistics, those of normal samples of this size, and curves."""

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
    """The whole document; ``normal_curves`` are by size, ``NxD``."""

    radial_vicreg: str
    seed: int
    slices: int
    normal_draws: int
    sources: list[Measured]
    normal_curves: dict[str, Variants]
