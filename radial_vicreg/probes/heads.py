"""The trainable part of a probe, and its loss."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from radial_vicreg.config.fields import default
from radial_vicreg.data_sets import UNLABELLED
from radial_vicreg.errors import UserError
from radial_vicreg.probes.metrics import are_attributes

MLP_HIDDEN_DIM: int = default("probes.mlp_hidden_dim")


def build_head(kind: str, features: int, outputs: int, hidden_dim: int = MLP_HIDDEN_DIM) -> nn.Module:
    """Build a linear layer, or two with a ReLU between them.

    Args:
        kind: ``"linear"`` or ``"mlp"``.
        features: width of the frozen features.
        outputs: number of classes or attributes.
        hidden_dim: width of the hidden layer of ``"mlp"``.

    Returns:
        Features ``(N, features)`` to logits ``(N, outputs)``.

    Raises:
        UserError: another kind, or a width below 1.
    """
    if min(features, outputs, hidden_dim) < 1:
        raise UserError(f"a probe's widths must be 1 or more, got {features}, {hidden_dim} and {outputs}")
    if kind == "linear":
        return nn.Linear(features, outputs)
    if kind == "mlp":
        return nn.Sequential(nn.Linear(features, hidden_dim), nn.ReLU(), nn.Linear(hidden_dim, outputs))
    raise UserError(f"a probe's head is linear or mlp, got {kind!r}")


def probe_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Compute cross-entropy for classes ``(N,)``, without unlabelled ones; of attributes ``(N, A)``, binary."""
    if are_attributes(targets):
        return F.binary_cross_entropy_with_logits(logits, targets.to(logits.dtype))
    return F.cross_entropy(logits, targets, ignore_index=UNLABELLED)
