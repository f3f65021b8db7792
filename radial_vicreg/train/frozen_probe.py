"""Linear probe of frozen encoder features, before and after training."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as pl
from torch.utils.data import DataLoader, Dataset

from radial_vicreg.probes.features import extract, feature_loader
from radial_vicreg.probes.linear import LinearProbe
from radial_vicreg.random_state import own_random_numbers


class FrozenLinearProbe(pl.Callback):
    """Fit a logistic regression on encoder features of un-augmented images, untrained and trained.

    Args:
        train_set: (image, label) to fit on, without augmentation.
        val_loader: batches of (images, labels) to score on.
        num_workers: processes that load the training images.
    """

    def __init__(self, train_set: Dataset[Any], val_loader: DataLoader[Any], num_workers: int = 0) -> None:
        self.train_loader = feature_loader(train_set, num_workers)
        self.val_loader = val_loader
        self.untrained: dict[str, float] | None = None
        self.trained: dict[str, float] | None = None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Score the untrained encoder; a resumed run keeps the first score."""
        if self.untrained is None:
            self.untrained = self._score(pl_module)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Score the trained encoder after the last epoch, before its checkpoint."""
        if trainer.current_epoch + 1 == trainer.max_epochs:
            self.trained = self._score(pl_module)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Score an encoder whose training ended before ``max_epochs``."""
        if self.trained is None:
            self.trained = self._score(pl_module)

    def results(self) -> dict[str, Any]:
        """Give ``probes.frozen_linear``: top-1 and top-5 of the trained encoder, and of the untrained one."""
        return {"probes": {"frozen_linear": {"untrained": self.untrained, "trained": self.trained}}}

    def state_dict(self) -> dict[str, Any]:
        """Keep the untrained score, for a resumed run."""
        return {"untrained": self.untrained}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        self.untrained = state_dict["untrained"]

    def _score(self, model: pl.LightningModule) -> dict[str, float]:
        with own_random_numbers(0, model.device):
            train, val = (extract(model, loader, ("feats",)) for loader in (self.train_loader, self.val_loader))
        probe = LinearProbe().fit(train[0]["feats"], train[1])
        return probe.score(val[0]["feats"], val[1])
