"""Trainable heads of probes, and their loss."""

from __future__ import annotations

from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, nn

from radial_vicreg.errors import UserError
from radial_vicreg.names.data_sets import UNLABELLED
from radial_vicreg.probes.metrics import are_attributes


def layers(*widths: int) -> nn.Module:
    """Build linear layers with a ReLU between two of them.

    Args:
        widths: number of features, width of every hidden layer, and number of classes or attributes.

    Returns:
        Module that maps features ``(N, widths[0])`` to logits ``(N, widths[-1])``.

    Raises:
        UserError: a width is below 1.
    """
    if min(widths) < 1:
        raise UserError(f"a probe's widths must be 1 or more, got {', '.join(map(str, widths))}")
    first, *others = (nn.Linear(width, outputs) for width, outputs in pairwise(widths))
    return nn.Sequential(first, *(part for layer in others for part in (nn.ReLU(), layer))) if others else first


def probe_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Compute cross-entropy for classes ``(N,)``, ignoring unlabelled images; binary for attributes ``(N, A)``."""
    if are_attributes(targets):
        return F.binary_cross_entropy_with_logits(logits, targets.to(logits.dtype))
    return F.cross_entropy(logits, targets, ignore_index=UNLABELLED)
