"""Train with a batch that is larger than the memory, in your own loop: the backbone sees 16 images at a time.

Run: python micro_batches.py [--steps 60]
"""

from __future__ import annotations

import argparse

import timm
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from radial_vicreg import RadialVICRegLoss


def features(backbone: nn.Module, images: Tensor, size: int = 16) -> Tensor:
    """Keep the activations of one micro-batch at a time: each is computed once more in the backward pass.

    Projector and loss see the whole batch, so that the gradient is its gradient, which that of accumulated batches is
    not. A backbone with BatchNorm would have the statistics of a micro-batch, and update running ones twice.
    """
    return torch.cat([checkpoint(backbone, part, use_reentrant=False) for part in images.split(size)])


def main() -> None:
    """Trains on noise: swap ``two_views`` for your own augmentations."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    steps = parser.parse_args().steps

    torch.manual_seed(0)
    backbone = timm.create_model("vit_tiny_patch16_224", img_size=32, patch_size=8, depth=2, num_classes=0)
    projector = nn.Sequential(nn.Linear(192, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 64))
    loss_function = RadialVICRegLoss(radial_ce_loss_weight=100.0)
    optimizer = torch.optim.AdamW([*backbone.parameters(), *projector.parameters()], lr=1e-3)

    for step in range(steps):
        loss = loss_function(*(projector(features(backbone, view)) for view in two_views()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            radius = loss_function.terms["radius_mean"]
            print(f"step {step + 1}: loss {loss.item():.2f}, mean radius {radius:.2f} (target 7.94)")


def two_views() -> tuple[Tensor, Tensor]:
    """Two noisy copies of 64 random images."""
    images = torch.randn(64, 3, 32, 32)
    return images + 0.1 * torch.randn_like(images), images + 0.1 * torch.randn_like(images)


if __name__ == "__main__":
    main()
