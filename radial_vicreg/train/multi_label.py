"""The online probe of multi-label data, in which each attribute is present or absent."""

from __future__ import annotations

import lightning.pytorch as pl
from torch import Tensor

from radial_vicreg.names.probes import logged_name
from radial_vicreg.probes.heads import probe_loss
from radial_vicreg.probes.metrics import BalancedAccuracy


def attribute_scores(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Compute loss and accuracy of the probe.

    Args:
        logits: shape ``(N, attributes)``.
        targets: zeros and ones, float, same shape.

    Returns:
        Binary cross-entropy, and the accuracy over images and attributes in percent, both 0-d.
    """
    return probe_loss(logits, targets), 100.0 * ((logits.detach() > 0) == (targets > 0.5)).float().mean()


def log_balanced_accuracy(
    module: pl.LightningModule, metric: BalancedAccuracy, logits: Tensor, targets: Tensor
) -> None:
    """Add a validation batch and log the epoch's ``val_balanced_accuracy``; Lightning computes it once per epoch.

    Args:
        module: module whose validation step this is; ``metric`` is an attribute of it.
        metric: counts of the epoch. They are not part of a checkpoint.
        logits: shape ``(N, attributes)``.
        targets: zeros and ones, same shape.
    """
    metric.update(logits.detach(), targets)
    module.log(logged_name("balanced_accuracy"), metric, on_step=False, on_epoch=True)
