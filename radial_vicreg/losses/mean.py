"""A loss that holds the mean of the embeddings at zero: without it, radii reach chi by an offset (docs/offset.md)."""

from __future__ import annotations

from torch import Tensor

from radial_vicreg.losses._checks import checked_view, full_precision


def mean_loss(z: Tensor) -> Tensor:
    r"""Mean over dimensions of the squared batch mean.

    :math:`\frac1d\sum_jm_j^2` with :math:`m=\frac1N\sum_nz_n`. Variance and covariance do not see :math:`m`, but norms
    do: :math:`\frac1N\sum_n\|z_n\|^2=\frac{N-1}N\mathrm{tr}\,C+\|m\|^2`, so that the radial terms can be satisfied by
    an offset that all embeddings share. The term is none of the paper's.

    A batch's mean is not that of all images: where that is zero, the value is :math:`\mathrm{tr}\,C/(Nd)` on average.

    Args:
        z: embeddings of one view, shape ``(N, d)``; float16, bfloat16, float32 or float64.

    Returns:
        0-d tensor in squared units of ``z``, at least float32.

    Raises:
        ValueError: wrong dtype or shape, fewer than two rows, or non-finite values (looking for them waits
            for a GPU).

    Examples:
        >>> import torch
        >>> from radial_vicreg.losses import mean_loss
        >>> z = torch.tensor([[1.0, 1.0], [1.0, -1.0]])
        >>> mean_loss(z).item(), mean_loss(z - z.mean(dim=0)).item()
        (0.5, 0.0)
    """
    z = checked_view(z)
    with full_precision(z):
        return mean_loss_of(z.mean(dim=0))


def mean_loss_of(mean: Tensor) -> Tensor:
    """Compute :func:`mean_loss` from batch means, averaged over further dimensions."""
    return mean.square().mean()
