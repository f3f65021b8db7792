"""The chi distribution with d degrees of freedom: its constant, its quantiles and samples from it."""

from __future__ import annotations

import math
import operator
from functools import lru_cache

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from radial_vicreg.losses._tracing import is_exported

#: Number of cached quantile vectors (one per batch size, dimension, dtype and device); a run uses one or two.
CACHED_QUANTILE_VECTORS = 32


def chi_log_normalizer(dim: int) -> float:
    r"""Compute :math:`(\frac d2-1)\log 2+\log\Gamma(\frac d2)`, the constant of equation 3 of the paper, in nats."""
    return (dim / 2 - 1) * math.log(2) + math.lgamma(dim / 2)


def chi_quantiles(count: int, dim: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return ascending chi(dim) quantiles at ``(i - 1/2) / count``, shape ``(count,)``.

    All callers share one tensor, which must not be modified. It is cached on the device: SciPy takes milliseconds, and
    a copy to a GPU at each step would stall it. Graphs of torch.compile and torch.export hold it as a constant.
    """
    # operator.index turns a compiler's symbolic size into the integer that SciPy needs.
    return _constant_quantiles(operator.index(count), operator.index(dim), dtype, device)


def chi_draws(count: int, dim: int, like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Sample ``count`` values from chi(dim), unsorted, with the dtype and device of ``like``.

    Each is the square root of a chi-squared sample, so the cost does not grow with ``dim``. The values depend only on
    the state of ``generator`` (``None``: the global CPU generator), not on the device of ``like``.
    """
    source = torch.device("cpu") if generator is None else generator.device
    seed = int(torch.randint(2**63 - 1, (), generator=generator, device=source))
    draws = np.sqrt(np.random.default_rng(seed).chisquare(dim, size=count))
    return torch.from_numpy(draws).to(like.dtype).to(like.device, non_blocking=True)


def _constant_quantiles(count: int, dim: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    # Tensors of a tracer must not enter the cache.
    return _new_quantiles(count, dim, dtype, device) if is_exported() else _cached_quantiles(count, dim, dtype, device)


# SciPy cannot be traced. This is torch.compiler.assume_constant_result without importing the compiler.
_constant_quantiles._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _new_quantiles(count: int, dim: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    probabilities = (np.arange(count) + 0.5) / count
    # Leave inference mode: a later training step could not use a cached inference tensor.
    with torch.inference_mode(False):
        return torch.from_numpy(stats.chi.ppf(probabilities, dim)).to(device=device, dtype=dtype)


_cached_quantiles = lru_cache(maxsize=CACHED_QUANTILE_VECTORS)(_new_quantiles)
