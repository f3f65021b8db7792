"""Losses that pull the embedding norms towards the chi distribution (sections 2.3 and D of the paper)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from radial_vicreg.losses._checks import (
    checked_choice,
    checked_integer,
    checked_number,
    checked_spacing,
    checked_vector,
    checked_view,
    full_precision,
)
from radial_vicreg.losses._chi import chi_draws, chi_log_normalizer, chi_quantiles
from radial_vicreg.losses._tracing import outside_graphs
from radial_vicreg.names.terms import WASSERSTEIN_TARGETS
from radial_vicreg.runtime.distributed import broadcast_from_rank_zero

#: Lower bound of squared norms, which keeps the gradients of root and logarithm finite at a norm of zero.
MIN_SQUARED_NORM = 1e-24
#: Lower bound of m-spacings under the logarithm; below the resolution of float32 at usual radii.
MIN_SPACING = 1e-12
#: Lower bound of Silverman's bandwidth, which is zero for collapsed radii and 0.1 to 0.5 for chi-distributed ones.
MIN_BANDWIDTH = 1e-3
#: Number of chi samples at which the reverse KL is evaluated.
REVERSE_KL_TARGETS = 512


def chi_cross_entropy(z: Tensor, normalize: bool = False) -> Tensor:
    r"""Cross-entropy of the radii against the chi distribution, up to its constant.

    :math:`\frac1N\sum_i\tfrac12\|z_i\|^2-(d-1)\log\|z_i\|` (equation 4 of the paper); smallest when every
    radius is :math:`\sqrt{d-1}`, the mode of :math:`\chi(d)`.

    Args:
        z: embeddings of one view, shape ``(N, d)``; float16, bfloat16, float32 or float64.
        normalize: divide by ``d``. The beta1 of 100 in the paper's tables assumes this factor.

    Returns:
        0-d tensor in nats (per dimension when ``normalize``), at least float32.

    Raises:
        ValueError: wrong dtype or shape, fewer than two rows, or non-finite values (the check waits for a GPU).

    Examples:
        >>> import torch
        >>> from radial_vicreg.losses import chi_cross_entropy
        >>> z = 3**0.5 * torch.eye(4)  # at the mode of chi(4)
        >>> round(chi_cross_entropy(z).item(), 3), round(chi_cross_entropy(2 * z).item(), 3)
        (-0.148, 2.273)
    """
    z = checked_view(z)
    with full_precision(z):
        return chi_cross_entropy_of(squared_norms(z), z.shape[1], normalize)


def m_spacing_entropy(radii: Tensor, m: int | None = None) -> Tensor:
    r"""Differential entropy of a sample by its one-sided m-spacings (equation 5 of the paper).

    :math:`\frac1{N-m}\sum_{i=1}^{N-m}\log\big(\frac{N+1}m(r_{(i+m)}-r_{(i)})\big)`. Spacings are clamped from
    below by ``MIN_SPACING``: ties give a finite value and no gradient, and all other spacings are unchanged.

    Args:
        radii: the sample, shape ``(N,)``, in any order; float16, bfloat16, float32 or float64.
        m: spacing within ``1..N-1``; by default ``round(sqrt(N))``.

    Returns:
        0-d tensor in nats, at least float32.

    Raises:
        ValueError: wrong dtype or shape, fewer than two values, ``m`` out of range, or non-finite values
            (the check waits for a GPU).

    Examples:
        A uniform distribution of width 2 has an entropy of log 2, 0.693:

        >>> import torch
        >>> from radial_vicreg.losses import m_spacing_entropy
        >>> round(m_spacing_entropy(torch.linspace(0, 2, 1000)).item(), 3)
        0.695
    """
    radii = checked_vector(radii, "radii")
    m = checked_spacing(m, len(radii))
    with full_precision(radii):
        return spacing_entropy_of(radii.sort().values, m)


def radial_gaussianization_loss(
    z: Tensor,
    ce_weight: float = 1.0,
    ent_weight: float = 1.0,
    m: int | None = None,
    normalize_ce: bool = False,
) -> Tensor:
    r"""Weighted cross-entropy minus entropy: the paper's :math:`r(Z;\beta_1,\beta_2)` (equations 6, 7).

    Args:
        z: embeddings of one view, shape ``(N, d)``; float16, bfloat16, float32 or float64.
        ce_weight: :math:`\beta_1`, at least 0.
        ent_weight: :math:`\beta_2`, at least 0.
        m: spacing of :func:`m_spacing_entropy`.
        normalize_ce: divide the cross-entropy by ``d``.

    Returns:
        0-d tensor, at least float32.

    Raises:
        ValueError: wrong dtype or shape, fewer than two rows, a negative weight, ``m`` out of range, or
            non-finite values (the check waits for a GPU).

    Examples:
        >>> import torch
        >>> from radial_vicreg.losses import chi_cross_entropy, m_spacing_entropy, radial_gaussianization_loss
        >>> z = torch.arange(1.0, 13.0).reshape(4, 3)
        >>> parts = chi_cross_entropy(z) - 0.5 * m_spacing_entropy(z.norm(dim=1))
        >>> bool(torch.isclose(radial_gaussianization_loss(z, ent_weight=0.5), parts))
        True
    """
    z = checked_view(z)
    ce_weight, ent_weight = checked_number("ce_weight", ce_weight), checked_number("ent_weight", ent_weight)
    m = checked_spacing(m, len(z))
    with full_precision(z):
        squared = squared_norms(z)
        cross_entropy = chi_cross_entropy_of(squared, z.shape[1], normalize_ce)
        return ce_weight * cross_entropy - ent_weight * spacing_entropy_of(squared.sqrt().sort().values, m)


def radial_kl(z: Tensor, m: int | None = None) -> Tensor:
    r"""Estimate of :math:`D_{KL}(p(\|z\|)\,\|\,\chi(d))` (equation 2), constant included.

    The estimate is biased upwards, because the m-spacing entropy is biased downwards: on exact chi(512) radii by about
    +0.32 at N = 16, +0.15 at 256 and +0.055 at 4,096.

    Args:
        z: embeddings of one view, shape ``(N, d)``; float16, bfloat16, float32 or float64.
        m: spacing of :func:`m_spacing_entropy`.

    Returns:
        0-d tensor in nats, at least float32.

    Raises:
        ValueError: wrong dtype or shape, fewer than two rows, ``m`` out of range, or non-finite values
            (the check waits for a GPU).

    Examples:
        >>> import torch
        >>> from radial_vicreg.losses import radial_kl
        >>> z = torch.randn(4096, 64, generator=torch.Generator().manual_seed(0))
        >>> round(radial_kl(z).item(), 1), round(radial_kl(2 * z).item())
        (0.1, 52)
    """
    z = checked_view(z)
    m = checked_spacing(m, len(z))
    with full_precision(z):
        squared = squared_norms(z)
        cross_entropy = chi_cross_entropy_of(squared, z.shape[1], normalize=False) + chi_log_normalizer(z.shape[1])
        return cross_entropy - spacing_entropy_of(squared.sqrt().sort().values, m)


def radial_wasserstein_loss(
    z: Tensor, target: str | Tensor = "samples", generator: torch.Generator | None = None
) -> Tensor:
    r"""Wasserstein-1 distance of the radii to the chi distribution (appendix D of the paper).

    :math:`\frac1K\sum_i|r_{(i)}-u_{(i)}|` over sorted radii and sorted targets, ``K = N``.

    The authors' 2-D code divides radii and targets by :math:`\sqrt{d-1}` by default; the paper and this function do
    not. The distance of that code is smaller by this factor, so a weight :math:`\gamma` for that code corresponds to
    :math:`\gamma/\sqrt{d-1}` here.

    Args:
        z: embeddings of one view, shape ``(N, d)``; float16, bfloat16, float32 or float64.
        target: ``"samples"``: N new samples from chi(d), as in the paper. ``"quantiles"``: exact quantiles of chi(d) at
            ``(i - 1/2) / N``, which have no sampling noise. A tensor of shape ``(N,)``: the target radii.
        generator: generator of the samples, seeded alike on every rank. ``None`` uses the global CPU generator and,
            when ``torch.distributed`` is initialised, rank 0's samples on every rank; all ranks must then call this
            function.

    Returns:
        0-d tensor in units of ``z``, at least float32.

    Raises:
        ValueError: wrong dtype or shape, fewer than two rows, an unknown ``target``, a target tensor of
            another length, or non-finite values (the check waits for a GPU).

    Examples:
        >>> import torch
        >>> from radial_vicreg.losses import radial_wasserstein_loss
        >>> radial_wasserstein_loss(torch.eye(2), target=torch.tensor([1.0, 3.0])).item()
        1.0
        >>> z = torch.randn(4096, 64, generator=torch.Generator().manual_seed(0))
        >>> [round(radial_wasserstein_loss(scale * z, target="quantiles").item(), 1) for scale in (1, 2)]
        [0.0, 8.0]
    """
    z = checked_view(z)
    count, dim = z.shape
    with full_precision(z):
        if isinstance(target, Tensor):
            target = checked_vector(target, "target", count).to(z).sort().values
        elif checked_choice("target", target, WASSERSTEIN_TARGETS) == "quantiles":
            target = chi_quantiles(count, dim, z.dtype, z.device)
        else:
            target = _shared_draws(count, z, generator).sort().values
        return wasserstein_of(squared_norms(z).sqrt().sort().values, target)


def radial_reverse_kl_loss(
    z: Tensor,
    bandwidth: float | None = None,
    num_targets: int = REVERSE_KL_TARGETS,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""Estimate of :math:`D_{KL}(\chi(d)\,\|\,p(\|z\|))`, up to the entropy of the chi distribution.

    :math:`-\frac1K\sum_k\log\hat p(u_k)` over draws :math:`u_k\sim\chi(d)`, where :math:`\hat p` is the
    Gaussian kernel density estimate of the radii.

    The authors' 2-D code divides radii and samples by :math:`\sqrt{d-1}` by default. With Silverman's rule, whose
    bandwidth scales with the radii, that only subtracts :math:`\tfrac12\log(d-1)`; a fixed bandwidth :math:`h` for that
    code corresponds to :math:`h\sqrt{d-1}` here.

    Args:
        z: embeddings of one view, shape ``(N, d)``; float16, bfloat16, float32 or float64.
        bandwidth: standard deviation of the kernel, in units of ``z``. ``None``: Silverman's rule as in
            ``scipy.stats.gaussian_kde``, with gradient, and at least ``MIN_BANDWIDTH``.
        num_targets: number of chi samples.
        generator: generator of the samples, seeded alike on every rank. ``None`` uses the global CPU generator and,
            when ``torch.distributed`` is initialised, rank 0's samples on every rank; all ranks must then call this
            function.

    Returns:
        0-d tensor in nats, at least float32.

    Raises:
        ValueError: wrong dtype or shape, fewer than two rows, a bandwidth that is not positive, fewer than
            one target, or non-finite values (the check waits for a GPU).

    Examples:
        >>> import torch
        >>> from radial_vicreg.losses import radial_reverse_kl_loss
        >>> z = torch.randn(256, 64, generator=torch.Generator().manual_seed(0))
        >>> near = radial_reverse_kl_loss(z, generator=torch.Generator().manual_seed(1))
        >>> far = radial_reverse_kl_loss(2 * z, generator=torch.Generator().manual_seed(1))
        >>> round(near.item()), bool(far > 10 * near)
        (1, True)
    """
    z = checked_view(z)
    if bandwidth is not None:
        bandwidth = checked_number("bandwidth", bandwidth, positive=True)
    num_targets = checked_integer("num_targets", num_targets, minimum=1)
    with full_precision(z):
        return reverse_kl_of(squared_norms(z).sqrt(), _shared_draws(num_targets, z, generator), bandwidth)


