"""Measure the embeddings of a network, and leave it as it was."""

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
    """Embed images and measure their radii; leave the model exactly as it was.

    Args:
        model: called on a batch of images ``(B, 3, H, W)``, returns a dictionary with the embeddings under ``"z"``.
        batches: batches of images on the model's device.
        batch_statistics: True lets BatchNorm use the statistics of each batch, as in training; False its running
            ones, as in evaluation. They differ much before training.
        gaussianity: also the statistics beyond the radii.

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
    with _batch_norm_mode(model, batch_statistics):
        embeddings = [model(images)["z"].float().cpu() for images in batches]
    if sum(len(z) for z in embeddings) < 2:
        raise ValueError("radii need at least 2 images, got " + str(sum(len(z) for z in embeddings)))
    z = torch.cat(embeddings)
    statistics = gaussianity_statistics(z) if gaussianity else radius_statistics(z)
    return RadiusMeasurement(radii=z.norm(dim=1), dim=z.shape[1], statistics=statistics)


@contextmanager
def _batch_norm_mode(model: nn.Module, batch_statistics: bool) -> Iterator[None]:
    training = {module: module.training for module in model.modules()}
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    saved = [{name: buffer.clone() for name, buffer in norm.named_buffers()} for norm in norms]
    model.eval()
    for norm in norms:
        norm.train(batch_statistics)
    try:
        yield
    finally:
        for module, was_training in training.items():
            module.training = was_training
        for norm, buffers in zip(norms, saved, strict=True):
            for name, buffer in buffers.items():
                getattr(norm, name).copy_(buffer)
