"""Statistics of the views for the objective, in few passes over them and with an analytic backward.

The formulas are those of :mod:`radial_vicreg.losses.vicreg` and :func:`radial_vicreg.losses.radial.squared_norms`
(:func:`_plain_statistics` uses them, and tests compare the two). docs/objective.md, "The backward pass", derives the
gradient and explains why it is cheaper.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from radial_vicreg.losses._tracing import needs_plain_autograd
from radial_vicreg.losses.radial import MIN_SQUARED_NORM, squared_norms
from radial_vicreg.losses.vicreg import VARIANCE_EPS, VARIANCE_GAMMA, centred, covariance_of, invariance_of, variance_of
from radial_vicreg.runtime.distributed import (
    add_over_ranks,
    all_gather,
    gather_with_grad,
    mean_over_ranks,
    rank,
    sum_over_ranks,
    world_size,
)


class ViewStatistics(NamedTuple):
    """What :func:`view_statistics` returns.

    Attributes:
        invariance: 0-d, averaged over the pairs of views, of this rank's samples.
        variance: 0-d, twice the mean over the views, of the global batch.
        covariance: 0-d, twice the mean over the views, of the global batch.
        squared_norms: of this rank's embeddings, at least ``MIN_SQUARED_NORM``, shape ``(V, n)``.
        mean: of the global batch, shape ``(V, d)``; with gradient if ``differentiable_mean``.
        all_squared_norms: of the global batch, in the order of the ranks, shape ``(V, N)``. Every rank must compute the
            same function of it, as with :func:`~radial_vicreg.runtime.distributed.gather_with_grad`.
    """

    invariance: Tensor
    variance: Tensor
    covariance: Tensor
    squared_norms: Tensor
    mean: Tensor
    all_squared_norms: Tensor


def view_statistics(
    views: tuple[Tensor, ...], gather: bool, center: bool, differentiable_mean: bool = False
) -> ViewStatistics:
    """Compute invariance, variance, covariance and squared norms of V >= 2 views, twice differentiable.

    The plain formulas replace the analytic backward where it does not apply
    (:func:`~radial_vicreg.losses._tracing.needs_plain_autograd`).

    Args:
        views: embeddings of each view on this rank, shape ``(n, d)``, checked, of one dtype, at least float32.
        gather: take variance, covariance and mean over all ranks.
        center: compute the norms of the embeddings minus the batch mean.
        differentiable_mean: give the mean a gradient, at the cost of one more pass over the gradient of the embeddings.

    Returns:
        The statistics; DDP's average of their gradients over ranks equals the gradient in one process.
    """
    if needs_plain_autograd(views):
        found = ViewStatistics(*_plain_statistics(views, gather, center))
        return found if differentiable_mean else found._replace(mean=found.mean.detach())
    return ViewStatistics(*_Statistics.apply(*views, gather, center, differentiable_mean))


class _Statistics(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, ...]:
        # Unpacked here: torch.compile drops `ctx` when it passes one argument more than there are parameters.
        views, (gather, center, differentiable_mean) = arguments[:-3], arguments[-3:]
        rows, dim = views[0].shape
        count = rows * world_size() if gather else rows
        wide = count <= dim  # then the centred batch cannot be white, and the Gram form does not cancel
        exchange = gather and wide
        batch = all_gather(torch.stack(views, dim=1)).unbind(1) if exchange else views
        sums = torch.stack([_column_sums(z) for z in batch])
        mean = (sum_over_ranks(sums) if gather and not exchange else sums) / count
        deviations = views[0].new_empty(len(views), *batch[0].shape)
        for view, z in enumerate(batch):
            torch.sub(z, mean[view], out=deviations[view])
        first = rank() * rows if exchange else 0
        own = deviations[:, first : first + rows]
        squared = _row_squares(own) if center else torch.stack([_row_squares(z) for z in views])
        if wide:
            matrix, variances, covariances, everyone = _gram_moments(own, deviations, squared, gather)
        else:
            matrix, variances, covariances, everyone = _covariance_moments(deviations, squared, gather)
        deviation = (variances + VARIANCE_EPS).sqrt()
        invariance, reference = _invariance(views)
        ctx.gather, ctx.center, ctx.differentiable_mean = gather, center, differentiable_mean
        ctx.number, ctx.count, ctx.first = len(views), count, first
        kept = own.clone() if exchange else own  # the clone frees the other ranks' rows
        normed = deviations if center else batch
        ctx.save_for_backward(*views, *normed, kept, reference, matrix, variances, deviation, covariances, squared)
        parts = dim * len(views) / 2
        outputs = (
            invariance,
            (VARIANCE_GAMMA - deviation).relu().sum() / parts,
            covariances.clamp(min=0).sum() / parts,
            squared.clamp(min=MIN_SQUARED_NORM),
            mean,
            everyone.clamp(min=MIN_SQUARED_NORM),
        )
        if not differentiable_mean:
            ctx.mark_non_differentiable(mean)
        return outputs

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        saved, number = ctx.saved_tensors, ctx.number
        views, normed = saved[:number], saved[number : 2 * number]
        if torch.is_grad_enabled():  # create_graph: these gradients will be differentiated again
            views = tuple(z.view_as(z) for z in views)  # one tensor may be passed as several views: a gradient each
            outputs = _plain_statistics(views, ctx.gather, ctx.center)
            wanted = [z for z in views if z.requires_grad]
            found = iter(torch.autograd.grad(outputs, wanted, grads, create_graph=True))
            return *(next(found) if z.requires_grad else None for z in views), None, None, None
        own, reference, matrix, variances, deviation, covariances, squared = saved[2 * number :]
        dim = own.shape[-1]
        # Names and formulas: docs/objective.md, "The backward pass".
        ranks = world_size() if ctx.gather else 1
        share = ranks / (dim * number / 2 * (ctx.count - 1))
        columns = -share * grads[1] * (deviation < VARIANCE_GAMMA) / deviation
        pull = 4 * share * grads[2] * (covariances >= 0)[:, None]
        place = rank() * squared.shape[1] if ctx.gather else 0
        of_all = grads[5][:, place : place + squared.shape[1]]
        stretch = 2 * (grads[3] + ranks * of_all) * (squared >= MIN_SQUARED_NORM)
        mixing = matrix * pull[:, None]
        gradient = torch.empty_like(own)
        if ctx.count <= dim:
            mixing.diagonal(offset=ctx.first, dim1=1, dim2=2).add_(stretch)
            for view, z in enumerate(normed):
                torch.mm(mixing[view], z, out=gradient[view])
            gradient.addcmul_(own, (columns - pull * variances)[:, None])
        else:
            mixing.diagonal(dim1=1, dim2=2).add_(columns)
            torch.bmm(own, mixing, out=gradient)
            for view, z in enumerate(normed):
                gradient[view].addcmul_(z, stretch[view, :, None])
        if ctx.center:
            shift = (stretch[:, None] @ own) / ctx.count
            gradient.sub_(sum_over_ranks(shift) if ctx.gather else shift)
        if ctx.differentiable_mean:
            gradient.add_(grads[4][:, None], alpha=ranks / ctx.count)
        _add_invariance_gradient(gradient, views, reference, grads[0])
        return *(gradient[view] for view in range(number)), None, None, None


def _invariance(views: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """Compute the invariance and the input of its gradient: the difference of two views, or the centre of more."""
    count, dim = len(views), views[0].shape[1]
    if count == 2:
        difference = views[0] - views[1]
        return _row_squares(difference).mean() / dim, difference
    centre = views[0] + views[1]
    for z in views[2:]:
        centre.add_(z)
    centre.div_(count)
    offset = torch.empty_like(centre)  # reused for each view
    squares = torch.stack([_row_squares(torch.sub(z, centre, out=offset)) for z in views])
    return squares.mean() * (2 * count / (count - 1)) / dim, centre


def _add_invariance_gradient(gradient: Tensor, views: tuple[Tensor, ...], reference: Tensor, weight: Tensor) -> None:
    """Add ``weight`` times the derivative of :func:`_invariance` to the gradient with respect to the views."""
    count, size = len(views), reference.numel()
    if count == 2:
        gradient[0].addcmul_(reference, weight, value=2 / size)
        gradient[1].addcmul_(reference, weight, value=-2 / size)
        return
    offset = torch.empty_like(reference)
    for view, z in enumerate(views):
        gradient[view].addcmul_(torch.sub(z, reference, out=offset), weight, value=4 / ((count - 1) * size))


def twice_the_mean(terms: Sequence[Tensor]) -> Tensor:
    """Return twice the mean of the views' terms; for two views, that is their sum."""
    return 2 * torch.stack([*terms]).mean()


