"""Use Radial-VICReg in your own LightningModule, on scikit-learn's handwritten digits.

Run: python lightning_module.py [--epochs 5]
"""

from __future__ import annotations

import argparse

import lightning.pytorch as pl
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, default_collate
from torchvision import transforms
from torchvision.models import resnet18

from radial_vicreg import RadialVICRegLoss


class RadialVICReg(pl.LightningModule):
    """A ResNet-18 whose embeddings' norms go to chi(dim), on one device or under DDP."""

    def __init__(self, dim: int = 64) -> None:
        super().__init__()
        self.backbone = resnet18()
        self.backbone.fc = nn.Identity()
        self.projector = nn.Sequential(nn.Linear(512, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, dim))
        self.criterion = RadialVICRegLoss(radial_ce_loss_weight=100.0)

    def training_step(self, views: list[Tensor], batch_idx: int) -> Tensor:
        """Compute the loss of two or more views, and log its terms."""
        loss = self.criterion(*[self.projector(self.backbone(view)) for view in views])
        self.log_dict(dict(self.criterion.terms), on_step=False, on_epoch=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return AdamW; LARS and SGD need a slow warm-up (docs/betas.md)."""
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main() -> None:
    """Train on two crops of each digit; print the mean radius, which moves to sqrt(d - 1)."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    epochs = parser.parse_args().epochs

    pl.seed_everything(0)
    digits = list(torch.tensor(load_digits().images / 16, dtype=torch.float32)[:, None].expand(-1, 3, -1, -1))
    crop = transforms.Compose([transforms.RandomResizedCrop(16, scale=(0.4, 1.0)), transforms.RandomRotation(15)])

    def two_views(images: list[Tensor]) -> list[Tensor]:
        return default_collate([(crop(image), crop(image)) for image in images])

    loader = DataLoader(digits, batch_size=128, shuffle=True, drop_last=True, collate_fn=two_views)
    trainer = pl.Trainer(max_epochs=epochs, logger=False, enable_checkpointing=False)
    trainer.fit(RadialVICReg(), loader)
    print(f"mean radius {trainer.callback_metrics['radius_mean']:.2f} (target 7.94)")


if __name__ == "__main__":
    main()
