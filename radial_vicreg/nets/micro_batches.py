"""Pass a batch through a backbone a few images at a time, and compute each part once more in the backward pass."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from radial_vicreg.losses._tracing import outside_graphs

FEWEST_IMAGES = 3
"""Smallest size with which every micro-batch of a batch has at least two images, as BatchNorm needs."""


def use_micro_batches(backbone: nn.Module, size: int) -> None:
    """Let a backbone see at most a number of images at a time, in training and in evaluation.

    Where gradients are computed, the activations of a micro-batch are dropped after its forward pass and computed once
    more in the backward pass, with the same random numbers. Features and gradients are those of the whole batch, up to
    rounding, if the backbone has no statistics of the batch and draws no random numbers. Otherwise the statistics are
    those of a micro-batch, and the first pass alone changes running statistics and other buffers.

    The module itself stays: only its ``forward`` is replaced, on this instance. Parameter names, ``state_dict`` and
    copies are as before.

    Args:
        backbone: maps images ``(N, 3, H, W)`` to one tensor of features ``(N, ...)``; changed in place.
        size: largest number of images of a micro-batch. A batch is split as evenly as possible.
    """
    backbone.forward = _MicroBatches(backbone, size)


def has_batch_norm(backbone: nn.Module) -> bool:
    """Return whether a backbone has BatchNorm, which takes the statistics of all images that it sees at a time."""
    return any(isinstance(module, _BatchNorm) for module in backbone.modules())


class _MicroBatches:
    """A ``forward`` in micro-batches. A function that holds the module would not survive a copy or a pickle."""

    def __init__(self, backbone: nn.Module, size: int) -> None:
        self.backbone, self.size = backbone, size

    @outside_graphs
    def __call__(self, images: Tensor) -> Tensor:
        parts = images.tensor_split(max(1, math.ceil(len(images) / self.size)))
        features = [self._recomputed(part) if torch.is_grad_enabled() else self._whole(part) for part in parts]
        return features[0] if len(features) == 1 else torch.cat(features)

    def _whole(self, images: Tensor) -> Tensor:
        features: Tensor = type(self.backbone).forward(self.backbone, images)
        return features

    def _recomputed(self, images: Tensor) -> Tensor:
        features: Tensor = checkpoint(self._whole, images, use_reentrant=False, context_fn=self._passes)
        return features

    def _passes(self) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return nullcontext(), _BuffersOfACopy(self.backbone)


class _BuffersOfACopy(AbstractContextManager[None]):
    """Give a module copies of its buffers, so that a second forward pass does not update running statistics again.

    Copying values back instead would count as a change of tensors that the backward pass still needs.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self._kept: list[tuple[dict[str, Tensor | None], str, Tensor]] = []

    def __enter__(self) -> None:
        owners = [module._buffers for module in self.module.modules()]
        self._kept = [(owner, name, kept) for owner in owners for name, kept in owner.items() if kept is not None]
        for owner, name, kept in self._kept:
            owner[name] = kept.clone()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for owner, name, kept in self._kept:
            owner[name] = kept
