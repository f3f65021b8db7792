"""Linear probe of frozen encoder features, before and after training."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as pl
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from radial_vicreg.probes.linear import LinearProbe


class FrozenLinearProbe(pl.Callback):
    """Fits a logistic regression on encoder features of un-augmented images, untrained and trained.

    Args:
        train_loader: batches of (images, labels) to fit on, without augmentation.
        val_loader: batches of (images, labels) to score on.
    """

    def __init__(self, train_loader: DataLoader[Any], val_loader: DataLoader[Any]) -> None:
        self.train_loader = train_loader
        self.val_loader = val_loader
        self.untrained: dict[str, float] | None = None
        self.trained: dict[str, float] | None = None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Scores the untrained encoder; a resumed run keeps the first score."""
        if self.untrained is None:
            self.untrained = self._score(pl_module)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Scores the trained encoder after the last epoch, before its checkpoint."""
        if trainer.current_epoch + 1 == trainer.max_epochs:
            self.trained = self._score(pl_module)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Scores an encoder whose training ended before ``max_epochs``."""
        if self.trained is None:
            self.trained = self._score(pl_module)

    def results(self) -> dict[str, Any]:
        """``probes.frozen_linear``: top-1 and top-5 of the trained encoder, and of the untrained one."""
        return {"probes": {"frozen_linear": {"untrained": self.untrained, "trained": self.trained}}}

    def state_dict(self) -> dict[str, Any]:
        """The untrained score, for a resumed run."""
        return {"untrained": self.untrained}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores :meth:`state_dict`."""
        self.untrained = state_dict["untrained"]

    def _score(self, model: pl.LightningModule) -> dict[str, float]:
        with torch.random.fork_rng(devices=[model.device] if model.device.type == "cuda" else []):
            train, val = (extract_features(model, loader) for loader in (self.train_loader, self.val_loader))
        probe = LinearProbe().fit(*train)
        return probe.score(*val)


@torch.no_grad()
def extract_features(model: pl.LightningModule, loader: DataLoader[Any]) -> tuple[Tensor, Tensor]:
    """Encoder features of every image of a loader, in evaluation mode.

    Args:
        model: returns a dictionary with the features under ``"feats"``.
        loader: batches of (images, labels).

    Returns:
        Features ``(N, F)`` float32 and labels ``(N,)`` int64, on the CPU.
    """
    was_training = model.training
    dtype = next(model.parameters()).dtype
    model.eval()
    try:
        pairs = [(model(x.to(model.device, dtype))["feats"].float().cpu(), y.cpu()) for x, y in loader]
    finally:
        model.train(was_training)
    return torch.cat([x for x, _ in pairs]), torch.cat([y for _, y in pairs])
