"""Detect the caller: eager PyTorch, a transform of ``torch.func``, or a tracer that records operations.

Eager training gets the analytic backward, checks of values and the terms of each call. Transforms and exports need a
plain function of tensors, which reads no values and stores nothing on the module.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor
from torch.autograd import forward_ad

P = ParamSpec("P")
R = TypeVar("R")


def values_are_at_hand() -> bool:
    """Return whether Python may read tensor values; false under a tracer and transforms such as ``torch.func.vmap``."""
    return not (torch.compiler.is_compiling() or torch.jit.is_tracing() or is_transformed())


def is_transformed() -> bool:
    """Return whether a transform of ``torch.func`` is active: ``grad``, ``jacrev``, ``hessian``, ``vmap``, ..."""
    # torch.autograd.Function itself calls this; there is no public equivalent.
    return torch._C._are_functorch_transforms_active()


def is_exported() -> bool:
    """Return whether ``torch.export`` is active."""
    # torch.compiler.is_exporting is newer than the oldest supported PyTorch.
    return torch.compiler.is_compiling() and not torch.compiler.is_dynamo_compiling()


def needs_plain_autograd(views: Iterable[Tensor]) -> bool:
    """Return whether the analytic backward does not apply: under transforms, exports and forward mode."""
    return is_transformed() or is_exported() or any(_has_tangent(z) for z in views)


def outside_graphs(function: Callable[P, R]) -> Callable[P, R]:
    """Exclude a function, such as a random generator, from torch.compile, which would warn about its contents.

    Unlike ``torch.compiler.disable``, this does not import the compiler in eager mode, which takes seconds.
    """
    disabled: Callable[P, R] = torch._disable_dynamo(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return disabled(*args, **kwargs) if torch.compiler.is_compiling() else function(*args, **kwargs)

    return call


def _has_tangent(z: Tensor) -> bool:
    # Under torch.compile, forward mode appears as a transform.
    return not torch.compiler.is_compiling() and forward_ad.unpack_dual(z).tangent is not None
