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
from radial_vicreg.diagnostics import (
    covariance_spectrum,
    epps_pulley,
    gaussianity_statistics,
    radius_histogram,
    random_slices,
    standardise,
)
from radial_vicreg.diagnostics.gaussianity import DRAWS
from radial_vicreg.diagnostics.slices import SLICES
from radial_vicreg.errors import UserError
from radial_vicreg.gaussianity.content import Diagnosis, Measured, Output, Variants
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
        ``count`` N, ``dim`` d, its ``statistics`` and those of ``normal`` samples (see
        :func:`radial_vicreg.diagnostics.gaussianity_statistics`), and ``curves``: ``raw`` and ``standardised``, each
        with the histogram of the ``radii``, the ``spectrum`` and the sorted Epps-Pulley statistics of the ``slices``.
        ``normal_curves``: curves of one normal sample for each ``NxD``.

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
        "normal_draws": DRAWS,
        "sources": measured,
        "normal_curves": {
            f"{count}x{dim}": normal_reference(count, dim, settings.seed, _curves).curves for count, dim in sizes
        },
    }


def _measure(source: Source, settings: Settings) -> Measured:
    embeddings = {MATRIX: source.embeddings} if isinstance(source, Matrix) else _embed(source, settings)
    outputs: dict[str, Output] = {}
    for name, z in embeddings.items():
        if z.ndim != 2:
            raise UserError(f"{source.label}: expected one vector per image, got {name} outputs {tuple(z.shape)}")
        bad = int((~torch.isfinite(z.norm(dim=1))).sum())
        if bad:
            what = f"{source.label}: {bad} of {len(z)} embeddings ({name})"
            raise UserError(f"{what} are not finite, or too large for float32: they cannot be measured")
        count, dim = z.shape
        outputs[name] = {
            "count": count,
            "dim": dim,
            "statistics": gaussianity_statistics(z, settings.seed),
            "normal": normal_reference(count, dim, settings.seed, _curves).statistics,
            "curves": _curves(z, settings.seed),
        }
    return {"label": source.label, "details": source.details, "outputs": outputs}


def _curves(z: Tensor, seed: int) -> Variants:
    return {
        name: {
            "radii": radius_histogram(x.norm(dim=1)),
            "spectrum": covariance_spectrum(x).tolist(),
            "slices": epps_pulley(random_slices(x, seed=seed)).sort().values.tolist(),
        }
        for name, x in (("raw", z), ("standardised", standardise(z)))
    }


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
