"""The radial terms: what they are smallest for, what they estimate, what they refuse."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from radial_vicreg.losses import (
    chi_cross_entropy,
    m_spacing_entropy,
    radial_gaussianization_loss,
    radial_kl,
    radial_reverse_kl_loss,
    radial_wasserstein_loss,
)
from radial_vicreg.losses._chi import _cached_quantiles, chi_draws, chi_quantiles
from radial_vicreg.losses.radial import MIN_BANDWIDTH, MIN_SPACING, MIN_SQUARED_NORM

#: Mean of the KL estimate on exact chi(d) radii by batch size, simulated in NumPy (standard error < 0.001).
#: In one and two dimensions the density does not vanish, or hardly, near radius 0, and the bias is smaller.
KL_BIAS = {
    1: {16: 0.217, 256: 0.0915, 4096: 0.0322},
    2: {16: 0.285, 256: 0.126, 4096: 0.0459},
    16: {16: 0.323, 256: 0.146, 4096: 0.0541},
    512: {16: 0.325, 256: 0.148, 4096: 0.0550},
    4096: {16: 0.326, 256: 0.148, 4096: 0.0550},
}
every_dimension = pytest.mark.parametrize("dim", KL_BIAS)


def _on_axis(radii: np.ndarray | Tensor, dim: int) -> Tensor:
    """A batch of dimension ``dim`` with the given radii."""
    z = torch.zeros(len(radii), dim, dtype=torch.float64)
    z[:, 0] = torch.as_tensor(radii, dtype=torch.float64)
    return z


def _chi_batch(count: int, dim: int, seed: int) -> Tensor:
    return _on_axis(stats.chi.rvs(dim, size=count, random_state=seed), dim)


@settings(derandomize=True)
@given(dim=st.integers(2, 2000), factor=st.floats(0.2, 5).filter(lambda f: abs(f - 1) > 1e-3))
def test_cross_entropy_is_smallest_at_the_mode_of_chi(dim: int, factor: float) -> None:
    mode = math.sqrt(dim - 1)
    best = chi_cross_entropy(_on_axis(np.full(3, mode), dim))
    assert best < chi_cross_entropy(_on_axis(np.full(3, mode * factor), dim))


def test_normalized_cross_entropy_is_divided_by_the_dimension() -> None:
    z = _chi_batch(20, 8, seed=0)
    torch.testing.assert_close(chi_cross_entropy(z, normalize=True), chi_cross_entropy(z) / 8)


def test_cross_entropy_of_zero_embeddings_uses_the_smallest_norm_and_has_no_gradient() -> None:
    z = torch.zeros(4, 3, requires_grad=True)
    value = chi_cross_entropy(z)
    value.backward()
    assert value.item() == pytest.approx(-math.log(MIN_SQUARED_NORM), rel=1e-6)
    assert not z.grad.any()


def test_entropy_is_the_mean_log_of_scaled_spacings() -> None:
    radii = np.random.default_rng(0).uniform(size=10)
    ordered = np.sort(radii)
    for m in (1, 3, 9):
        expected = np.mean([math.log(11 / m * (ordered[i + m] - ordered[i])) for i in range(10 - m)])
        assert m_spacing_entropy(torch.tensor(radii), m).item() == pytest.approx(expected, rel=1e-12)


def test_entropy_spacing_defaults_to_the_rounded_root() -> None:
    radii = torch.linspace(0, 1, 30, dtype=torch.float64) ** 2
    assert torch.equal(m_spacing_entropy(radii), m_spacing_entropy(radii, 5))


def test_entropy_approaches_the_differential_entropy() -> None:
    radii = torch.tensor(stats.norm.rvs(scale=3, size=100_000, random_state=0))
    assert m_spacing_entropy(radii).item() == pytest.approx(stats.norm(scale=3).entropy(), abs=0.02)


def test_entropy_of_ties_is_the_smallest_spacing_without_gradient() -> None:
    radii = torch.full((9,), 2.0, requires_grad=True)
    value = m_spacing_entropy(radii, 3)
    value.backward()
    assert value.item() == pytest.approx(math.log(10 / 3 * MIN_SPACING), rel=1e-6)
    assert not radii.grad.any()


@pytest.mark.parametrize(
    "call",
    [
        m_spacing_entropy,
        lambda r, m: radial_kl(r[:, None], m),
        lambda r, m: radial_gaussianization_loss(r[:, None], m=m),
    ],
    ids=["entropy", "kl", "gaussianization"],
)
def test_spacing_outside_its_range_is_refused(call: Callable[[Tensor, object], Tensor]) -> None:
    for m in (0, -1, 8, 100, 2.0, True, "3"):
        with pytest.raises(ValueError, match=r"m: expected an integer within 1\.\.7 for 8 samples, got"):
            call(torch.arange(8.0), m)


@pytest.mark.parametrize(
    ("radii", "message"),
    [
        (torch.zeros(3, 2), r"radii: expected shape \(N,\), got \(3, 2\)"),
        (torch.zeros(1), "radii: at least 2 samples are needed, got 1"),
        (torch.arange(4), "radii: expected float16"),
        (torch.tensor([1.0, torch.nan]), "radii: 1 of 2 values are not finite"),
    ],
    ids=["2-D", "one_sample", "integer", "not_finite"],
)
def test_entropy_refuses_wrong_radii(radii: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        m_spacing_entropy(radii)


@pytest.mark.parametrize("key", ["ce_weight", "ent_weight"])
def test_gaussianization_refuses_wrong_weights(key: str) -> None:
    for value in (-0.5, float("inf"), "1", None):
        with pytest.raises(ValueError, match=f"{key}: expected a finite number >= 0, got"):
            radial_gaussianization_loss(torch.ones(4, 2), **{key: value})  # type: ignore[arg-type]


@every_dimension
def test_kl_of_exact_chi_radii_is_its_known_bias_and_grows_when_the_scale_is_wrong(dim: int) -> None:
    for count, repeats, tolerance in ((16, 200, 0.03), (256, 30, 0.01), (4096, 2, 0.007)):
        estimates = [radial_kl(_chi_batch(count, dim, seed)).item() for seed in range(repeats)]
        assert np.mean(estimates) == pytest.approx(KL_BIAS[dim][count], abs=tolerance), count
    z = _chi_batch(256, dim, seed=0)
    for factors in ((1, 1.5, 2, 3), (1, 0.5, 0.25, 0.1)):
        values = [radial_kl(z * factor).item() for factor in factors]
        assert values == sorted(values)


@every_dimension
def test_quantiles_are_those_of_scipy_and_draws_follow_chi(dim: int) -> None:
    draws = chi_draws(4000, dim, torch.zeros((), dtype=torch.float64), torch.Generator().manual_seed(0))
    assert stats.kstest(draws.numpy(), stats.chi(dim).cdf).pvalue > 1e-3
    quantiles = chi_quantiles(64, dim, torch.float64, torch.device("cpu"))
    np.testing.assert_allclose(stats.chi.cdf(quantiles.numpy(), dim), (np.arange(64) + 0.5) / 64, rtol=1e-9)
    assert (quantiles.diff() > 0).all()


def test_quantiles_first_met_in_inference_mode_serve_training() -> None:
    _cached_quantiles.cache_clear()
    z = _chi_batch(17, 3, seed=0)
    with torch.inference_mode():
        radial_wasserstein_loss(z, "quantiles")
    assert not chi_quantiles(17, 3, z.dtype, z.device).is_inference()
    radial_wasserstein_loss(z.requires_grad_(), "quantiles").backward()
    assert torch.isfinite(z.grad).all()


def test_wasserstein_of_the_quantiles_themselves_is_zero() -> None:
    quantiles = chi_quantiles(32, 6, torch.float64, torch.device("cpu"))
    assert radial_wasserstein_loss(_on_axis(quantiles.flip(0), 6), "quantiles").item() < 1e-14


def test_wasserstein_equals_scipy() -> None:
    z, target = _chi_batch(40, 5, seed=0), torch.tensor(stats.chi.rvs(5, size=40, random_state=1))
    expected = stats.wasserstein_distance(z.norm(dim=1).numpy(), target.numpy())
    assert radial_wasserstein_loss(z, target).item() == pytest.approx(expected, rel=1e-12)


def test_wasserstein_target_may_be_of_another_dtype() -> None:
    z, target = _chi_batch(8, 5, seed=0), torch.arange(8.0).half()
    assert radial_wasserstein_loss(z, target).dtype == torch.float64


def test_equal_generators_give_equal_draws_and_a_generator_runs_on() -> None:
    z = _chi_batch(32, 4, seed=0)
    one, other = (torch.Generator().manual_seed(5) for _ in range(2))
    first = radial_wasserstein_loss(z, generator=one)
    assert torch.equal(first, radial_wasserstein_loss(z, generator=other))
    assert not torch.equal(first, radial_wasserstein_loss(z, generator=one))


@pytest.mark.parametrize("loss", [radial_wasserstein_loss, radial_reverse_kl_loss])
def test_without_a_generator_the_global_seed_decides(loss: object) -> None:
    z = _chi_batch(32, 4, seed=0)
    values = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        values.append(loss(z))  # type: ignore[operator]
    assert torch.equal(values[0], values[1])
    assert not torch.equal(values[0], values[2])


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("quantile", "target: expected one of samples, quantiles, got 'quantile'"),
        (None, "target: expected one of samples, quantiles, got None"),
        (torch.zeros(3), "target: expected 4 values, one per row of z, got 3"),
        (torch.zeros(4, 1), r"target: expected shape \(N,\), got \(4, 1\)"),
        (torch.full((4,), torch.nan), "target: 4 of 4 values are not finite"),
    ],
    ids=["unknown", "none", "length", "2-D", "not_finite"],
)
def test_wasserstein_refuses_wrong_targets(target: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        radial_wasserstein_loss(torch.ones(4, 2), target)  # type: ignore[arg-type]


@pytest.mark.parametrize(("dim", "bandwidth"), [(1, None), (3, 0.7), (512, None)])
def test_reverse_kl_equals_scipy_kde(dim: int, bandwidth: float | None) -> None:
    z = _chi_batch(50, dim, seed=0) * 1.1
    value = radial_reverse_kl_loss(z, bandwidth, 100, torch.Generator().manual_seed(4))
    draws = chi_draws(100, dim, z, torch.Generator().manual_seed(4)).numpy()
    radii = z.norm(dim=1).numpy()
    kde = stats.gaussian_kde(radii, "silverman" if bandwidth is None else bandwidth / radii.std(ddof=1))
    assert value.item() == pytest.approx(-kde.logpdf(draws).mean(), rel=1e-10)


@pytest.mark.parametrize("dim", [1, 512])
def test_reverse_kl_is_smallest_near_the_right_scale(dim: int) -> None:
    z = _chi_batch(1000, dim, seed=0)
    generator = torch.Generator()
    wrong, right, also_wrong = (
        radial_reverse_kl_loss(z * f, generator=generator.manual_seed(0)).item() for f in (0.7, 1.0, 1.4)
    )
    assert right < min(wrong, also_wrong)
    assert right == pytest.approx(stats.chi(float(dim)).entropy(), abs=0.1)


def test_reverse_kl_of_collapsed_radii_uses_the_smallest_bandwidth() -> None:
    z = torch.ones(6, 4, dtype=torch.float64)
    generator = torch.Generator()
    collapsed = radial_reverse_kl_loss(z, generator=generator.manual_seed(0))
    assert torch.equal(collapsed, radial_reverse_kl_loss(z, MIN_BANDWIDTH, generator=generator.manual_seed(0)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bandwidth": 0.0}, "bandwidth: expected a finite number > 0, got 0.0"),
        ({"bandwidth": -1}, "bandwidth: expected a finite number > 0, got -1"),
        ({"num_targets": 0}, "num_targets: expected an integer >= 1, got 0"),
        ({"num_targets": 2.5}, "num_targets: expected an integer >= 1, got 2.5"),
    ],
    ids=str,
)
def test_reverse_kl_refuses_wrong_settings(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        radial_reverse_kl_loss(torch.ones(4, 2), **arguments)  # type: ignore[arg-type]
