"""Use Radial-VICReg in your own training loop: nothing but torch and torchvision.

Run: python plain_pytorch.py [--steps 60]
"""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torchvision.models import resnet18

from radial_vicreg import RadialVICRegLoss


def main() -> None:
    """Trains on noise: swap ``two_views`` for your own augmentations."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    steps = parser.parse_args().steps

    torch.manual_seed(0)
    backbone = resnet18()
    backbone.fc = nn.Identity()
    projector = nn.Sequential(nn.Linear(512, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 64))
    model = nn.Sequential(backbone, projector)
    loss_function = RadialVICRegLoss(radial_ce_loss_weight=100.0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    for step in range(steps):
        view1, view2 = two_views()
        loss = loss_function(model(view1), model(view2))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            terms = loss_function.terms
            print(f"step {step + 1}: loss {loss.item():.2f}, mean radius {terms['radius_mean']:.2f} (target 7.94)")


def two_views() -> tuple[torch.Tensor, torch.Tensor]:
    """Two noisy copies of 64 random images."""
    images = torch.randn(64, 3, 32, 32)
    return images + 0.1 * torch.randn_like(images), images + 0.1 * torch.randn_like(images)


if __name__ == "__main__":
    main()
