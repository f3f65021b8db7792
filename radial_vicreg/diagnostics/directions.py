"""Directions of embeddings: their common mean, and how evenly they fill the sphere."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from radial_vicreg.diagnostics.spectrum import evenly_spaced_rows


def mean_share(z: Tensor) -> float:
    r"""Compute the mean's share of the squared norm, :math:`\|\bar z\|^2 / \overline{\|z\|^2}`.

    A constant offset can satisfy a loss on the radii alone; this is its share of the squared norm.

    Args:
        z: embeddings, shape ``(N, d)``.

    Returns:
        Between 0 and 1 (all embeddings are equal), about 1 / N for a normal sample; 0 where all are zero.

    Examples:
        >>> import torch
        >>> from radial_vicreg.diagnostics import mean_share
        >>> z = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
        >>> mean_share(z), round(mean_share(z + 1), 3)
        (0.0, 0.667)
    """
    squared = z.square().sum(dim=1).mean().clamp_min(torch.finfo(z.dtype).tiny)
    return float(z.mean(dim=0).square().sum() / squared)


def uniformity(z: Tensor) -> float:
    r"""Compute how evenly directions fill the sphere.

    The logarithm of the mean of :math:`e^{-2\|u_i-u_j\|^2}` over pairs of :math:`u=z/\|z\|` (Wang and Isola:
    Understanding Contrastive Representation Learning through Alignment and Uniformity on the Hypersphere, ICML 2020;
    their t is 2 here).

    Args:
        z: embeddings, shape ``(N, d)``, N at least 2; above 2,048 rows, evenly spaced ones are used.

    Returns:
        0 where all directions are equal, about -4 + 8 / d for a normal sample of large d.

    Examples:
        >>> import torch
        >>> from radial_vicreg.diagnostics import uniformity
        >>> round(uniformity(torch.ones(8, 3)), 4)
        0.0
        >>> round(uniformity(torch.eye(8)), 4)  # right angles: squared distances of 2
        -4.0
    """
    distances = torch.pdist(F.normalize(evenly_spaced_rows(z), dim=1))
    return float(distances.square().mul(-2).exp().mean().log())
