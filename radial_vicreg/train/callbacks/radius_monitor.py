"""Measure and plot the radii of the projector's output during training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypedDict

import lightning.pytorch as pl
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Subset

from radial_vicreg.data.batches import evenly_spaced
from radial_vicreg.diagnostics import RadiusMeasurement, normal_statistics, radius_histogram
from radial_vicreg.diagnostics.embeddings import embed, measure_embeddings
from radial_vicreg.errors import RunFailed, UserError
from radial_vicreg.figures import UNTRAINED, draw_radii, figure_style, method_styles, radii_figure
from radial_vicreg.runs.origin import Images, is_of, origin_of
from radial_vicreg.runtime.distributed import gather_chunks, once, rank, world_size
from radial_vicreg.runtime.random_state import own_random_numbers
from radial_vicreg.train.callbacks.cost import SeparateCost
from radial_vicreg.train.callbacks.log_image import log_measurement, takes_images
from radial_vicreg.train.callbacks.online_probes import resize_to
from radial_vicreg.train.processes import average_logged

_TRAINING_IMAGES = 2048  # used when there is no validation set
_BATCH_SIZE = 256
_VALIDATION = "validation"
_NOT_LOGGED = ("count",)  # never changes, and results.json has it


class Entry(TypedDict):
    """A measurement in checkpoints and ``results.json``: :class:`~radial_vicreg.runs.results.RadiusEntry`."""

    epoch: int
    dim: int
    origin: dict[str, object]
    eval: dict[str, float]
    batch: dict[str, float]


class RadiusMonitor(pl.Callback):
    """Measure radii at initialisation, every few epochs and at the end, in evaluation mode and with batch statistics.

    The images are evenly spaced ones of the validation set, at most ``max_images``; without a validation set, 2,048
    augmented training images. Images that do not have the training resolution (solo-learn validates image folders at
    224 pixels for any training resolution) are resized to it. They are loaded by as many workers as the validation
    has, and embedded in the training's precision. Processes share them by batches and gather the embeddings; the first
    process computes the statistics for all, on the model's device.

    Logs ``radius_eval/*`` and ``radius_batch/*`` in one call per measurement, with the figure of the radii for W&B and
    TensorBoard. :meth:`results` goes into ``results.json``, with a measurement's time and GPU memory, which do not
    count as a step's. Plotting takes about as long as embedding a few hundred images, so it is omitted if no logger
    shows images.

    Args:
        crop_size: training resolution in pixels.
        every_n_epochs: measure after every so many epochs; 0 measures at the start and at the end only.
        max_images: upper limit for validation images.
        gaussianity: also measure :func:`radial_vicreg.diagnostics.gaussianity_statistics`.
        method: method whose colour the radii have, see :func:`radial_vicreg.figures.method_key`.
        run_images: fingerprints of the run's images; those of the measured images are recorded with the figures.

    Attributes:
        history: one entry per measurement: ``epoch``, ``origin`` and the statistics of both modes.
        normal: with ``gaussianity``, the statistics of normal samples of the same size.
    """

    def __init__(
        self,
        crop_size: int,
        every_n_epochs: int = 10,
        max_images: int = 10_000,
        gaussianity: bool = False,
        method: str = "vicreg",
        run_images: Images | None = None,
    ) -> None:
        if every_n_epochs < 0 or max_images < 2:
            raise UserError(
                "diagnostics need every_n_epochs of 0 or more and max_images of 2 or more, "
                f"got {every_n_epochs} and {max_images}"
            )
        self.crop_size = crop_size
        self.every_n_epochs = every_n_epochs
        self.max_images = max_images
        self.gaussianity = gaussianity
        self.run_images = Images() if run_images is None else run_images
        self.normal: dict[str, float] | None = None
        self._style = method_styles([method])[method]
        self.history: list[Entry] = []
        self.initial_radii: Tensor | None = None
        self.final_radii: Tensor | None = None
        self.source: str | None = None
        self._cost = SeparateCost("radii")

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Measure the untrained network; a resumed run keeps its first measurement if the images are the same."""
        self.final_radii = None  # the last checkpoint of its run is not the last of this run
        if not self.history and trainer.global_step == 0:
            self.initial_radii = self._measure(trainer, pl_module, epoch=0)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Measure every ``every_n_epochs`` epochs and after the last.

        The last measurement is made before the checkpoint of its epoch, so that a run that is killed after this
        checkpoint has nothing left to do.
        """
        epoch = trainer.current_epoch + 1
        if epoch == trainer.max_epochs:
            self.final_radii = self._measure(trainer, pl_module, epoch)
        elif self.every_n_epochs and epoch % self.every_n_epochs == 0:
            self._measure(trainer, pl_module, epoch)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Measure a network whose training ended before ``max_epochs``."""
        if self.final_radii is None and trainer.current_epoch > 0:
            self.final_radii = self._measure(trainer, pl_module, trainer.current_epoch)

    def complete(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Measure a trained network whose checkpoint lacks the last measurement, if a single process can."""
        if (
            self.final_radii is None
            and self.history
            and trainer.world_size == 1
            and self._images(trainer)[1] == self.source
        ):
            self.history = [entry for entry in self.history if entry["epoch"] != trainer.current_epoch]
            self.final_radii = self._measure(trainer, pl_module, trainer.current_epoch)

    def results(self) -> dict[str, object]:
        """Return ``radii``: images used, and the statistics at initialisation, in between and at the end."""
        initial = self.history[0] if self.history and self.history[0]["epoch"] == 0 else None
        final = self.history[-1] if self.final_radii is not None else None
        radii = {
            "images": self.source,
            "initial": _with_histogram(initial, self.initial_radii),
            "final": _with_histogram(final, self.final_radii),
            "history": self.history,
        }
        return {"radii": radii if self.normal is None else {**radii, "normal": self.normal}, **self._cost.results()}

    def draw(self, folder: str) -> None:
        """Write ``radii.png``, ``.pdf`` and ``.svg``: evaluation-mode radii before and after, with the chi density."""
        if self.initial_radii is None or self.final_radii is None:
            return
        panels = [
            (_title(title, entry, radii), radii)
            for title, entry, radii in (
                ("before training", self.history[0], self.initial_radii),
                ("after training", self.history[-1], self.final_radii),
            )
        ]
        draw_radii(panels, self.history[-1]["dim"], f"{folder}/radii", [UNTRAINED, self._style])

    def state_dict(self) -> dict[str, Any]:
        """Keep what a resumed run needs, in tensors and plain containers: it must load with ``weights_only=True``."""
        radii = {"initial_radii": self.initial_radii, "final_radii": self.final_radii}
        normal = {} if self.normal is None else {"normal": self.normal}
        return {"history": self.history, "source": self.source, **radii, **normal}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`, but no measurement of other images than this run's."""
        history = state_dict["history"]
        self.history = [entry for entry in history if is_of(entry.get("origin"), self.run_images)]
        if history and not self.history:
            return
        self.initial_radii = state_dict["initial_radii"]
        self.source = state_dict["source"]
        self.final_radii = state_dict.get("final_radii")  # absent from older checkpoints
        self.normal = state_dict.get("normal")

    def _measure(self, trainer: pl.Trainer, model: pl.LightningModule, epoch: int) -> Tensor | None:
        images, self.source = self._images(trainer)
        if images is None:
            return None
        average_logged(trainer)
        with self._cost.measured(trainer, model.device):
            # Augmentations, workers and kernels may use random numbers, which must not change those of the training.
            with own_random_numbers(trainer.global_rank, model.device):
                embeddings = _embeddings(trainer, model, images)
            measured, normal = once(lambda: self._statistics(embeddings, epoch))
        measured_on = (
            Images(val=self.run_images.val) if self.source == _VALIDATION else self.run_images._replace(val=())
        )
        origin = origin_of(measured_on, epoch or None, trainer.global_step)
        entry: Entry = {
            "epoch": epoch,
            "dim": measured["eval"].dim,
            "origin": origin,
            "eval": measured["eval"].statistics,
            "batch": measured["batch"].statistics,
        }
        self.history.append(entry)
        self.normal = normal
        if trainer.is_global_zero:
            self._log(trainer, entry, measured["eval"].radii)
        return measured["eval"].radii

    def _statistics(
        self, embeddings: dict[str, Tensor], epoch: int
    ) -> tuple[dict[str, RadiusMeasurement], dict[str, float] | None]:
        """Measure both modes, and normal samples of that size if they are missing."""
        try:
            measured = {mode: measure_embeddings(z, self.gaussianity) for mode, z in embeddings.items()}
        except ValueError as error:  # too few images, or embeddings that are not finite
            raise RunFailed(f"the radii of epoch {epoch} cannot be measured: {error}") from error
        if not self.gaussianity or self.normal is not None:
            return measured, self.normal
        return measured, normal_statistics(len(measured["eval"].radii), measured["eval"].dim)

    def _log(self, trainer: pl.Trainer, entry: Entry, radii: Tensor) -> None:
        figures = {}
        if takes_images(trainer.loggers):
            with figure_style():
                panel = (_title(f"epoch {entry['epoch']}", entry, radii), radii)
                figures["radii"] = radii_figure([panel], entry["dim"], [self._style if entry["epoch"] else UNTRAINED])
        log_measurement(trainer.loggers, logged_radii(entry), trainer.global_step, figures)

    def _images(self, trainer: pl.Trainer) -> tuple[Iterator[Tensor] | None, str]:
        loaders = trainer.val_dataloaders
        loader = loaders[0] if isinstance(loaders, list) and loaders else loaders
        if isinstance(loader, DataLoader):
            return self._evenly_spaced(loader, self.max_images, loader.num_workers), _VALIDATION
        if isinstance(trainer.train_dataloader, DataLoader):
            # Without workers: the crops are those that this process's random numbers give.
            return self._evenly_spaced(trainer.train_dataloader, _TRAINING_IMAGES, 0), "training, augmented"
        return None, "none: the data loader has no dataset to take fixed images from"

    def _evenly_spaced(self, loader: DataLoader[Any], limit: int, workers: int) -> Iterator[Tensor]:
        dataset = loader.dataset
        chosen = evenly_spaced(len(dataset), limit)  # type: ignore[arg-type]
        # Processes take whole batches, so that BatchNorm's statistics do not depend on the number of processes.
        first = range(rank() * _BATCH_SIZE, len(chosen), world_size() * _BATCH_SIZE)
        own = [index for start in first for index in chosen[start : start + _BATCH_SIZE]]
        batches = DataLoader(
            Subset(dataset, own),
            batch_size=_BATCH_SIZE,
            num_workers=workers,
            pin_memory=loader.pin_memory,
            # A loader that takes ready batches from its data set collates nothing.
            collate_fn=None if loader.batch_sampler is None else loader.collate_fn,
        )
        for batch in batches:
            images = batch[0] if len(batch) == 2 else batch[1]
            images = images[0] if isinstance(images, (list, tuple)) else images
            yield resize_to(images, self.crop_size)


def _embeddings(trainer: pl.Trainer, model: pl.LightningModule, images: Iterator[Tensor]) -> dict[str, Tensor]:
    """Embed this process's batches in both modes and gather all embeddings; one batch is on the device at a time."""
    dtype = next(model.parameters()).dtype
    own: dict[str, list[Tensor]] = {"eval": [], "batch": []}
    for batch in images:
        moved = batch.to(model.device, dtype)
        with trainer.precision_plugin.forward_context():  # autocast, where the training has it
            for mode, embeddings in own.items():
                embeddings.append(embed(model, moved, mode == "batch"))
    none = torch.empty(0, 0, device=model.device)
    return {mode: gather_chunks(torch.cat(found) if found else none, _BATCH_SIZE) for mode, found in own.items()}


def logged_radii(entry: Entry) -> dict[str, float]:
    """Return a measurement under its names in loggers: ``radius_eval/*`` and ``radius_batch/*``."""
    return {
        f"radius_{mode}/{name}": value
        for mode, statistics in (("eval", entry["eval"]), ("batch", entry["batch"]))
        for name, value in statistics.items()
        if name not in _NOT_LOGGED
    }


def _title(when: str, entry: Entry, radii: Tensor) -> str:
    return f"{when}\n$W_1$ to $\\chi$ = {entry['eval']['w1_chi']:.2f}, n = {len(radii):,}"


def _with_histogram(entry: Entry | None, radii: Tensor | None) -> Mapping[str, object] | None:
    """Add the evaluation-mode radii as a histogram, so that a report can plot them without the network."""
    if entry is None or radii is None:
        return entry
    return {**entry, "histogram": radius_histogram(radii)}
