"""The three terms of VICReg: invariance, variance, covariance (section 2.2 of the paper)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from radial_vicreg.losses._checks import checked_number, checked_pair, checked_view, full_precision

#: Target standard deviation of the variance term, and the constant that it adds to the variance inside the root.
VARIANCE_GAMMA, VARIANCE_EPS = 1.0, 1e-4


def invariance_loss(z1: Tensor, z2: Tensor) -> Tensor:
    r"""Mean squared difference of the two views.

    :math:`\frac1{Nd}\sum_{ij}(z_{ij}-z'_{ij})^2`. The paper's formula sums over ``d``; solo-learn and the
    authors of VICReg average, and the usual weights (25, 25, 1) assume the average.

    Args:
        z1: embeddings of view 1, shape ``(N, d)``; float16, bfloat16, float32 or float64.
        z2: embeddings of view 2, same shape.

    Returns:
        0-d tensor, at least float32.

    Raises:
        ValueError: wrong dtype or shape, fewer than two rows, shapes that differ, or non-finite values
            (the check waits for a GPU).

    Examples:
        >>> import torch
        >>> from radial_vicreg.losses import invariance_loss
        >>> z = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> round(invariance_loss(z, 2 * z).item(), 4)
        0.5
    """
    z1, z2 = checked_pair(z1, z2)
    with full_precision(z1):
        return invariance_of((z1, z2))


def variance_loss(z: Tensor, gamma: float = VARIANCE_GAMMA, eps: float = VARIANCE_EPS) -> Tensor:
    r"""Hinge that keeps the standard deviation of every dimension above ``gamma``.

    :math:`\frac1d\sum_j\max(0,\gamma-\sqrt{\mathrm{Var}(z^j)+\epsilon})`, with the unbiased variance.

    Args:
        z: embeddings of one view, shape ``(N, d)``; float16, bfloat16, float32 or float64.
        gamma: the standard deviation to reach, in units of ``z``.
        eps: added to the variance, inside the root.

    Returns:
        0-d tensor, at least float32.

    Raises:
        ValueError: wrong dtype or shape, fewer than two rows, non-finite values (the check waits for a GPU), a negative
            ``gamma`` or an ``eps`` that is not positive.

    Examples:
        The first dimension is constant, the second varies enough:

        >>> import torch
        >>> from radial_vicreg.losses import variance_loss
        >>> z = torch.tensor([[0.0, 0.0], [0.0, 2.0]])
        >>> round(variance_loss(z).item(), 4)
        0.495
    """
    z = checked_view(z)
    gamma, eps = checked_number("gamma", gamma), checked_number("eps", eps, positive=True)
    with full_precision(z):
        return variance_of(centred(z), gamma, eps)


def covariance_loss(z: Tensor) -> Tensor:
    r"""Sum of the squared covariances between different dimensions, divided by ``d``.

    :math:`\frac1d\sum_{i\neq j}C_{ij}^2` with :math:`C=\frac1{N-1}\sum_n(z_n-\bar z)(z_n-\bar z)^\top`.
    With fewer samples than dimensions the ``N x N`` Gram matrix replaces the ``d x d`` covariance.

    Args:
        z: embeddings of one view, shape ``(N, d)``; float16, bfloat16, float32 or float64.

    Returns:
        0-d tensor, at least float32.

    Raises:
        ValueError: wrong dtype or shape, fewer than two rows, or non-finite values (the check waits for a GPU).

    Examples:
        >>> import torch
        >>> from radial_vicreg.losses import covariance_loss
        >>> equal = torch.tensor([[-1.0, -1.0], [0.0, 0.0], [1.0, 1.0]])
        >>> round(covariance_loss(equal).item(), 4)
        1.0
        >>> uncorrelated = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
        >>> round(covariance_loss(uncorrelated).item(), 4)
        0.0
    """
    z = checked_view(z)
    with full_precision(z):
        return covariance_of(centred(z))


def invariance_of(views: tuple[Tensor, ...]) -> Tensor:
    """Average :func:`invariance_loss` over all pairs of checked views."""
    if len(views) == 2:
        return (views[0] - views[1]).square().mean()
    # Linear in V: the squared distances of all pairs add up to V times those from the views' centre.
    centre = torch.stack(views).mean(dim=0)
    return torch.stack([(z - centre).square().mean() for z in views]).sum() * (2 / (len(views) - 1))


def centred(z: Tensor) -> Tensor:
    """Subtract the batch mean from ``z``."""
    return z - z.mean(dim=0)


def variance_of(deviations: Tensor, gamma: float = VARIANCE_GAMMA, eps: float = VARIANCE_EPS) -> Tensor:
    """Compute :func:`variance_loss` of a centred batch."""
    return F.relu(gamma - (_variances(deviations) + eps).sqrt()).mean()


def covariance_of(deviations: Tensor) -> Tensor:
    """Compute :func:`covariance_loss` of a centred batch."""
    count, dim = deviations.shape
    if count < dim:
        # ||Z Z^T||_F = ||Z^T Z||_F. Clamped because rounding can make the difference negative when it is near zero,
        # that is, when few dimensions hold the variance.
        gram = deviations @ deviations.T / (count - 1)
        return (gram.square().sum() - _variances(deviations).square().sum()).clamp(min=0) / dim
    covariance = deviations.T @ deviations / (count - 1)
    # Zero the diagonal before squaring: subtracting it from the sum afterwards cancels on whitened data.
    covariance.diagonal().zero_()
    return covariance.square().sum() / dim


def _variances(deviations: Tensor) -> Tensor:
    return deviations.square().sum(dim=0) / (deviations.shape[0] - 1)