def _gram_moments(
    own: Tensor, deviations: Tensor, squared: Tensor, gather: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute this rank's rows of the Gram matrices, variances, and sums of squared off-diagonal covariances.

    The last tensor returned has the squared norms of all ranks. They are gathered together with the shares of the sums.
    """
    divisor = deviations.shape[1] - 1
    gram = torch.bmm(own, deviations.mT).div_(divisor)
    squares = torch.empty_like(deviations[0])  # reused for each view
    sums = [_column_sums(torch.mul(view, view, out=squares)) for view in deviations]
    variances = torch.stack(sums) / divisor
    mass, everyone = _square_sum(gram), squared
    if gather:
        of_ranks = all_gather(torch.cat([mass[:, None], squared], dim=1)[None])
        mass, everyone = of_ranks[:, :, 0].sum(dim=0), of_ranks[:, :, 1:].transpose(0, 1).flatten(1)
    return gram, variances, mass - variances.square().sum(dim=1), everyone


def _covariance_moments(deviations: Tensor, squared: Tensor, gather: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute the global covariance matrices without their diagonals, the diagonals, and the sums of squares.

    The last tensor returned has the squared norms of all ranks. They are sent behind the second moments, each rank's in
    a place of its own, so that there is one collective for both.
    """
    number, rows, dim = deviations.shape
    count = rows * (world_size() if gather else 1)
    sent = deviations.new_empty(number * (dim * dim + count))
    covariance = sent[: number * dim * dim].view(number, dim, dim)
    torch.bmm(deviations.mT, deviations, out=covariance)
    covariance.div_(count - 1)
    everyone = squared
    if gather:
        everyone = sent[number * dim * dim :].view(number, count).zero_()
        everyone[:, rank() * rows : (rank() + 1) * rows] = squared
        add_over_ranks(sent)
    diagonal = covariance.diagonal(dim1=1, dim2=2)
    variances = diagonal.clone()
    # Zero the diagonal before squaring: subtracting it from the sum afterwards cancels on whitened data.
    diagonal.zero_()
    return covariance, variances, _square_sum(covariance), everyone


def _plain_statistics(views: tuple[Tensor, ...], gather: bool, center: bool) -> tuple[Tensor, ...]:
    """Compute the outputs of :class:`_Statistics` by autograd."""
    gathered = gathered_views(views) if gather else views
    batch = [centred(z) for z in gathered]
    own = views
    if center:
        means = torch.stack([z.mean(dim=0) for z in views])
        own = tuple(z - mean for z, mean in zip(views, mean_over_ranks(means) if gather else means, strict=True))
    squared = torch.stack([squared_norms(z) for z in own])
    return (
        invariance_of(views),
        twice_the_mean([variance_of(deviations) for deviations in batch]),
        twice_the_mean([covariance_of(deviations) for deviations in batch]),
        squared,
        torch.stack([z.mean(dim=0) for z in gathered]),
        gather_with_grad(squared.T).T if gather else squared,
    )


def gathered_views(views: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Gather all views of all ranks with gradients, in one collective; see ``gather_with_grad``."""
    return gather_with_grad(torch.stack(views, dim=1)).unbind(1)


def _column_sums(x: Tensor) -> Tensor:
    if x.device.type != "cpu":
        return x.sum(dim=0)
    # BLAS reads the rows in order; ATen's reduction walks down the columns, 5 to 10 times slower for wide batches.
    return torch.mv(x.T, x.new_ones(len(x)))


def _row_squares(x: Tensor) -> Tensor:
    """Sum squares along the last dimension, without a tensor of squares."""
    norms: Tensor = torch.linalg.vector_norm(x, dim=-1)
    return norms.square()


def _square_sum(matrices: Tensor) -> Tensor:
    """Compute the squared Frobenius norm of each matrix, shape ``(V,)``."""
    return _row_squares(matrices).sum(dim=1)
