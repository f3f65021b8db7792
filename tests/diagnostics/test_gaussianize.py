from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from radial_vicreg.diagnostics.gaussianize import RadialGaussianizer, Whitener
from radial_vicreg.paper.synthetic.distances import normality_test
from radial_vicreg.paper.synthetic.distributions import sample

ELLIPTICAL = ("student_t", "ball", "laplace")
SIGNIFICANT = 1e-6
"""p-value at which normality is rejected for good."""


def correlated(name: str, count: int, dim: int, seed: int) -> np.ndarray:
    mixing = np.eye(dim) + np.triu(np.full((dim, dim), 0.6))
    return sample(name, count, dim, seed=seed) @ mixing + np.arange(dim)


def held_out(transformer: Whitener | RadialGaussianizer, name: str, dim: int) -> np.ndarray:
    """Fitted on one sample and applied to another: in-sample radii are chi quantiles by construction."""
    return transformer.fit(correlated(name, 20_000, dim, seed=1)).transform(correlated(name, 1500, dim, seed=2))


@pytest.mark.parametrize(("name", "dim"), [("student_t", 2), ("ball", 5), ("laplace", 3)])
def test_radial_map_makes_elliptical_distributions_normal_where_whitening_does_not(name: str, dim: int) -> None:
    assert normality_test(held_out(Whitener(), name, dim))[1] < SIGNIFICANT
    assert normality_test(held_out(RadialGaussianizer(), name, dim))[1] > 0.01


def test_radial_map_does_not_make_a_non_elliptical_distribution_normal() -> None:
    assert normality_test(held_out(RadialGaussianizer(), "x", 2))[1] < 1e-3


def test_the_fitted_sample_has_identity_covariance_exact_chi_radii_and_its_directions() -> None:
    points = correlated("laplace", 500, 3, seed=0)
    white, transformed = (transformer.fit_transform(points) for transformer in (Whitener(), RadialGaussianizer()))
    np.testing.assert_allclose(np.cov(white.T), np.eye(3), atol=1e-12)
    radii = np.linalg.norm(transformed, axis=1, keepdims=True)
    np.testing.assert_allclose(np.sort(radii[:, 0]), chi.ppf((np.arange(500) + 0.5) / 500, 3), rtol=1e-10)
    np.testing.assert_allclose(transformed / radii, white / np.linalg.norm(white, axis=1, keepdims=True), atol=1e-12)


@settings(derandomize=True, max_examples=30)
@given(
    seed=st.integers(0, 1000),
    dim=st.integers(1, 6),
    stretch=st.floats(0.01, 100.0),
    name=st.sampled_from([*ELLIPTICAL, "gaussian", "x"]),
)
def test_inverse_restores_new_points_inside_and_outside_the_fitted_range(
    seed: int, dim: int, stretch: float, name: str
) -> None:
    fitted = RadialGaussianizer().fit(correlated(name, 200, dim, seed))
    new = stretch * correlated("gaussian", 50, dim, seed + 1)
    restored = fitted.inverse_transform(fitted.transform(new))
    np.testing.assert_allclose(restored, new, rtol=1e-8, atol=1e-8 * stretch)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float64, 1e-10)])
def test_tensors_and_arrays_give_their_kind_dtype_and_values(dtype: torch.dtype, tolerance: float) -> None:
    points = correlated("laplace", 200, 3, seed=0)
    tensor = torch.tensor(points, dtype=dtype)
    fitted = RadialGaussianizer().fit(tensor)
    transformed = fitted.transform(tensor)
    assert transformed.dtype == dtype
    expected = RadialGaussianizer().fit_transform(points)
    np.testing.assert_allclose(transformed.numpy(), expected, atol=tolerance)
    assert isinstance(fitted.inverse_transform(transformed), torch.Tensor)
    assert RadialGaussianizer().fit_transform(tensor.numpy()).dtype == tensor.numpy().dtype


@pytest.mark.parametrize("share", [1.0, 0.05], ids=["a sphere", "a share of the points"])
def test_an_atom_of_the_radii_is_refused(share: float) -> None:
    points = correlated("sphere" if share == 1 else "gaussian", 1000, 2, seed=0)
    if share < 1:
        points[: int(1000 * share)] = points[0]
    with pytest.raises(ValueError, match="continuous radial distribution"):
        RadialGaussianizer().fit(points)


def test_a_few_duplicated_rows_are_accepted_and_inverted() -> None:
    points = correlated("gaussian", 1000, 2, seed=0)
    points[1] = points[0]
    fitted = RadialGaussianizer().fit(points)
    np.testing.assert_allclose(fitted.inverse_transform(fitted.transform(points)), points, atol=1e-10)


@pytest.mark.parametrize("estimator", [Whitener, RadialGaussianizer])
@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda z: np.column_stack([z, np.ones(len(z))]), r"columns \[3\] are constant"),
        (lambda z: z[:3], "3 samples in 3 dimensions"),
        (lambda z: np.column_stack([z, z[:, 0] + z[:, 1]]), "linear combinations"),
    ],
)
def test_degenerate_covariance_is_named_and_taken_with_shrinkage(estimator: type, spoil: object, reason: str) -> None:
    points = spoil(correlated("gaussian", 100, 3, seed=0))  # type: ignore[operator]
    with pytest.raises(ValueError, match=reason):
        estimator().fit(points)
    fitted = estimator(shrinkage=0.05).fit(points)
    np.testing.assert_allclose(fitted.inverse_transform(fitted.transform(points)), points, atol=1e-8)


@pytest.mark.parametrize("estimator", [Whitener, RadialGaussianizer])
def test_wrong_input_is_refused(estimator: type) -> None:
    points = correlated("gaussian", 50, 2, seed=0)
    with pytest.raises(ValueError, match="NaN"):
        estimator().fit(np.where(np.arange(100).reshape(50, 2) == 7, np.nan, points))
    with pytest.raises(ValueError, match=r"shrinkage must lie in \[0, 1\], got 2"):
        estimator(shrinkage=2).fit(points)
    with pytest.raises(ValueError, match="fitted with 2"):
        estimator().fit(points).transform(points[:, :1])


def test_an_estimator_can_be_cloned_and_put_in_a_pipeline() -> None:
    points = correlated("laplace", 100, 2, seed=0)
    estimator = RadialGaussianizer(shrinkage=0.1)
    copy = clone(estimator)
    assert copy.get_params() == estimator.get_params()
    np.testing.assert_allclose(make_pipeline(copy).fit_transform(points), estimator.fit_transform(points))


@pytest.mark.parametrize(("count", "dim"), [(1500, 150), (150, 100)])
def test_points_that_were_not_fitted_come_out_longer_as_the_warning_says(count: int, dim: int) -> None:
    fitted, others = np.random.default_rng(0).normal(size=(2, count, dim))
    expected = math.sqrt((count - 1) / (count - dim - 2))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        white = Whitener().fit(fitted).transform(others)
    length = np.linalg.norm(white, axis=1).mean() / math.sqrt(dim)
    assert length == pytest.approx(expected, rel=0.06)
    messages = [str(warning.message) for warning in caught]
    few = count < 10 * dim
    assert len(messages) == few
    assert not few or f"longer than these by about {100 * (expected - 1):.0f} %" in messages[0]


def test_the_radial_map_warns_once_of_too_few_points() -> None:
    points = np.random.default_rng(0).normal(size=(30, 4))
    with pytest.warns(UserWarning, match="30 points in 4 dimensions.*fit 40 points or more") as caught:
        RadialGaussianizer().fit(points)
    assert len(caught) == 1
