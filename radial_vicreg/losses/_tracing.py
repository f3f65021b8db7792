"""Who calls: PyTorch itself as usual, a transform of ``torch.func``, or a tracer that records operations.

Eager training gets the analytic backward, checks of values and the terms of each call. Transforms and exports want a
plain function of tensors instead: no look at values, nothing kept on the module.
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
    """Tell whether Python may look at values; false under a tracer and under transforms such as ``torch.func.vmap``."""
    return not (torch.compiler.is_compiling() or torch.jit.is_tracing() or is_transformed())


def is_transformed() -> bool:
    """Tell whether a transform of ``torch.func`` is at work: ``grad``, ``jacrev``, ``hessian``, ``vmap``, ..."""
    # What torch.autograd.Function itself asks; there is no public name for it.
    return torch._C._are_functorch_transforms_active()


def is_exported() -> bool:
    """Tell whether ``torch.export`` is at work."""
    # torch.compiler.is_exporting is younger than the oldest PyTorch that we take.
    return torch.compiler.is_compiling() and not torch.compiler.is_dynamo_compiling()


def needs_plain_autograd(views: Iterable[Tensor]) -> bool:
    """Tell whether an analytic backward cannot serve: under transforms, exports and forward mode."""
    return is_transformed() or is_exported() or any(_has_tangent(z) for z in views)


def outside_graphs(function: Callable[P, R]) -> Callable[P, R]:
    """Keep torch.compile out of a function, such as a random generator; else it warns of what it met there.

    Unlike ``torch.compiler.disable``, do not load the compiler where nobody compiles: it takes seconds.
    """
    disabled: Callable[P, R] = torch._disable_dynamo(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return disabled(*args, **kwargs) if torch.compiler.is_compiling() else function(*args, **kwargs)

    return call


def _has_tangent(z: Tensor) -> bool:
    # While compiling, forward mode comes as a transform.
    return not torch.compiler.is_compiling() and forward_ad.unpack_dual(z).tangent is not None
