"""Single dimensions and pairs of dimensions: what averages over random directions cannot show."""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from radial_vicreg.diagnostics.gaussianity import is_constant
from radial_vicreg.diagnostics.spectrum import evenly_spaced_rows

LEVEL = 0.05
"""Level of the test of each dimension: the share of normal dimensions that fail it."""

_FEWEST = 20  # below, the approximation in SciPy's kurtosis test is poor
_COLUMNS = 256  # tested at once, in float64
_MOST_TESTED = 10_000  # rows: SciPy's test takes many passes over them


def dimension_statistics(z: Tensor) -> dict[str, float]:
    r"""Test the normality of each dimension, and the independence of pairs of dimensions.

    All are invariant to the mean and the scale of each dimension. A slice in a random direction is a sum over many
    dimensions, and such a sum is nearly normal for independent dimensions of any distribution.

    Args:
        z: embeddings, shape ``(N, d)``, N at least 20. Dimensions without variance are excluded.

    Returns:
        ``failing_dimensions``: share of the dimensions that D'Agostino and Pearson's test of skewness and kurtosis
        (:func:`scipy.stats.normaltest`) rejects at a level of 5 %; about 0.05 for a normal sample. ``worst_dimension``
        and ``worst_statistic``: index and statistic of the dimension with the largest one; for a normal sample about
        :math:`2\ln d`, since the statistic follows :math:`\chi^2(2)`. ``pair_correlation``: root mean square of the
        correlations of all pairs of dimensions, times :math:`\sqrt{N-1}`; about 1 for a normal sample.
        ``pair_square_correlation``: the same for the squares of the standardised dimensions, which depend on each other
        on a sphere, on an X and in a mixture, although the dimensions are uncorrelated.

        The test takes at most 10,000 evenly spaced rows, the pairs at most 2,048; N is their number. NaN where N is
        below 20, or where no dimension has variance (for the pairs: fewer than two).

    Examples:
        Random signs have no correlation, and no slice shows what every dimension does:

        >>> import torch
        >>> from radial_vicreg.diagnostics import dimension_statistics
        >>> normal = torch.randn(1000, 64, generator=torch.Generator().manual_seed(0))
        >>> found, of_normal = dimension_statistics(normal.sign()), dimension_statistics(normal)
        >>> found["failing_dimensions"], of_normal["failing_dimensions"] < 0.2
        (1.0, True)
    """
    varying = torch.nonzero(~is_constant(z)).flatten()
    if len(z) < _FEWEST or not len(varying):
        return dict.fromkeys(
            ("failing_dimensions", "worst_dimension", "worst_statistic", "pair_correlation", "pair_square_correlation"),
            math.nan,
        )
    tested = evenly_spaced_rows(z, _MOST_TESTED)
    statistic = np.concatenate([_normality(tested[:, columns]) for columns in varying.split(_COLUMNS)])
    rows = evenly_spaced_rows(z[:, varying]).double()
    scaled = (rows - rows.mean(dim=0)) / rows.std(dim=0, correction=0).clamp_min(torch.finfo(rows.dtype).tiny)
    return {
        "failing_dimensions": float((statistic > stats.chi2.isf(LEVEL, 2)).mean()),
        "worst_dimension": float(varying[int(statistic.argmax())]),
        "worst_statistic": float(statistic.max()),
        "pair_correlation": _pair_correlation(scaled),
        "pair_square_correlation": _pair_correlation(scaled.square()),
    }


def lidar(views: Tensor, delta: float = 1e-4) -> float:
    r"""Compute LiDAR: the effective rank of the linear discriminant between images.

    Thilak et al.: LiDAR: Sensing Linear Probing Performance in Joint Embedding SSL Architectures, ICLR 2024. Each image
    is a class, its views are the samples. The eigenvalues are those of
    :math:`(\Sigma_w+\delta I)^{-1/2}\,\Sigma_b\,(\Sigma_w+\delta I)^{-1/2}`, where :math:`\Sigma_b` is the covariance
    of the images' means and :math:`\Sigma_w` the covariance of the views around them.

    Args:
        views: embeddings of V views of N images, shape ``(V, N, d)``, V and N at least 2.
        delta: added to the variances within images; the paper's.

    Returns:
        Between 1 and min(N - 1, d).

    Raises:
        ValueError: another shape.

    Examples:
        >>> import torch
        >>> from radial_vicreg.diagnostics import lidar
        >>> images = torch.randn(200, 8, generator=torch.Generator().manual_seed(0))
        >>> noise = 0.1 * torch.randn(5, 200, 8, generator=torch.Generator().manual_seed(1))
        >>> round(lidar(images + noise)), round(lidar(images * (torch.arange(8) < 3) + noise))
        (8, 3)
    """
    if views.dim() != 3 or min(views.shape[:2]) < 2:
        raise ValueError(f"views: expected shape (V, N, d) with two views and two images or more, got {views.shape}")
    views = views.double()
    number, count, dim = views.shape
    means = views.mean(dim=0)
    around = (views - means).reshape(-1, dim)
    between = means - means.mean(dim=0)
    within = around.T @ around / (count * (number - 1)) + delta * torch.eye(dim, dtype=views.dtype, device=views.device)
    # The singular values of between (within)^(-1/2), squared: both matrices stay symmetric.
    whitened = torch.linalg.solve_triangular(torch.linalg.cholesky(within), between.T, upper=False)
    eigenvalues = torch.linalg.svdvals(whitened).square()
    share = eigenvalues / eigenvalues.sum().clamp_min(torch.finfo(views.dtype).tiny)
    return float(torch.exp(-torch.xlogy(share, share).sum()))


def _normality(columns: Tensor) -> np.ndarray:
    found: np.ndarray = stats.normaltest(columns.double().cpu().numpy(), axis=0).statistic
    return found


def _pair_correlation(columns: Tensor) -> float:
    """Compute the root mean square correlation of all pairs of columns, times the root of N - 1."""
    count, dim = columns.shape
    centred = columns - columns.mean(dim=0)
    norms = centred.norm(dim=0)
    kept = norms > 0
    scaled = centred[:, kept] / norms[kept]
    dim = scaled.shape[1]
    if dim < 2:
        return math.nan
    # Of all entries of the correlation matrix, d are its diagonal of ones.
    gram = scaled @ scaled.T if count < dim else scaled.T @ scaled
    off_diagonal = (gram.square().sum() - dim).clamp(min=0)
    return math.sqrt(float(off_diagonal) / (dim * (dim - 1)) * (count - 1))
