"""Statistics that compare embeddings with a standard normal sample, and their values for such a sample."""

from __future__ import annotations

import torch
from torch import Tensor

from radial_vicreg.diagnostics.directions import mean_share, uniformity
from radial_vicreg.diagnostics.radii import radius_statistics
from radial_vicreg.diagnostics.slices import sliced_statistics
from radial_vicreg.losses import radial_kl, radial_wasserstein_loss

DRAWS = 3
"""Normal samples whose statistics are averaged."""


def gaussianity_statistics(z: Tensor, seed: int = 0) -> dict[str, float]:
    r"""Compare embeddings with :math:`\mathcal N(0, I)`, both as given and standardised.

    Args:
        z: embeddings, shape ``(N, d)``, N at least 2.
        seed: seed of the slices' directions.

    Returns:
        The result of :func:`radial_vicreg.diagnostics.radius_statistics`, ``mean_share``, ``uniformity``, ``sliced_w2``
        and ``epps_pulley`` over 256 random slices, and ``constant_dimensions``, the number of dimensions without
        variance. ``standardised_w1_chi``, ``_kl``, ``_sliced_w2`` and ``_epps_pulley`` are computed after
        :func:`standardise`, so they ignore the mean and the scale of each dimension. Use them for features of an
        encoder, which no loss holds at unit variance.

    Raises:
        ValueError: fewer than two embeddings or non-finite values.

    Examples:
        An offset changes the statistics, but not the standardised ones:

        >>> import torch
        >>> from radial_vicreg.diagnostics import gaussianity_statistics
        >>> z = torch.randn(4096, 64, generator=torch.Generator().manual_seed(0))
        >>> found = gaussianity_statistics(z + 1)
        >>> round(found["mean_share"], 1), round(found["w1_chi"]), round(found["standardised_w1_chi"], 1)
        (0.5, 3, 0.0)
    """
    return statistics_and_slices(z, seed)[0]


def statistics_and_slices(z: Tensor, seed: int = 0) -> tuple[dict[str, float], dict[str, Tensor]]:
    """Compute :func:`gaussianity_statistics`, and return the Epps-Pulley statistics of the slices as well.

    Returns:
        The statistics, and the statistic of each slice: ``raw`` and ``standardised``.
    """
    z = z.float()
    statistics = radius_statistics(z)  # first, since it validates z
    standardised = standardise(z)
    sliced, slices = sliced_statistics(z, seed)
    sliced_standardised, slices_standardised = sliced_statistics(standardised, seed)
    forgiven = {
        "w1_chi": float(radial_wasserstein_loss(standardised, target="quantiles")),
        "kl": float(radial_kl(standardised)),
        **sliced_standardised,
    }
    return {
        **statistics,
        "mean_share": mean_share(z),
        "uniformity": uniformity(z),
        **sliced,
        **{f"standardised_{name}": value for name, value in forgiven.items()},
        "constant_dimensions": float(is_constant(z).sum()),
    }, {"raw": slices, "standardised": slices_standardised}


def normal_statistics(count: int, dim: int, seed: int = 0, draws: int = DRAWS) -> dict[str, float]:
    """Average :func:`gaussianity_statistics` over a few standard normal samples.

    Args:
        count: N.
        dim: d.
        seed: seed of the slices' directions; the samples come from :func:`normal_sample`.
        draws: number of samples.

    Returns:
        The same keys as :func:`gaussianity_statistics`.

    Examples:
        >>> from radial_vicreg.diagnostics import normal_statistics
        >>> expected = normal_statistics(count=256, dim=16)
        >>> round(expected["radius_mean"]), round(expected["epps_pulley"]), round(expected["mean_share"], 3)
        (4, 1, 0.004)
    """
    found = [gaussianity_statistics(normal_sample(count, dim, seed, draw), seed) for draw in range(draws)]
    return {name: sum(statistics[name] for statistics in found) / draws for name in found[0]}


def normal_sample(count: int, dim: int, seed: int = 0, draw: int = 0) -> Tensor:
    """Draw a standard normal sample ``(count, dim)``, independent of the slices with the same seed."""
    # A generator with the slices' seed would repeat their numbers.
    mixed = torch.randint(2**62, (draw + 1,), generator=torch.Generator().manual_seed(seed))
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(int(mixed[draw])))


def standardise(z: Tensor) -> Tensor:
    """Scale every dimension to mean 0 and variance 1; constant dimensions become 0.

    Args:
        z: embeddings, shape ``(N, d)``.

    Returns:
        The same shape.

    Examples:
        >>> import torch
        >>> from radial_vicreg.diagnostics import standardise
        >>> standardise(torch.tensor([[1.0, 5.0], [3.0, 5.0]])).tolist()
        [[-1.0, 0.0], [1.0, 0.0]]
    """
    centred = z - z.mean(dim=0)
    constant = is_constant(z)
    return torch.where(constant, 0.0, centred / torch.where(constant, 1.0, z.std(dim=0, correction=0)))


def is_constant(z: Tensor) -> Tensor:
    """Return which dimensions vary by no more than the rounding error of their mean, shape ``(d,)``."""
    return z.std(dim=0, correction=0) <= 10 * torch.finfo(z.dtype).eps * z.mean(dim=0).abs()
