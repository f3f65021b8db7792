"""Computation of embeddings and their statistics for each source, and of the statistics of normal samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Subset

from radial_vicreg import __version__
from radial_vicreg.data.batches import evenly_spaced
from radial_vicreg.data.errors import resources_named
from radial_vicreg.diagnostics import lidar
from radial_vicreg.diagnostics.slices import SLICES
from radial_vicreg.diagnostics.spectrum import evenly_spaced_rows
from radial_vicreg.errors import UserError
from radial_vicreg.gaussianity.content import Diagnosis, Measured, Output
from radial_vicreg.gaussianity.matrix import statistics_and_curves
from radial_vicreg.gaussianity.references import normal_reference
from radial_vicreg.gaussianity.settings import Settings
from radial_vicreg.gaussianity.sources import Matrix, Network, Source, open_sources
from radial_vicreg.io.terminal import track

MATRIX = "embeddings"
"""Name of the only output of a matrix."""


def diagnose(names: Sequence[str], settings: Settings, untrained: bool = False) -> Diagnosis:
    """Diagnose one or more sources.

    Args:
        names: see :func:`radial_vicreg.gaussianity.sources.open_sources`.
        settings: settings of the images and the statistics.
        untrained: see :func:`radial_vicreg.gaussianity.sources.open_sources`.

    Returns:
        Content of the JSON file. ``sources``: for each ``label``, ``details`` and ``outputs``: for each output
        ``count`` N, ``dim`` d, its ``statistics`` (see :func:`radial_vicreg.gaussianity.matrix.matrix_statistics`; and
        ``lidar`` of views), their median in ``normal`` samples, ``normal_band`` and ``percentile``, and ``curves``:
        ``raw`` and ``standardised``, each with the histogram of the ``radii``, the ``spectrum`` and the sorted
        Epps-Pulley statistics of the ``slices``. ``normal_curves``: curves of normal samples for each ``NxD``.

    Raises:
        UserError: a source cannot be opened, or embeddings are not finite.
    """
    sources = open_sources(names, settings, untrained)
    measured = [_measure(source, settings) for source in sources]
    sizes = sorted({(o["count"], o["dim"]) for source in measured for o in source["outputs"].values()})
    return {
        "radial_vicreg": __version__,
        "seed": settings.seed,
        "slices": SLICES,
        "normal_draws": min(normal_reference(count, dim, settings.seed).draws for count, dim in sizes),
        "sources": measured,
        "normal_curves": {f"{count}x{dim}": normal_reference(count, dim, settings.seed).curves for count, dim in sizes},
    }


def _measure(source: Source, settings: Settings) -> Measured:
    embeddings = {MATRIX: source.embeddings} if isinstance(source, Matrix) else _embed(source, settings)
    outputs: dict[str, Output] = {}
    for name, z in embeddings.items():
        if z.ndim != 2:
            raise UserError(f"{source.label}: expected one vector per image, got {name} outputs {tuple(z.shape)}")
        _require_finite(z, f"{source.label}: {{}} embeddings ({name})")
        outputs[name] = _measure_matrix(z, settings.seed)
    if isinstance(source, Matrix) and source.views is not None:
        _require_finite(source.views, f"{source.label}: {{}} embeddings of all views")
        images = evenly_spaced_rows(source.views.transpose(0, 1))
        outputs[MATRIX]["statistics"]["lidar"] = lidar(images.transpose(0, 1))
    return {"label": source.label, "details": source.details, "outputs": outputs}


def _measure_matrix(z: Tensor, seed: int) -> Output:
    count, dim = z.shape
    statistics, curves = statistics_and_curves(z, seed)
    reference = normal_reference(count, dim, seed)
    return {
        "count": count,
        "dim": dim,
        "statistics": statistics,
        "draws": reference.draws,
        "normal": reference.medians(),
        "normal_band": reference.bands(),
        "percentile": reference.percentiles(statistics),
        "curves": curves,
    }


def _require_finite(z: Tensor, what: str) -> None:
    """Check the norms of the last dimension; ``what`` has a place for the number of bad ones."""
    finite = torch.isfinite(z.norm(dim=-1))
    if bad := int((~finite).sum()):
        counted = what.format(f"{bad} of {finite.numel()}")
        raise UserError(f"{counted} are not finite, or too large for float32: they cannot be measured")


def _embed(source: Network, settings: Settings) -> dict[str, Tensor]:
    from radial_vicreg.probes.features import extract, feature_loader

    count = len(source.images)  # type: ignore[arg-type]
    chosen: Subset[Any] = Subset(source.images, evenly_spaced(count, settings.max_images))
    loader = feature_loader(chosen, source.workers, settings.batch_size)
    batches = track(loader, f"embedding: {source.label}", len(loader))
    source.model.to(settings.place)
    with resources_named():
        found, _ = extract(source.model, batches, tuple(source.outputs.values()))
    source.model.cpu()
    return {name: found[key] for name, key in source.outputs.items()}
