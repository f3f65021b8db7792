"""E2MC (Chakraborty et al., 2025): maximal entropy of every dimension, minimal covariance between them."""

from __future__ import annotations

from torch import Tensor

from radial_vicreg.losses._checks import checked_number, checked_spacing, checked_view, full_precision
from radial_vicreg.losses.radial import spacing_entropy_of
from radial_vicreg.losses.vicreg import centred, covariance_of

#: Weight of the hypercovariance relative to the entropy; the authors of E2MC use 10 for the entropy and 1 for the
#: hypercovariance.
HYPERCOVARIANCE_WEIGHT = 0.1


def marginal_entropy(z: Tensor) -> Tensor:
    r"""Mean over dimensions of the m-spacing entropy of :math:`\sigma(z)`, with ``m = round(sqrt(N))``.

    The sigmoid maps every dimension to (0, 1), where the uniform distribution has the largest entropy, zero.

    Args:
        z: embeddings of one view, shape ``(N, d)``; float16, bfloat16, float32 or float64.

    Returns:
        0-d tensor in nats, at least float32.

    Raises:
        ValueError: wrong dtype or shape, fewer than two rows, or non-finite values (the check waits for a GPU).

    Examples:
        If the sigmoid gives a uniform sample, the entropy has its maximum, zero:

        >>> import torch
        >>> from radial_vicreg.losses import marginal_entropy
        >>> z = torch.linspace(0.001, 0.999, 1000).logit()[:, None]
        >>> abs(round(marginal_entropy(z).item(), 3)), round(marginal_entropy(z / 2).item(), 2)
        (0.0, -0.33)
    """
    z = checked_view(z)
    with full_precision(z):
        return _marginal_entropy_of(z.sigmoid())


def hypercovariance_loss(z: Tensor) -> Tensor:
    r"""Covariance loss (:func:`~radial_vicreg.losses.covariance_loss`) of :math:`\sigma(z)`.

    Args:
        z: embeddings of one view, shape ``(N, d)``; float16, bfloat16, float32 or float64.

    Returns:
        0-d tensor, at least float32.

    Raises:
        ValueError: wrong dtype or shape, fewer than two rows, or non-finite values (the check waits for a GPU).

    Examples:
        >>> import torch
        >>> from radial_vicreg.losses import covariance_loss, hypercovariance_loss
        >>> z = torch.tensor([[-1.0, -1.0], [0.0, 0.0], [1.0, 1.0]])
        >>> round(hypercovariance_loss(z).item(), 4), round(covariance_loss(z.sigmoid()).item(), 4)
        (0.0029, 0.0029)
    """
    z = checked_view(z)
    with full_precision(z):
        return covariance_of(centred(z.sigmoid()))


def e2mc_loss(z: Tensor, hypercovariance_weight: float = HYPERCOVARIANCE_WEIGHT) -> Tensor:
    r"""Weighted :func:`hypercovariance_loss` minus :func:`marginal_entropy`.

    :math:`w\,c(\sigma(Z))-\frac1d\sum_jH(\sigma(z^j))`, where :math:`c` is the covariance loss and :math:`H` the
    m-spacing entropy.

    Args:
        z: embeddings of one view, shape ``(N, d)``; float16, bfloat16, float32 or float64.
        hypercovariance_weight: relative weight of the second term, at least 0.

    Returns:
        0-d tensor, at least float32.

    Raises:
        ValueError: wrong dtype or shape, fewer than two rows, a negative weight, or non-finite values
            (the check waits for a GPU).

    Examples:
        >>> import torch
        >>> from radial_vicreg.losses import e2mc_loss
        >>> z = torch.linspace(0.001, 0.999, 1000).logit()[:, None].repeat(1, 2)  # uniform, but twice the same
        >>> round(e2mc_loss(z).item(), 4), round(e2mc_loss(z, hypercovariance_weight=10.0).item(), 4)
        (0.0007, 0.0693)
    """
    z = checked_view(z)
    weight = checked_number("hypercovariance_weight", hypercovariance_weight)
    with full_precision(z):
        return e2mc_of(z, weight)


def e2mc_of(z: Tensor, hypercovariance_weight: float = HYPERCOVARIANCE_WEIGHT) -> Tensor:
    """Compute :func:`e2mc_loss` of a checked batch."""
    squashed = z.sigmoid()
    return hypercovariance_weight * covariance_of(centred(squashed)) - _marginal_entropy_of(squashed)


def _marginal_entropy_of(squashed: Tensor) -> Tensor:
    ordered = squashed.sort(dim=0).values
    return spacing_entropy_of(ordered, checked_spacing(None, len(ordered)))
