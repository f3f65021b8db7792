"""Statistics and curves of normal samples, which depend on N, d and the seed alone, kept in the user's cache."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple, cast

import torch
from torch import Tensor

from radial_vicreg import diagnostics, losses
from radial_vicreg.diagnostics import normal_statistics
from radial_vicreg.diagnostics.gaussianity import DRAWS, normal_sample
from radial_vicreg.diagnostics.slices import SLICES
from radial_vicreg.gaussianity.content import Variants
from radial_vicreg.io.cache import cached

Curves = Callable[[Tensor, int], Variants]


class Reference(NamedTuple):
    """What is shown next to embeddings of the same size.

    Attributes:
        statistics: mean over :data:`~radial_vicreg.diagnostics.gaussianity.DRAWS` normal samples.
        curves: curves of the first one.
    """

    statistics: dict[str, float]
    curves: Variants


@cache
def normal_reference(count: int, dim: int, seed: int, curves: Curves) -> Reference:
    """Measure standard normal samples of one size, or read what was measured before.

    Args:
        count: N.
        dim: d.
        seed: seed of the samples and of the slices.
        curves: computes the curves of a sample.

    Returns:
        The same numbers in either case: floats are written with all their digits.
    """

    def compute() -> dict[str, object]:
        sample = normal_sample(count, dim, seed)
        return {"statistics": normal_statistics(count, dim, seed), "curves": curves(sample, seed)}

    key = {
        **{"count": count, "dim": dim, "seed": seed, "draws": DRAWS, "slices": SLICES},
        # Computed in float32 on the CPU, by these functions; random numbers and sums are PyTorch's.
        **{"code": _code(curves.__code__.co_filename), "torch": torch.__version__, "machine": platform.machine()},
    }
    found = cached(f"normal-references/{count}x{dim}-seed{seed}", key, compute)
    return Reference(cast("dict[str, float]", found["statistics"]), cast(Variants, found["curves"]))


@cache
def _code(further: str) -> str:
    """Compute the digest of the code of the statistics, so that a changed statistic is never read from the cache."""
    digest = hashlib.sha256(Path(further).read_bytes())
    for package in (diagnostics, losses):
        for file in sorted(Path(str(package.__file__)).parent.glob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()
