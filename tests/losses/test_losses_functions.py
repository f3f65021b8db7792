"""Functions of one view where the golden values do not reach: digits, ties, draws, densities, what they refuse."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from radial_vicreg.losses import (
    chi_cross_entropy,
    covariance_loss,
    e2mc_loss,
    m_spacing_entropy,
    radial_gaussianization_loss,
    radial_kl,
    radial_reverse_kl_loss,
    radial_wasserstein_loss,
    variance_loss,
)
from radial_vicreg.losses._chi import _cached_quantiles, chi_draws, chi_quantiles
from radial_vicreg.losses.radial import MIN_BANDWIDTH, MIN_SPACING, MIN_SQUARED_NORM


def _chi_batch(count: int, dim: int) -> Tensor:
    """A batch along one axis whose radii are a sample of chi."""
    z = torch.zeros(count, dim, dtype=torch.float64)
    z[:, 0] = torch.as_tensor(stats.chi.rvs(dim, size=count, random_state=0))
    return z


@pytest.mark.parametrize(("count", "dim"), [(512, 8), (9, 8)], ids=["many_samples", "barely_more_samples_than_d"])
def test_covariance_of_whitened_data_is_zero_and_not_negative(count: int, dim: int) -> None:
    z = torch.randn(count, dim, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    z = z - z.mean(dim=0)
    z = (z @ torch.linalg.inv(torch.linalg.cholesky(torch.cov(z.T))).T).float()
    assert 0 <= covariance_loss(z).item() < 1e-11


@pytest.mark.parametrize("shape", [(64, 16), (16, 64)], ids=["tall", "wide"])
def test_covariance_is_not_lost_in_a_large_mean(shape: tuple[int, int]) -> None:
    z = torch.randn(*shape, generator=torch.Generator().manual_seed(0))
    # 100 and quarter steps: the shift itself is exact in float32.
    z = (z * 1024).round() / 1024
    torch.testing.assert_close(covariance_loss(z + 100), covariance_loss(z), rtol=1e-4, atol=0)


def test_variance_is_the_hinge_on_the_unbiased_deviation() -> None:
    z = torch.tensor([[0.0, 0.0], [0.5, 10.0]], dtype=torch.float64)
    first = 1 - math.sqrt(0.125 + 1e-4)
    assert variance_loss(z).item() == pytest.approx(first / 2, rel=1e-12)
    assert variance_loss(z, gamma=0.1).item() == 0
    assert variance_loss(torch.ones(4, 3), gamma=2.0, eps=0.25).item() == pytest.approx(1.5)


def test_collapsed_batches_take_the_smallest_values_that_are_allowed_without_a_gradient() -> None:
    zero, ties = torch.zeros(4, 3, requires_grad=True), torch.full((9,), 2.0, requires_grad=True)
    found = chi_cross_entropy(zero), m_spacing_entropy(ties, 3)
    assert found[0].item() == pytest.approx(-math.log(MIN_SQUARED_NORM), rel=1e-6)
    assert found[1].item() == pytest.approx(math.log(10 / 3 * MIN_SPACING), rel=1e-6)
    assert not any(gradient.any() for gradient in torch.autograd.grad(sum(found), (zero, ties)))
    generator = torch.Generator()
    collapsed = radial_reverse_kl_loss(torch.ones(6, 4), generator=generator.manual_seed(0))
    assert torch.equal(
        collapsed, radial_reverse_kl_loss(torch.ones(6, 4), MIN_BANDWIDTH, generator=generator.manual_seed(0))
    )


def test_cross_entropy_may_be_divided_by_the_dimension_and_the_spacing_is_the_rounded_root() -> None:
    z = _chi_batch(30, 8)
    torch.testing.assert_close(chi_cross_entropy(z, normalize=True), chi_cross_entropy(z) / 8)
    radii = z.norm(dim=1)
    assert torch.equal(m_spacing_entropy(radii), m_spacing_entropy(radii, 5))


@pytest.mark.parametrize("dim", [1, 2, 512, 4096])
def test_quantiles_are_those_of_scipy_and_draws_follow_chi(dim: int) -> None:
    draws = chi_draws(4000, dim, torch.zeros((), dtype=torch.float64), torch.Generator().manual_seed(0))
    assert stats.kstest(draws.numpy(), stats.chi(dim).cdf).pvalue > 1e-3
    quantiles = chi_quantiles(64, dim, torch.float64, torch.device("cpu"))
    np.testing.assert_allclose(stats.chi.cdf(quantiles.numpy(), dim), (np.arange(64) + 0.5) / 64, rtol=1e-9)


def test_quantiles_first_met_in_inference_mode_serve_training() -> None:
    _cached_quantiles.cache_clear()
    z = _chi_batch(17, 3)
    with torch.inference_mode():
        radial_wasserstein_loss(z, "quantiles")
    radial_wasserstein_loss(z.requires_grad_(), "quantiles").backward()
    assert torch.isfinite(z.grad).all()


@pytest.mark.parametrize("loss", [radial_wasserstein_loss, radial_reverse_kl_loss])
def test_draws_follow_the_generator_or_the_global_seed(loss: Callable[..., Tensor]) -> None:
    z = _chi_batch(32, 4)
    one, other = (torch.Generator().manual_seed(5) for _ in range(2))
    first = loss(z, generator=one)
    assert torch.equal(first, loss(z, generator=other))
    assert not torch.equal(first, loss(z, generator=one)), "the generator runs on"
    values = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        values.append(loss(z))
    assert torch.equal(values[0], values[1])
    assert not torch.equal(values[0], values[2])


@pytest.mark.parametrize(("dim", "bandwidth"), [(1, None), (3, 0.7), (512, None)])
def test_reverse_kl_equals_scipy_kde(dim: int, bandwidth: float | None) -> None:
    z = _chi_batch(50, dim) * 1.1
    value = radial_reverse_kl_loss(z, bandwidth, 100, torch.Generator().manual_seed(4))
    draws = chi_draws(100, dim, z, torch.Generator().manual_seed(4)).numpy()
    radii = z.norm(dim=1).numpy()
    kde = stats.gaussian_kde(radii, "silverman" if bandwidth is None else bandwidth / radii.std(ddof=1))
    assert value.item() == pytest.approx(-kde.logpdf(draws).mean(), rel=1e-10)


ONES = torch.ones(4, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: m_spacing_entropy(torch.zeros(3, 2)), r"radii: expected shape \(N,\), got \(3, 2\)"),
        (lambda: m_spacing_entropy(torch.zeros(1)), "radii: at least 2 samples are needed, got 1"),
        (lambda: m_spacing_entropy(torch.arange(4)), "radii: expected float16"),
        (lambda: m_spacing_entropy(torch.tensor([1.0, torch.nan])), "radii: 1 of 2 values are not finite"),
        (lambda: m_spacing_entropy(torch.empty(4, device="meta")), "^radii: expected values, got a tensor on the meta"),
        (lambda: radial_gaussianization_loss(ONES, ce_weight=-0.5), "ce_weight: expected a finite number >= 0, got"),
        (lambda: radial_gaussianization_loss(ONES, ent_weight=None), "ent_weight: expected a finite number >= 0, got"),
        (
            lambda: radial_wasserstein_loss(ONES, "quantile"),
            "target: expected one of samples, quantiles",
        ),
        (lambda: radial_wasserstein_loss(ONES, torch.zeros(3)), "target: expected 4 values, one per row of z, got 3"),
        (lambda: radial_wasserstein_loss(ONES, torch.zeros(4, 1)), r"target: expected shape \(N,\), got \(4, 1\)"),
        (lambda: radial_wasserstein_loss(ONES, torch.full((4,), torch.nan)), "target: 4 of 4 values are not finite"),
        (
            lambda: radial_wasserstein_loss(ONES, torch.empty(4, device="meta")),
            "^target: expected values, got a",
        ),
        (lambda: variance_loss(ONES, gamma=-1.0), "gamma: expected a finite number"),
        (lambda: variance_loss(ONES, eps=0.0), "eps: expected a finite number"),
        (lambda: e2mc_loss(ONES, -0.1), r"hypercovariance_weight: expected a finite number >= 0, got -0\.1"),
        (lambda: radial_reverse_kl_loss(ONES, bandwidth=0.0), "bandwidth: expected a finite number > 0, got 0.0"),
        (lambda: radial_reverse_kl_loss(ONES, num_targets=2.5), "num_targets: expected an integer >= 1, got 2.5"),
    ],
)
def test_wrong_arguments_are_refused_by_name(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


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
    for m in (0, 8, 2.0, True):
        with pytest.raises(ValueError, match=r"m: expected an integer within 1\.\.7 for 8 samples, got"):
            call(torch.arange(8.0), m)