def squared_norms(z: Tensor) -> Tensor:
    """Compute the squared norm of every row, at least ``MIN_SQUARED_NORM``, shape ``(N,)``."""
    return z.square().sum(dim=1).clamp(min=MIN_SQUARED_NORM)


def chi_cross_entropy_of(squared: Tensor, dim: int, normalize: bool) -> Tensor:
    """Compute :func:`chi_cross_entropy` from squared norms; the logarithm needs no square root."""
    energy = torch.add(squared, squared.log(), alpha=1 - dim)
    return energy.mean() * (0.5 / dim if normalize else 0.5)


def spacing_entropy_of(ordered: Tensor, m: int) -> Tensor:
    """Compute :func:`m_spacing_entropy` of samples sorted along the first dimension, averaged over further ones."""
    count = ordered.shape[0]
    spacings = (ordered[m:] - ordered[:-m]).clamp(min=MIN_SPACING)
    return spacings.log().mean() + math.log((count + 1) / m)


def wasserstein_of(ordered: Tensor, target: Tensor) -> Tensor:
    """Average the absolute differences of sorted norms and sorted targets."""
    return (ordered - target).abs().mean()


def reverse_kl_of(radii: Tensor, targets: Tensor, bandwidth: float | None = None) -> Tensor:
    """Compute :func:`radial_reverse_kl_loss` from norms and chi samples, both in any order."""
    count = radii.shape[0]
    if bandwidth is None:
        silverman: float = (3 * count / 4) ** (-1 / 5)
        width = (silverman**2 * radii.var()).clamp(min=MIN_BANDWIDTH**2).sqrt()
    else:
        width = radii.new_full((), bandwidth)
    distances = (targets[:, None] - radii[None, :]) / width
    log_density = torch.logsumexp(-0.5 * distances.square(), dim=1) - width.log()
    return math.log(count * math.sqrt(2 * math.pi)) - log_density.mean()


@outside_graphs
def _shared_draws(count: int, z: Tensor, generator: torch.Generator | None) -> Tensor:
    draws = chi_draws(count, z.shape[1], z, generator)
    return broadcast_from_rank_zero(draws) if generator is None else draws
