"""Statistics and histograms of the radii of embeddings, compared with the chi distribution."""

from __future__ import annotations

import math

import numpy as np
from torch import Tensor

from radial_vicreg.diagnostics.spectrum import effective_rank
from radial_vicreg.losses import covariance_loss, radial_kl, radial_wasserstein_loss

_MAX_BINS = 200  # one far outlier among narrow radii would otherwise ask for thousands


def radius_statistics(z: Tensor) -> dict[str, float]:
    r"""Compare a matrix of embeddings with :math:`\mathcal N(0, I)`.

    Args:
        z: embeddings, shape ``(N, d)``, N at least 2.

    Returns:
        ``w1_chi``: W1 of the radii to exact :math:`\chi(d)` quantiles; ``kl``: m-spacing estimate in nats, biased
        upwards for small N; ``radius_mean``, ``radius_std``; ``embedding_mean_norm``: norm of the mean embedding,
        zero for :math:`\mathcal N(0, I)`; ``effective_rank``: see
        :func:`radial_vicreg.diagnostics.effective_rank`; ``off_diagonal_covariance``: root mean
        square of the off-diagonal covariances; ``count``: N.

    Raises:
        ValueError: fewer than two embeddings or non-finite values.

    Examples:
        >>> import torch
        >>> from radial_vicreg.diagnostics import radius_statistics
        >>> found = radius_statistics(2 * torch.eye(4))
        >>> {name: round(found[name], 2) for name in ("radius_mean", "embedding_mean_norm", "effective_rank")}
        {'radius_mean': 2.0, 'embedding_mean_norm': 1.0, 'effective_rank': 4.0}
    """
    z = z.float()
    w1_chi = float(radial_wasserstein_loss(z, target="quantiles"))  # first, since it validates z
    count, dim = z.shape
    radii = z.norm(dim=1)
    return {
        "w1_chi": w1_chi,
        "kl": float(radial_kl(z)),
        "radius_mean": float(radii.mean()),
        "radius_std": float(radii.std()),
        "embedding_mean_norm": float(z.mean(dim=0).norm()),
        "effective_rank": effective_rank(z),
        # The loss is the sum of the d (d - 1) squares, divided by d.
        "off_diagonal_covariance": math.sqrt(float(covariance_loss(z)) / max(dim - 1, 1)),
        "count": float(count),
    }


def radius_histogram(radii: Tensor) -> dict[str, list[float]]:
    """Count radii in bins of equal width, chosen as NumPy's ``"auto"`` does, at most 200.

    Args:
        radii: shape ``(N,)``, finite.

    Returns:
        ``edges`` (one more than bins) and ``density`` (integrates to 1).

    Examples:
        >>> import torch
        >>> from radial_vicreg.diagnostics import radius_histogram
        >>> found = radius_histogram(torch.tensor([0.0, 1.0, 1.0, 2.0]))
        >>> found["edges"], found["density"]
        ([0.0, 0.5, 1.0, 1.5, 2.0], [0.5, 0.0, 1.0, 0.5])
    """
    values = radii.double().cpu().numpy()
    edges = np.histogram_bin_edges(values, bins="auto")
    density, edges = np.histogram(values, bins=min(len(edges) - 1, _MAX_BINS), density=True)
    return {"edges": edges.tolist(), "density": density.tolist()}
