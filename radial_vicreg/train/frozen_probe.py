"""Linear probe of frozen encoder features, before and after training."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, Dataset

from radial_vicreg.origin import Images, is_of, origin_of
from radial_vicreg.probes.features import extract, feature_loader
from radial_vicreg.probes.linear import LinearProbe


class FrozenLinearProbe(pl.Callback):
    """Fit a logistic regression on encoder features of un-augmented images, untrained and trained.

    Args:
        train_set: (image, label) to fit on, without augmentation.
        val_loader: batches of (images, labels) to score on.
        num_workers: processes that load the training images.
        images: fingerprints of the images, which stand with the figures.
    """

    def __init__(
        self, train_set: Dataset[Any], val_loader: DataLoader[Any], num_workers: int = 0, images: Images | None = None
    ) -> None:
        self.train_loader = feature_loader(train_set, num_workers)
        self.val_loader = val_loader
        self.images = Images() if images is None else images
        self.untrained: dict[str, Any] | None = None
        self.trained: dict[str, Any] | None = None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Score the untrained encoder; a resumed run keeps the first score, if it is of its images."""
        if self.untrained is None and trainer.global_step == 0:
            self.untrained = self._score(pl_module, origin_of(self.images))

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Score the trained encoder after the last epoch, before its checkpoint."""
        if trainer.current_epoch + 1 == trainer.max_epochs:
            origin = origin_of(self.images, trainer.current_epoch + 1, trainer.global_step)
            self.trained = self._score(pl_module, origin)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Score an encoder whose training ended before ``max_epochs``."""
        if self.trained is None:
            self.trained = self._score(pl_module, origin_of(self.images, trainer.current_epoch, trainer.global_step))

    def results(self) -> dict[str, Any]:
        """Give ``probes.frozen_linear``: top-1 and top-5 of the trained encoder, and of the untrained one."""
        return {"probes": {"frozen_linear": {"untrained": self.untrained, "trained": self.trained}}}

    def state_dict(self) -> dict[str, Any]:
        """Keep the untrained score, for a resumed run."""
        return {"untrained": self.untrained}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`, unless it is of other images."""
        untrained = state_dict["untrained"]
        if untrained is not None and is_of(untrained.get("origin"), self.images):
            self.untrained = untrained

    def _score(self, model: pl.LightningModule, origin: dict[str, Any]) -> dict[str, Any]:
        with torch.random.fork_rng(devices=[model.device] if model.device.type == "cuda" else []):
            train, val = (extract(model, loader, ("feats",)) for loader in (self.train_loader, self.val_loader))
        probe = LinearProbe().fit(train[0]["feats"], train[1])
        return {**probe.score(val[0]["feats"], val[1]), "origin": origin}
