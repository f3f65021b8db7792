r"""Proposition 1 of the paper as code: the maps :math:`T_{VCReg}` and :math:`T_{Radial-VCReg}`.

The first whitens; it makes Gaussian distributions normal, and no others. The second also replaces the radius by a
chi-distributed one of the same rank; it makes elliptically symmetric distributions (with a continuous radius) normal,
and no others. Both are scikit-learn transformers, fitted in float64 on NumPy or PyTorch input.

Only the fitted sample is exactly white and has exactly chi-distributed radii. The covariance is estimated from it, so
that other points of the same distribution come out longer: by about :math:`\sqrt{(N-1)/(N-d-2)}` after whitening, for a
normal distribution and N points in d dimensions. That is 5 % at ten points per dimension, and 76 % for N 150 and d 100.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import scipy.stats
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from radial_vicreg.names.counts import counted

Array = NDArray[np.float64]

MIN_RELATIVE_EIGENVALUE = 1e-10
"""Eigenvalues of the covariance below this share of the largest count as zero."""
TIE_TOLERANCE = 1e-9
"""Radii closer than this, relative to their median, count as tied."""
MAX_ATOM_SHARE = 0.01
"""Largest share of the points that may tie at one radius (a few duplicated rows do no harm)."""
ELLIPSOID_TOLERANCE = 1e-6
"""Largest residual of a quadric through all points that counts as zero."""
ROWS_PER_DIMENSION = 10
"""Fewer points per dimension than this are fitted with a warning."""
MAX_QUADRIC_TERMS = 1000
"""Beyond this many coefficients (d = 43) points are not tested for lying on one ellipsoid."""


class Whitener(TransformerMixin, BaseEstimator):
    r"""The VCReg map :math:`T(x) = \Sigma^{-1/2}(x - \mu)` with the symmetric root, fitted to a sample.

    Args:
        shrinkage: share of the covariance replaced by a multiple of the identity of the same trace, in [0, 1]. Zero
            requires a covariance of full rank; a positive value also allows constant columns and N <= d, but the output
            is then not exactly white.

    Attributes:
        mean_: shape ``(d,)``.
        covariance_: unbiased, after shrinkage, shape ``(d, d)``.
        whitening_: :math:`\Sigma^{-1/2}`, shape ``(d, d)``.
        unwhitening_: :math:`\Sigma^{1/2}`, shape ``(d, d)``.
        n_features_in_: d.

    Examples:
        >>> import numpy as np
        >>> from radial_vicreg.diagnostics.gaussianize import Whitener
        >>> x = np.random.default_rng(0).normal(size=(1000, 2)) @ [[2.0, 0.0], [1.0, 0.5]] + 3
        >>> whitener = Whitener().fit(x)
        >>> whitened = whitener.transform(x)
        >>> bool(np.allclose(whitened.mean(0), 0)), bool(np.allclose(np.cov(whitened.T), np.eye(2)))
        (True, True)
        >>> bool(np.allclose(whitener.inverse_transform(whitened), x))
        True
    """

    def __init__(self, shrinkage: float = 0.0) -> None:
        self.shrinkage = shrinkage

    def fit(self, X: Any, y: Any = None) -> Whitener:
        """Estimate mean and covariance.

        Args:
            X: sample, shape ``(N, d)``, NumPy or PyTorch.
            y: ignored.

        Returns:
            Itself. Warns with fewer than ten rows per dimension, since other points then come out too long.

        Raises:
            ValueError: not 2-D, fewer than 2 rows, non-finite values, a shrinkage outside [0, 1], or a covariance
                that is not of full rank after shrinkage (constant columns and N <= d are named).
        """
        if not 0 <= self.shrinkage <= 1:
            raise ValueError(f"shrinkage must lie in [0, 1], got {self.shrinkage}")
        points = check_array(_to_numpy(X), dtype=np.float64, ensure_min_samples=2)
        d = points.shape[1]
        covariance = np.atleast_2d(np.cov(points.T))
        scale = np.trace(covariance) / d
        covariance = (1 - self.shrinkage) * covariance + self.shrinkage * scale * np.eye(d)
        values, vectors = np.linalg.eigh(covariance)
        if not values[0] > MIN_RELATIVE_EIGENVALUE * max(values[-1], np.finfo(float).tiny):
            raise ValueError(_why_degenerate(points))
        _warn_of_few(len(points), d)
        self.mean_ = points.mean(0)
        self.covariance_ = covariance
        self.whitening_ = vectors / np.sqrt(values) @ vectors.T
        self.unwhitening_ = vectors * np.sqrt(values) @ vectors.T
        self.n_features_in_ = d
        return self

    def transform(self, X: Any) -> Any:
        """Whiten points of shape ``(n, d)``; the result has the type, dtype and device of ``X``."""
        points = _checked(self, X)
        return _like(X, (points - self.mean_) @ self.whitening_)

    def inverse_transform(self, X: Any) -> Any:
        """Undo :meth:`transform`."""
        points = _checked(self, X)
        return _like(X, points @ self.unwhitening_ + self.mean_)


class RadialGaussianizer(TransformerMixin, BaseEstimator):
    r"""The Radial-VCReg map: whiten, then give every point the chi-distributed radius of the same rank.

    :math:`T(x) = \frac{y}{\|y\|} F_\chi^{-1}(F_{\|y\|}(\|y\|))` with :math:`y = \Sigma^{-1/2}(x - \mu)`. The radial
    map is strictly increasing and piecewise linear through the fitted radii (at ranks (i - 1/2) / N) and the chi
    quantiles there, and proportional below the first and above the last of them: hence it has an exact inverse, and
    new points beyond the fitted range keep their order.

    Args:
        shrinkage: of the covariance, as in :class:`Whitener`.

    Attributes:
        whitener_: the fitted :class:`Whitener`.
        radii_: distinct radii of the whitened sample, ascending, shape ``(K,)``.
        chi_radii_: the chi(d) quantiles they are mapped to, shape ``(K,)``.
        n_features_in_: d.

    Examples:
        Whitening leaves points in a disc; the radial map gives them the radii of chi(2), whose mean is 1.253:

        >>> import numpy as np
        >>> from radial_vicreg.diagnostics.gaussianize import RadialGaussianizer, Whitener
        >>> normal = np.random.default_rng(0).normal(size=(2000, 3))
        >>> disc = (normal / np.linalg.norm(normal, axis=1, keepdims=True))[:, :2]
        >>> for transformer in (Whitener(), RadialGaussianizer()):
        ...     radii = np.linalg.norm(transformer.fit_transform(disc), axis=1)
        ...     print(f"mean {radii.mean():.3f}, largest {radii.max():.1f}")
        mean 1.362, largest 1.8
        mean 1.253, largest 4.1
    """

    def __init__(self, shrinkage: float = 0.0) -> None:
        self.shrinkage = shrinkage

    def fit(self, X: Any, y: Any = None) -> RadialGaussianizer:
        """Estimate the whitening and the distribution of the radius.

        Args:
            X: sample, shape ``(N, d)``, NumPy or PyTorch.
            y: ignored.

        Returns:
            Itself.

        Raises:
            ValueError: as :meth:`Whitener.fit`, or an atom in the radius: more than 1 % of the points at one radius,
                or all of them on one ellipsoid (for d up to 43), as for the uniform distribution on a sphere.
        """
        whitener = Whitener(self.shrinkage).fit(X)
        whitened = whitener.transform(check_array(_to_numpy(X), dtype=np.float64))
        radii = np.sort(np.linalg.norm(whitened, axis=1))
        count, d = whitened.shape
        quantiles = scipy.stats.chi.ppf((np.arange(count) + 0.5) / count, d)
        # Tied radii become one knot at the mean of their quantiles.
        new = np.diff(radii, prepend=-np.inf) > TIE_TOLERANCE * np.median(radii)
        sizes = np.diff(np.append(np.flatnonzero(new), count))
        if sizes.max() > max(1, MAX_ATOM_SHARE * count) or _on_one_ellipsoid(whitened):
            raise ValueError(
                "the radius of the whitened sample has an atom (many points at one radius, as on a sphere): the "
                "map needs a continuous radial distribution; remove the repeated radii, or add noise to the points"
            )
        self.whitener_ = whitener
        self.radii_ = radii[new]
        self.chi_radii_ = np.add.reduceat(quantiles, np.flatnonzero(new)) / sizes
        self.n_features_in_ = d
        return self

    def transform(self, X: Any) -> Any:
        """Gaussianize points of shape ``(n, d)``; the result has the type, dtype and device of ``X``."""
        points = self.whitener_.transform(_checked(self, X))
        return _like(X, _with_radii(points, self.radii_, self.chi_radii_))

    def inverse_transform(self, X: Any) -> Any:
        """Undo :meth:`transform`."""
        points = _with_radii(_checked(self, X), self.chi_radii_, self.radii_)
        return _like(X, self.whitener_.inverse_transform(points))


def _with_radii(points: Array, source: Array, target: Array) -> Array:
    """Scale every point so that the increasing map ``source -> target`` applies to its radius."""
    radii = np.linalg.norm(points, axis=1)
    # Interpolate inside the fitted range, and scale in proportion to the nearest knot outside it.
    inside = np.interp(radii, source, target)
    nearest = np.clip(radii, source[0], source[-1])
    scale = inside * np.divide(1.0, nearest, out=np.zeros_like(nearest), where=nearest > 0)
    scaled: Array = points * scale[:, None]
    return scaled


def _on_one_ellipsoid(points: Array) -> bool:
    """Return whether one ellipsoid passes through all points; unlike ties, this survives errors of the whitening."""
    count, d = points.shape
    rows, columns = np.triu_indices(d)
    terms = len(rows) + d
    if terms > MAX_QUADRIC_TERMS or count < 2 * terms:
        return False
    some = points[: 4 * terms]
    features = np.hstack([some[:, rows] * some[:, columns], some])
    coefficients, *_ = np.linalg.lstsq(features, np.ones(len(some)), rcond=None)
    form = np.zeros((d, d))
    form[rows, columns] = coefficients[: len(rows)]
    # Only a definite form is an ellipsoid: the X-distribution lies on another quadric, a pair of lines.
    definite = np.linalg.eigvalsh(form + form.T)[0] > 0
    return bool(definite and np.abs(features @ coefficients - 1).max() < ELLIPSOID_TOLERANCE)


def _why_degenerate(points: Array) -> str:
    count, d = points.shape
    constant = np.flatnonzero(np.ptp(points, axis=0) == 0)
    if len(constant):
        reason = f"columns {constant.tolist()} are constant"
    elif count <= d:
        reason = f"{count} samples in {counted(d, 'dimension')}"
    else:
        reason = "some columns are linear combinations of others"
    return f"the covariance is not of full rank ({reason}); remove them, or set shrinkage, for example to 0.01"


def _warn_of_few(count: int, d: int) -> None:
    if count < ROWS_PER_DIMENSION * d:
        longer = f" by about {100 * (math.sqrt((count - 1) / (count - d - 2)) - 1):.0f} %" if count > d + 2 else ""
        warnings.warn(
            f"{count} points in {counted(d, 'dimension')}: points that were not fitted come out longer than "
            f"these{longer} (normal data); fit {ROWS_PER_DIMENSION * d} points or more, or transform the fitted ones "
            "only",
            stacklevel=3,
        )


def _checked(estimator: Any, X: Any) -> Array:
    check_is_fitted(estimator)
    points: Array = check_array(_to_numpy(X), dtype=np.float64)
    if points.shape[1] != estimator.n_features_in_:
        raise ValueError(f"X has {points.shape[1]} features, but was fitted with {estimator.n_features_in_}")
    return points


def _to_numpy(X: Any) -> Any:
    return X.detach().cpu().double().numpy() if isinstance(X, torch.Tensor) else X


def _like(X: Any, values: Array) -> Any:
    if isinstance(X, torch.Tensor):
        return torch.from_numpy(values).to(device=X.device, dtype=X.dtype if X.is_floating_point() else torch.float64)
    dtype = getattr(X, "dtype", None)
    is_float = isinstance(dtype, np.dtype) and dtype.kind == "f"
    return values.astype(dtype) if is_float else values
