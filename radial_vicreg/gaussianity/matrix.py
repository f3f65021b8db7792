"""What is measured of a matrix of embeddings: the statistics of the table and the curves of the figure."""

from __future__ import annotations

from torch import Tensor

from radial_vicreg.diagnostics import (
    covariance_spectrum,
    dimension_statistics,
    gaussianity_statistics,
    radius_histogram,
    standardise,
)
from radial_vicreg.diagnostics.gaussianity import statistics_and_slices
from radial_vicreg.gaussianity.content import Variants


def matrix_statistics(z: Tensor, seed: int) -> dict[str, float]:
    """Compute the statistics of the table.

    Args:
        z: embeddings, shape ``(N, d)``.
        seed: seed of the slices' directions.

    Returns:
        Those of :func:`radial_vicreg.diagnostics.gaussianity_statistics` and
        :func:`radial_vicreg.diagnostics.dimension_statistics`.
    """
    return {**gaussianity_statistics(z, seed), **dimension_statistics(z)}


def statistics_and_curves(z: Tensor, seed: int) -> tuple[dict[str, float], Variants]:
    """Compute the statistics of the table and the curves of the figure.

    Args:
        z: see :func:`matrix_statistics`.
        seed: see :func:`matrix_statistics`.

    Returns:
        The statistics, and the curves of the embeddings as they are (``raw``) and ``standardised``.
    """
    statistics, slices = statistics_and_slices(z, seed)
    curves: Variants = {
        name: {
            "radii": radius_histogram(x.norm(dim=1)),
            "spectrum": covariance_spectrum(x).tolist(),
            "slices": slices[name].sort().values.tolist(),
        }
        for name, x in (("raw", z), ("standardised", standardise(z)))
    }
    return {**statistics, **dimension_statistics(z)}, curves
