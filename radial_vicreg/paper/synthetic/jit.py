"""Compilation with numba."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from radial_vicreg.errors import MissingPackageError

try:
    import numba
except ImportError as error:  # pragma: no cover - depends on the environment
    raise MissingPackageError("the synthetic experiments need numba: pip install 'radial-vicreg[synthetic]'") from error

FAST_MATH = {"contract", "reassoc", "nsz", "arcp"}
"""Re-association lets sums vectorise; NaN and infinity keep their meaning, since they indicate divergence."""


def compiled(function: Callable[..., Any]) -> Any:
    """Compile on the first call; cache the result on disk if a cache folder is writable."""
    compiler = partial(numba.njit, fastmath=FAST_MATH, error_model="numpy")
    try:
        return compiler(cache=True)(function)
    except RuntimeError:  # not writable: next to the source, in the user's home or in NUMBA_CACHE_DIR
        return compiler()(function)
