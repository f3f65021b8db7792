"""A probe of frozen encoder features, before and after training."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as pl
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset

from radial_vicreg.names.probes import FEATURES, frozen_key
from radial_vicreg.probes.base import Probe
from radial_vicreg.probes.features import extract, feature_loader
from radial_vicreg.probes.metrics import are_attributes
from radial_vicreg.runs.origin import Images, is_of, origin_of
from radial_vicreg.runtime.distributed import gather_chunks, once, rank, world_size
from radial_vicreg.runtime.random_state import own_random_numbers
from radial_vicreg.train.callbacks.cost import SeparateCost
from radial_vicreg.train.processes import average_logged

_OUTPUT = FEATURES["encoder"]


class FrozenProbe(pl.Callback):
    """Fit a probe on encoder features of un-augmented images, before and after training.

    Processes share the images, which are embedded in the training's precision; the first process fits the probe for
    all, on the model's device. ``cost`` in the results holds its time and GPU memory.

    Args:
        probe: class of the probe.
        train_set: pairs (image, label) to fit on, without augmentation.
        val_loader: batches (images, labels) to score on.
        num_workers: processes that load the training images.
        images: fingerprints of the images, recorded with the figures.
    """

    def __init__(
        self,
        probe: type[Probe],
        train_set: Dataset[Any],
        val_loader: DataLoader[Any],
        num_workers: int = 0,
        images: Images | None = None,
    ) -> None:
        self.probe = probe
        self.train_loader = feature_loader(train_set, num_workers)
        self.val_loader = val_loader
        self.images = Images() if images is None else images
        self.untrained: dict[str, object] | None = None
        self.trained: dict[str, object] | None = None
        self._cost = SeparateCost(frozen_key(probe.name))

    @property
    def state_key(self) -> str:
        """Name of the state in a checkpoint, one for each probe."""
        return f"Frozen{self.probe.__name__}"

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Score the untrained encoder; a resumed run keeps the first score if the images are the same."""
        if self.untrained is None and trainer.global_step == 0:
            self.untrained = self._score(trainer, pl_module, origin_of(self.images))

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Score the trained encoder after the last epoch, before its checkpoint."""
        if trainer.current_epoch + 1 == trainer.max_epochs:
            origin = origin_of(self.images, trainer.current_epoch + 1, trainer.global_step)
            self.trained = self._score(trainer, pl_module, origin)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Score an encoder whose training ended before ``max_epochs``."""
        if self.trained is None:
            epoch, step = trainer.current_epoch, trainer.global_step
            self.trained = self._score(trainer, pl_module, origin_of(self.images, epoch, step))

    def results(self) -> dict[str, object]:
        """Return ``probes.frozen_<probe>``: the figures of the trained encoder, and of the untrained one."""
        found = {"untrained": self.untrained, "trained": self.trained}
        return {"probes": {frozen_key(self.probe.name): found}, **self._cost.results()}

    def state_dict(self) -> dict[str, Any]:
        """Keep the untrained score, for a resumed run."""
        return {"untrained": self.untrained}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`, unless it is of other images."""
        untrained = state_dict["untrained"]
        if untrained is not None and is_of(untrained.get("origin"), self.images):
            self.untrained = untrained

    def _score(self, trainer: pl.Trainer, model: pl.LightningModule, origin: dict[str, object]) -> dict[str, object]:
        average_logged(trainer)
        with self._cost.measured(trainer, model.device):
            with own_random_numbers(trainer.global_rank, model.device):
                train, val = (_features(trainer, model, loader) for loader in (self.train_loader, self.val_loader))
            return {**once(lambda: _fitted_score(self.probe, train, val)), "origin": origin}


def _features(trainer: pl.Trainer, model: pl.LightningModule, loader: DataLoader[Any]) -> tuple[Tensor, Tensor]:
    """Extract features and labels of all images, in order, on the model's device; each process embeds its share."""
    dataset = loader.dataset
    count = len(dataset)  # type: ignore[arg-type]
    shared = 1 < world_size() <= count
    if shared:
        loader = DataLoader(
            Subset(dataset, range(rank(), count, world_size())),
            batch_size=loader.batch_size,
            num_workers=loader.num_workers,
            collate_fn=loader.collate_fn,
        )
    outputs, labels = extract(model, loader, (_OUTPUT,), trainer.precision_plugin.forward_context)
    features, labels = outputs[_OUTPUT].to(model.device), labels.to(model.device)
    if not shared:
        return features, labels
    rows = gather_chunks(labels.reshape(len(labels), -1), chunk=1)
    return gather_chunks(features, chunk=1), rows if are_attributes(labels) else rows[:, 0]


def _fitted_score(probe: type[Probe], train: tuple[Tensor, Tensor], val: tuple[Tensor, Tensor]) -> dict[str, object]:
    """Fit on the device of the features, or on the CPU if a GPU that also holds the training has too little memory."""
    try:
        return probe().fit(*train).score(*val)
    except torch.cuda.OutOfMemoryError:
        (x, y), (x_val, y_val) = ((features.cpu(), labels.cpu()) for features, labels in (train, val))
        return probe().fit(x, y).score(x_val, y_val)
