"""Collectives of ``torch.distributed``; each is the identity with a single process."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from radial_vicreg.runtime.devices import process_device

T = TypeVar("T")


def is_distributed() -> bool:
    """Return whether ``torch.distributed`` is initialised with more than one process."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def world_size() -> int:
    """Return the number of processes; 1 when ``torch.distributed`` is not initialised."""
    return dist.get_world_size() if is_distributed() else 1


def rank() -> int:
    """Return the index of this process; 0 when ``torch.distributed`` is not initialised."""
    return dist.get_rank() if is_distributed() else 0


def all_gather(x: Tensor) -> Tensor:
    """Concatenate ``x`` of every rank along its first dimension, in rank order, without gradients.

    Args:
        x: any shape ``(n, ...)``, the same on every rank.

    Returns:
        Shape ``(world_size * n, ...)``, equal on every rank; ``x`` itself with one process.
    """
    return _all_gather(x) if is_distributed() else x


def sum_over_ranks(x: Tensor) -> Tensor:
    """Add up ``x`` over ranks, without gradients.

    Args:
        x: any shape, the same on every rank; not changed.

    Returns:
        The same shape, equal on every rank; ``x`` itself with one process.
    """
    return _reduce_sum(x) if is_distributed() else x


def add_over_ranks(x: Tensor) -> None:
    """Replace ``x`` by its sum over ranks, without gradients and without a copy.

    Args:
        x: contiguous, any shape, the same on every rank.
    """
    if is_distributed():
        dist.all_reduce(x)


def gather_with_grad(x: Tensor) -> Tensor:
    """Concatenate ``x`` of every rank along its first dimension, in rank order, with gradients.

    The backward pass gives each rank ``world_size`` times its own slice of the gradient, without
    communication. That is the sum over ranks, because every rank must compute the same function of the
    result; averaged by DDP it is the gradient of a single process that holds the whole batch.

    Args:
        x: any shape ``(n, ...)``, the same on every rank.

    Returns:
        Shape ``(world_size * n, ...)``, equal on every rank; ``x`` itself with one process.
    """
    return _Gather.apply(x) if is_distributed() else x


def mean_over_ranks(x: Tensor) -> Tensor:
    """Average ``x`` over ranks; the backward pass averages the gradient over ranks (one all-reduce).

    Unlike :func:`gather_with_grad`, the ranks may compute different functions of the result.

    Args:
        x: any shape, the same on every rank.

    Returns:
        The same shape, equal on every rank; ``x`` itself with one process.
    """
    return _Mean.apply(x) if is_distributed() else x


def broadcast_from_rank_zero(x: Tensor) -> Tensor:
    """Overwrite ``x`` with rank 0's values (no gradient) and return it."""
    if is_distributed():
        dist.broadcast(x, src=0)
    return x


def any_rank(flag: bool) -> bool:
    """Return whether ``flag`` is true on at least one rank. Every rank must call it; it waits for the device."""
    if not is_distributed():
        return flag
    on_gpu = dist.get_backend() == "nccl"
    votes = torch.tensor([int(flag)], device=process_device(on_gpu))
    dist.all_reduce(votes, op=dist.ReduceOp.MAX)
    return bool(votes.item())


def gather_integers(values: Sequence[int], device: torch.device) -> Tensor:
    """Collect every rank's ``values`` in a table of shape ``(world_size, len(values))``, int64 on ``device``."""
    row = torch.tensor([list(values)], dtype=torch.int64).to(device, non_blocking=True)
    return all_gather(row)


def gather_chunks(own: Tensor, chunk: int) -> Tensor:
    """Concatenate rows whose chunks the ranks computed in turn: rank 0 the first, rank 1 the second, ...

    Args:
        own: this rank's rows in order, ``(n, d)``; n may differ between ranks. It may be 0, and d with it.
        chunk: number of rows per chunk; only the last chunk may have fewer.

    Returns:
        All rows in their order, equal on every rank; ``own`` itself with one process.
    """
    if not is_distributed():
        return own
    shapes = gather_integers(own.shape, own.device)
    most, width = shapes.amax(dim=0).tolist()
    padded = own.new_zeros(most, width)
    padded[: len(own), : own.shape[1]] = own
    of_ranks = all_gather(padded).view(-1, most, width)
    chunks = [rows[:count].split(chunk) for rows, count in zip(of_ranks, shapes[:, 0].tolist(), strict=True)]
    return torch.cat([rows for turn in itertools.zip_longest(*chunks) for rows in turn if rows is not None])


def once(compute: Callable[[], T]) -> T:
    """Call a function on rank 0 only.

    Args:
        compute: function without collectives whose result or exception can be pickled.

    Returns:
        Its result on every rank; an exception is raised on every rank.
    """
    if not is_distributed():
        return compute()
    outcome: list[Any] = [None, None]
    if rank() == 0:
        try:
            outcome[0] = compute()
        except Exception as error:
            outcome[1] = error
    dist.broadcast_object_list(outcome, src=0)
    if outcome[1] is not None:
        raise outcome[1]
    result: T = outcome[0]
    return result


def _all_gather(x: Tensor) -> Tensor:
    gathered = x.new_empty(dist.get_world_size() * x.shape[0], *x.shape[1:])
    dist.all_gather(list(gathered.chunk(dist.get_world_size())), x.contiguous())
    return gathered


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.rows = x.shape[0]
        return _all_gather(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        start = dist.get_rank() * ctx.rows
        return grad[start : start + ctx.rows] * dist.get_world_size()


class _Mean(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return _reduce_mean(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return _reduce_mean(grad)


def _reduce_mean(x: Tensor) -> Tensor:
    return _reduce_sum(x) / dist.get_world_size()


def _reduce_sum(x: Tensor) -> Tensor:
    total = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total)
    return total
