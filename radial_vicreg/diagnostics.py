"""What the radii of a network's embeddings look like, next to the Chi distribution."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from radial_vicreg.losses import covariance_loss, radial_kl, radial_wasserstein_loss

_MAX_SPECTRUM = 2048  # rows of the singular value decomposition, whose cost grows with N d min(N, d)
_MAX_BINS = 200  # one far outlier among narrow radii would otherwise ask for thousands


@dataclass
class RadiusMeasurement:
    """Radii of one network in one BatchNorm mode, with their statistics.

    Attributes:
        radii: norms of the embeddings, shape ``(N,)``, float32, on the CPU.
        dim: dimension d of the embeddings.
        statistics: ``w1_chi``, ``kl`` (nats), ``radius_mean``, ``radius_std``, ``embedding_mean_norm``,
            ``effective_rank``, ``off_diagonal_covariance`` and the number of embeddings ``count``.
    """

    radii: Tensor
    dim: int
    statistics: dict[str, float] = field(default_factory=dict)


def radius_statistics(z: Tensor) -> dict[str, float]:
    r"""Compare a matrix of embeddings against :math:`\mathcal N(0, I)`.

    Args:
        z: embeddings, shape ``(N, d)``, N at least 2.

    Returns:
        ``w1_chi``: W1 of the radii to exact :math:`\chi(d)` quantiles; ``kl``: m-spacing estimate in nats, biased
        upwards for small N; ``radius_mean``, ``radius_std``; ``embedding_mean_norm``: norm of the mean embedding,
        zero for :math:`\mathcal N(0, I)`; ``effective_rank``: RankMe, the exponential of the entropy of the
        normalised singular values (Garrido et al., 2023), of at most 2,048 evenly spaced rows, between 1 and d;
        ``off_diagonal_covariance``: root mean
        square of the off-diagonal covariances; ``count``: N.

    Raises:
        ValueError: fewer than two embeddings or non-finite values.
    """
    z = z.float()
    w1_chi = float(radial_wasserstein_loss(z, target="quantiles"))  # first: it refuses what the rest would fail on
    count, dim = z.shape
    radii = z.norm(dim=1)
    singular = torch.linalg.svdvals(z[:: math.ceil(count / _MAX_SPECTRUM)])
    share = singular / singular.sum().clamp_min(torch.finfo(z.dtype).tiny)
    return {
        "w1_chi": w1_chi,
        "kl": float(radial_kl(z)),
        "radius_mean": float(radii.mean()),
        "radius_std": float(radii.std()),
        "embedding_mean_norm": float(z.mean(dim=0).norm()),
        "effective_rank": float(torch.exp(-torch.xlogy(share, share).sum())),
        # Their squares' sum over d, by the loss; there are d (d - 1) of them.
        "off_diagonal_covariance": math.sqrt(float(covariance_loss(z)) / max(dim - 1, 1)),
        "count": float(count),
    }


def radius_histogram(radii: Tensor) -> dict[str, list[float]]:
    """Count radii in bins of equal width, chosen as NumPy's ``"auto"`` does, at most 200.

    Args:
        radii: shape ``(N,)``, finite.

    Returns:
        ``edges`` (one more than bins) and ``density`` (integrates to 1).
    """
    values = radii.double().cpu().numpy()
    edges = np.histogram_bin_edges(values, bins="auto")
    density, edges = np.histogram(values, bins=min(len(edges) - 1, _MAX_BINS), density=True)
    return {"edges": edges.tolist(), "density": density.tolist()}


@torch.no_grad()
def measure_radii(model: nn.Module, batches: Iterable[Tensor], batch_statistics: bool) -> RadiusMeasurement:
    """Embed images and measure their radii; leave the model exactly as it was.

    Args:
        model: called on a batch of images ``(B, 3, H, W)``, returns a dictionary with the embeddings under ``"z"``.
        batches: batches of images on the model's device.
        batch_statistics: True lets BatchNorm use the statistics of each batch, as in training; False its running
            ones, as in evaluation. They differ much before training.

    Returns:
        Radii and statistics over all batches.

    Raises:
        ValueError: there were fewer than two images, or embeddings are not finite.
    """
    with _batch_norm_mode(model, batch_statistics):
        embeddings = [model(images)["z"].float().cpu() for images in batches]
    if sum(len(z) for z in embeddings) < 2:
        raise ValueError("radii need at least 2 images, got " + str(sum(len(z) for z in embeddings)))
    z = torch.cat(embeddings)
    return RadiusMeasurement(radii=z.norm(dim=1), dim=z.shape[1], statistics=radius_statistics(z))


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
