"""Loss that keeps the mean of the embeddings at zero; without it, an offset can give chi radii (docs/offset.md)."""

from __future__ import annotations

from torch import Tensor

from radial_vicreg.losses._checks import checked_view, full_precision


def mean_loss(z: Tensor) -> Tensor:
    r"""Mean over dimensions of the squared batch mean.

    :math:`\frac1d\sum_jm_j^2` with :math:`m=\frac1N\sum_nz_n`. Variance and covariance do not depend on :math:`m`, but
    norms do: :math:`\frac1N\sum_n\|z_n\|^2=\frac{N-1}N\mathrm{tr}\,C+\|m\|^2`, so an offset shared by all embeddings
    can satisfy the radial terms. The paper has no such term.

    A batch mean differs from the mean of all images: if the latter is zero, the expected value is
    :math:`\mathrm{tr}\,C/(Nd)`.

    Args:
        z: embeddings of one view, shape ``(N, d)``; float16, bfloat16, float32 or float64.

    Returns:
        0-d tensor in squared units of ``z``, at least float32.

    Raises:
        ValueError: wrong dtype or shape, fewer than two rows, or non-finite values (the check waits for a GPU).

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
