"""Radial-VICReg in a lightly loop: its transform and projection head, our loss in the place of its VICRegLoss.

Run: pip install 'radial-vicreg[lightly]' && python lightly_vicreg.py [--images DIR]
DIR is an image folder, for instance one that `radial-vicreg data digits --out DIR` made (DIR/train); without it the
images are noise.
"""

from __future__ import annotations

import argparse

import torch
from lightly.models.modules.heads import VICRegProjectionHead
from lightly.transforms.vicreg_transform import VICRegTransform
from torch import nn
from torch.utils.data import DataLoader
from torchvision.datasets import FakeData, ImageFolder
from torchvision.models import resnet18

from radial_vicreg import RadialVICRegLoss


def main() -> None:
    """Two epochs; prints the mean radius, which moves to sqrt(d - 1)."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--images")
    parser.add_argument("--epochs", type=int, default=2)
    arguments = parser.parse_args()

    torch.manual_seed(0)
    backbone = resnet18()
    backbone.fc = nn.Identity()
    model = nn.Sequential(backbone, VICRegProjectionHead(512, 256, 64))
    # Was: lightly.loss.VICRegLoss(), which halves the variance (docs/objective.md maps every argument).
    criterion = RadialVICRegLoss(var_loss_weight=12.5, radial_ce_loss_weight=100.0)
    views = VICRegTransform(input_size=32)
    dataset = ImageFolder(arguments.images, views) if arguments.images else FakeData(256, (3, 32, 32), transform=views)
    loader = DataLoader(dataset, batch_size=64, shuffle=True, drop_last=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    for epoch in range(arguments.epochs):
        for (view1, view2), _ in loader:
            loss = criterion(model(view1), model(view2))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(
            f"epoch {epoch + 1}: loss {loss.item():.2f}, mean radius {criterion.terms['radius_mean']:.2f} (target 7.94)"
        )


if __name__ == "__main__":
    main()
