"""Measure the embeddings of a network without changing it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from radial_vicreg.diagnostics.gaussianity import gaussianity_statistics
from radial_vicreg.diagnostics.radii import radius_statistics


@dataclass
class RadiusMeasurement:
    """Radii of one network in one BatchNorm mode, with their statistics.

    Attributes:
        radii: norms of the embeddings, shape ``(N,)``, float32, on the CPU.
        dim: dimension d of the embeddings.
        statistics: of :func:`radial_vicreg.diagnostics.radius_statistics`, or of
            :func:`radial_vicreg.diagnostics.gaussianity_statistics`.
    """

    radii: Tensor
    dim: int
    statistics: dict[str, float] = field(default_factory=dict)


@torch.no_grad()
def measure_radii(
    model: nn.Module, batches: Iterable[Tensor], batch_statistics: bool, gaussianity: bool = False
) -> RadiusMeasurement:
    """Embed images and measure their radii without changing the model.

    Args:
        model: called on a batch of images ``(B, 3, H, W)``, returns a dictionary with the embeddings under ``"z"``.
        batches: batches of images on the model's device.
        batch_statistics: True: BatchNorm uses the statistics of each batch, as in training. False: it uses its running
            ones, as in evaluation. The two differ greatly before training.
        gaussianity: compute the statistics beyond the radii, too.

    Returns:
        Radii and statistics over all batches.

    Raises:
        ValueError: there were fewer than two images, or embeddings are not finite.

    Examples:
        >>> import torch
        >>> from radial_vicreg.diagnostics import measure_radii
        >>> class Flat(torch.nn.Module):
        ...     def forward(self, images):
        ...         return {"z": images.flatten(1)}
        >>> measured = measure_radii(Flat(), [torch.ones(4, 3, 2, 2), torch.zeros(4, 3, 2, 2)], batch_statistics=False)
        >>> measured.dim, measured.statistics["count"], round(measured.statistics["radius_mean"], 3)
        (12, 8.0, 1.732)
    """
    embeddings = [embed(model, images, batch_statistics) for images in batches]
    return measure_embeddings(torch.cat(embeddings) if embeddings else torch.empty(0, 0), gaussianity)


@torch.no_grad()
def embed(model: nn.Module, images: Tensor, batch_statistics: bool) -> Tensor:
    """Embed a batch without changing the model; see :func:`measure_radii`.

    Returns:
        float32 ``(B, d)``, on the model's device.
    """
    with _batch_norm_mode(model, batch_statistics):
        z: Tensor = model(images)["z"].float()
    return z


@torch.no_grad()
def measure_embeddings(z: Tensor, gaussianity: bool = False) -> RadiusMeasurement:
    """Measure the radii of embeddings ``(N, d)`` on their device; see :func:`measure_radii`.

    Raises:
        ValueError: there are fewer than two, or they are not finite.
    """
    if len(z) < 2:
        raise ValueError(f"radii need at least 2 images, got {len(z)}")
    statistics = gaussianity_statistics(z) if gaussianity else radius_statistics(z)
    return RadiusMeasurement(radii=z.norm(dim=1).cpu(), dim=z.shape[1], statistics=statistics)


@contextmanager
def _batch_norm_mode(model: nn.Module, batch_statistics: bool) -> Iterator[None]:
    training = {module: module.training for module in model.modules()}
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    running = [(norm.running_mean, norm.running_var) for norm in norms]
    model.eval()
    if batch_statistics:
        # Without running statistics a BatchNorm takes the batch's in evaluation mode, too, and a SyncBatchNorm does not
        # wait for other processes, which may have no batch.
        for norm in norms:
            norm.running_mean = norm.running_var = None
    try:
        yield
    finally:
        for module, was_training in training.items():
            module.training = was_training
        for norm, statistics in zip(norms, running, strict=True):
            norm.running_mean, norm.running_var = statistics
