"""Radial-VICReg pretraining of a timm backbone on a folder of images, in plain PyTorch.

Run: python timm_image_folder.py [--images DIR] [--model resnet18] [--out backbone.pth]
DIR holds a folder for each class (or one for all: no label is used); without it the images are noise.
"""

from __future__ import annotations

import argparse

import timm
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.datasets import FakeData, ImageFolder

from radial_vicreg import RadialVICRegLoss


def main() -> None:
    """Train; with ``--out`` keep the backbone: ``timm.create_model(..., num_classes=0, checkpoint_path=FILE)``."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--images")
    parser.add_argument("--model", default="resnet18", help="any backbone of timm that takes images of that size")
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--out")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    cut = transforms.RandomResizedCrop(arguments.size, scale=(0.2, 1.0))
    colours = transforms.RandomApply([transforms.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8)
    crop = transforms.Compose([cut, transforms.RandomHorizontalFlip(), colours, transforms.ToTensor()])
    views = transforms.Lambda(lambda image: (crop(image), crop(image)))
    shape = (3, arguments.size, arguments.size)
    dataset = ImageFolder(arguments.images, views) if arguments.images else FakeData(256, shape, transform=views)
    loader = DataLoader(dataset, batch_size=64, shuffle=True, drop_last=True)

    backbone = timm.create_model(arguments.model, num_classes=0)
    width = backbone.num_features
    projector = nn.Sequential(nn.Linear(width, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Linear(512, 128))
    model = nn.Sequential(backbone, projector).to(device)
    criterion = RadialVICRegLoss(radial_ce_loss_weight=100.0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(arguments.epochs):
        for (view1, view2), _ in loader:
            loss = criterion(model(view1.to(device)), model(view2.to(device)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        radius = criterion.terms["radius_mean"]
        print(f"epoch {epoch + 1}: loss {loss.item():.2f}, mean radius {radius:.2f} (target 11.27)")
    if arguments.out:
        torch.save(backbone.state_dict(), arguments.out)


if __name__ == "__main__":
    main()
