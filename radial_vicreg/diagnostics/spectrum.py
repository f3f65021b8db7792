"""Spectrum of embeddings: how many dimensions they use."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_MAX_ROWS = 2048  # singular values cost N d min(N, d), pairs N^2 d


def evenly_spaced_rows(z: Tensor, most: int = _MAX_ROWS) -> Tensor:
    """Take every k-th row ``(M, d)``, with the smallest k that leaves at most so many."""
    return z[:: math.ceil(len(z) / most)]


def effective_rank(z: Tensor) -> float:
    r"""Compute RankMe: the exponential of the entropy of the normalised singular values.

    Garrido, Balestriero, Najman and LeCun: RankMe, ICML 2023. It is invariant to scale and rotation. The mean is not
    subtracted and counts as one dimension.

    Args:
        z: embeddings, shape ``(N, d)``, float32 or float64; above 2,048 rows, evenly spaced ones are used.

    Returns:
        Between 1 and min(N, d).

    Examples:
        >>> import torch
        >>> from radial_vicreg.diagnostics import effective_rank
        >>> round(effective_rank(torch.eye(8)), 3), round(effective_rank(torch.ones(8, 8)), 3)
        (8.0, 1.0)
    """
    singular = torch.linalg.svdvals(evenly_spaced_rows(z))
    share = singular / singular.sum().clamp_min(torch.finfo(z.dtype).tiny)
    return float(torch.exp(-torch.xlogy(share, share).sum()))


def covariance_spectrum(z: Tensor) -> Tensor:
    r"""Compute the eigenvalues of the covariance matrix, all 1 for :math:`\mathcal N(0, I)` and infinite N.

    For finite N the eigenvalues of a normal sample spread around 1 according to the Marchenko-Pastur law, more widely
    the closer d is to N.

    Args:
        z: embeddings, shape ``(N, d)``, N at least 2; above 2,048 rows, evenly spaced ones are used.

    Returns:
        Descending eigenvalues, shape ``(min(N - 1, d),)``; the others are zero.

    Examples:
        >>> import torch
        >>> from radial_vicreg.diagnostics import covariance_spectrum
        >>> z = torch.tensor([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
        >>> [round(value, 3) for value in covariance_spectrum(z).tolist()]
        [2.667, 0.667]
    """
    rows = evenly_spaced_rows(z)
    singular: Tensor = torch.linalg.svdvals(rows - rows.mean(dim=0))
    return singular[: len(rows) - 1].square() / (len(rows) - 1)
