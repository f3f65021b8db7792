"""A network of one layer with the outputs of both hosts, and images whose colour is their class."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

CLASSES = 3


class Images(Dataset):
    """(index, [view, view], target) or (image, target)."""

    def __init__(self, count: int, size: int, two_views: bool, multi_label: bool) -> None:
        generator = torch.Generator().manual_seed(count)
        self.labels = torch.arange(count) % CLASSES
        self.images = torch.randn(count, 3, size, size, generator=generator)
        self.images += 2 * nn.functional.one_hot(self.labels, CLASSES)[:, :, None, None]
        self.two_views = two_views
        self.targets = nn.functional.one_hot(self.labels, CLASSES) if multi_label else self.labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> Any:
        image, target = self.images[index], self.targets[index]
        return (index, [image, image.flip(-1)], target) if self.two_views else (image, target)


class Network(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.num_classes = CLASSES
        self.backbone = nn.Linear(3, 6)
        self.classifier = nn.Linear(6, CLASSES)
        self.projector = nn.Linear(6, 5)
        self.seen_sizes: list[int] = []

    def forward(self, X: Tensor) -> dict[str, Tensor]:
        self.seen_sizes.append(X.shape[-1])
        feats = self.backbone(X.mean(dim=(2, 3)))
        return {"feats": feats, "logits": self.classifier(feats.detach()), "z": self.projector(feats)}

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        outs = [self(view) for view in batch[1]]
        return (outs[0]["z"] - outs[1]["z"]).square().mean() + 0 * outs[0]["logits"].sum()

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self(batch[0])

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.fixture
def fit(tmp_path: Path) -> Callable[..., tuple[Network, pl.Trainer]]:
    """Trains the network with the given callbacks."""

    def run(
        callbacks: list[pl.Callback],
        epochs: int = 2,
        val_size: int = 8,
        multi_label: bool = False,
        validate: bool = True,
        logger: Any = False,
        val_workers: int = 0,
    ) -> tuple[Network, pl.Trainer]:
        torch.manual_seed(0)
        network = Network()
        trainer = pl.Trainer(
            accelerator="cpu",
            devices=1,
            max_epochs=epochs,
            callbacks=callbacks,
            logger=logger,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
            log_every_n_steps=1,
            default_root_dir=str(tmp_path),
        )
        train = DataLoader(Images(60, 8, True, multi_label), batch_size=12)
        images = Images(32, val_size, False, multi_label)
        val = DataLoader(images, batch_size=12, num_workers=val_workers) if validate else None
        trainer.fit(network, train, val)
        return network, trainer

    return run
