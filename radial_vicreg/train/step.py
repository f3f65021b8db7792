"""The training step of both hosts: projector, objective, logging, callbacks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.utilities import rank_zero_only
from torch import Tensor, nn

from radial_vicreg.config import RunConfig
from radial_vicreg.config.trainer_arguments import canonical_arguments
from radial_vicreg.errors import UserError
from radial_vicreg.figures import configured_method
from radial_vicreg.io.notices import warn
from radial_vicreg.nets.models import build_projector
from radial_vicreg.nets.stability import equilibrium_note, stability_warnings
from radial_vicreg.runs.origin import images_of
from radial_vicreg.runtime.distributed import mean_over_ranks
from radial_vicreg.train.callbacks.checkpointing import last_checkpoint
from radial_vicreg.train.callbacks.cost import StepCost
from radial_vicreg.train.callbacks.csv_tables import EpochTable
from radial_vicreg.train.callbacks.online_probes import OnlineProbes
from radial_vicreg.train.callbacks.radius_monitor import RadiusMonitor
from radial_vicreg.train.callbacks.record import ResultsWriter
from radial_vicreg.train.callbacks.resumed import FreshBatches, GeneratorStates
from radial_vicreg.train.callbacks.solo_checkpoints import write_checkpoints_last, write_last_epoch
from radial_vicreg.train.callbacks.stop_on_signal import ExitAfterSignal, StopOnSignal
from radial_vicreg.train.guard import FiniteGuard
from radial_vicreg.train.loss import build_objective
from radial_vicreg.train.micro_batches import (
    accumulation_note,
    apply_micro_batches,
    micro_batch_note,
    refuse_micro_batches,
)
from radial_vicreg.train.processes import adopt_rank, check_processes

if TYPE_CHECKING:
    _Base = pl.LightningModule
else:
    _Base = object

_PROGRESS_BAR = ("loss", "radius_mean")


class RadialTraining(_Base):
    """Mixin for a LightningModule with a backbone: adds projector, objective, logged terms and callbacks.

    The host calls :meth:`add_radial_parts` after it has made backbone and classifier (the order of initialisation
    determines the random numbers of each layer) and :meth:`radial_step` in ``training_step``.
    """

    config: RunConfig
    host: str
    backbone: nn.Module
    results_folder: str | None = None  # None: next to solo-learn's checkpoints
    own_loop = True  # False: solo-learn's script trains

    def add_radial_parts(self, features_dim: int) -> None:
        """Build projector and objective of :attr:`config`, and let the backbone see micro-batches.

        Args:
            features_dim: width of the backbone's output.

        Raises:
            UserError: see :func:`radial_vicreg.train.micro_batches.apply_micro_batches`.
        """
        apply_micro_batches(self.config, self.backbone)
        settings = self.config.method_kwargs
        self.projector = build_projector(features_dim, settings.proj_hidden_dim, settings.proj_output_dim)
        self.objective = build_objective(self.config)
        self._guard: FiniteGuard | None = None
        self._names: list[str] = []
        self._sums: Tensor | None = None
        self._summed = 0

    def radial_step(self, views: Sequence[Tensor], class_loss: Tensor, metrics: Mapping[str, Tensor]) -> Tensor:
        """Compute the objective of one batch plus the online probe's loss.

        Log every term and metric with the suffixes of Lightning, as for solo-learn's own metrics:
        ``train_<term>_step`` every ``log_every_n_steps`` steps and ``train_<term>_epoch``, the mean of the epoch.

        Args:
            views: projector output of each view, shape ``(N, d)``.
            class_loss: loss of the online probe, 0-d.
            metrics: metrics of the online probe, one number each, by their names without ``train_``.

        Returns:
            The loss to minimise, 0-d.

        Raises:
            NonFiniteLossError: the loss is NaN or infinite (see :class:`FiniteGuard`).
                On a CPU the message names the view and the count of the embeddings that are not finite.
        """
        try:
            loss: Tensor = self.objective(*views) + class_loss
        except ValueError as error:
            if all(bool(z.isfinite().all()) for z in views):
                raise
            # On a CPU the loss refuses such embeddings as invalid input, but here it is the run that has failed.
            raise self._watch.error(f"not finite at step {self.global_step}: {error}") from error
        # One collective for all numbers: Lightning's `log` with `sync_dist` needs a barrier and an all-reduce for each.
        terms = {**self.objective.terms, "loss": loss.detach()}
        numbers = {**terms, **metrics}
        values = mean_over_ranks(torch.stack([number.detach().float().reshape(()) for number in numbers.values()]))
        self._watch.watch(list(terms), values[: len(terms)], self.global_step)
        self._log_terms(list(numbers), values)
        return loss

    def setup(self, stage: str) -> None:
        """Refuse a number of processes other than that for which rates and identity are computed."""
        super().setup(stage)
        if stage == "fit":
            adopt_rank(self.trainer.global_rank)
            check_processes(self.config, self.trainer)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Refuse to resume if Lightning would not reach the weights of an uninterrupted run.

        Raises:
            UserError: with ``max_steps``, Lightning treats every checkpoint as one within an epoch; with
                ``overfit_batches``, it replaces the loader's order of images.
        """
        super().on_load_checkpoint(checkpoint)
        counted = canonical_arguments(self.config.plain())
        for name in (name for name in ("max_steps", "overfit_batches") if name in counted):
            raise UserError(
                f"a run with {name} cannot be resumed, since Lightning would not reach the weights of an "
                "uninterrupted run: start it without a checkpoint, or set max_epochs instead"
            )

    def on_train_epoch_start(self) -> None:
        """Reset the epoch's means."""
        super().on_train_epoch_start()
        self._sums, self._summed = None, 0

    def on_train_epoch_end(self) -> None:
        """Write a checkpoint of the last epoch under solo-learn's script for any checkpoint frequency."""
        super().on_train_epoch_end()
        write_last_epoch(self.trainer)

    def on_train_start(self) -> None:
        """Move solo-learn's checkpoints after our callbacks, and warn if settings diverge or lead away from chi."""
        super().on_train_start()
        write_checkpoints_last(self.trainer)
        refuse_micro_batches(self.config, self.backbone)  # by now Lightning has converted BatchNorm
        config = self.config
        for note in (equilibrium_note(config), accumulation_note(config), micro_batch_note(config, self.backbone)):
            if note is not None:
                rank_zero_only(print)(note)
        steps = self.trainer.num_training_batches
        if steps != float("inf"):
            # The last step of an epoch may have fewer batches.
            for text in stability_warnings(self.config, math.ceil(steps / self.trainer.accumulate_grad_batches)):
                rank_zero_only(warn)(text)

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Check the last step of an epoch and the resulting weights before a checkpoint is written."""
        if self.trainer.is_last_batch:
            self._watch.flush()
            self._watch.check_weights(self.parameters(), self.global_step)
        last_step = 0 < self.trainer.max_steps <= self.global_step
        if self._sums is not None and (self.trainer.is_last_batch or last_step or self.trainer.should_stop):
            means = (self._sums / self._summed).unbind()
            logged = {f"train_{name}_epoch": mean for name, mean in zip(self._names, means, strict=True)}
            # Every process has the same means; without sync_dist, Lightning warns about each of them.
            self.log_dict(logged, on_step=False, on_epoch=True, sync_dist=True)

    def configure_callbacks(self) -> list[pl.Callback]:
        """Attach probes, radius monitor and the writer of ``results.json`` to any trainer, solo-learn's included."""
        config = self.config
        images = images_of(config)
        callbacks: list[pl.Callback] = []
        if not config.data.no_labels:
            callbacks.append(OnlineProbes(config.probes, config.crop_size, config.seed, images))
        if config.diagnostics.enabled:
            settings = config.diagnostics
            measured = (config.crop_size, settings.every_n_epochs, settings.max_images, settings.gaussianity)
            callbacks.append(RadiusMonitor(*measured, method=configured_method(config.plain()), run_images=images))
        callbacks.append(StepCost())
        callbacks.append(ResultsWriter(self.results_config(), host=self.host, folder=self.results_folder))
        if self.results_folder is not None and config.loggers.csv:
            callbacks.append(EpochTable(self.results_folder))
        if self.own_loop:
            return [*callbacks, FreshBatches()]
        return [
            StopOnSignal(leave_requeue=True),
            *callbacks,
            GeneratorStates(),
            FreshBatches(),
            ExitAfterSignal(),
        ]

    def _log_terms(self, names: list[str], values: Tensor) -> None:
        """Add to the epoch's sums, and log the values of a step every ``log_every_n_steps`` steps.

        Lightning's ``log`` takes some tenths of a millisecond: a call for each term at each step would take a large
        part of a small network's training time.
        """
        self._names, self._summed = names, self._summed + 1
        self._sums = values if self._sums is None else self._sums + values
        every = self.trainer.log_every_n_steps  # type: ignore[attr-defined]
        if every and (self.global_step + 1) % every == 0:  # 0, as in Lightning: no values of single steps
            for name, value in zip(names, values.unbind(), strict=True):
                bar = name in _PROGRESS_BAR
                self.log(f"train_{name}_step", value, on_step=True, on_epoch=False, prog_bar=bar)

    @property
    def _watch(self) -> FiniteGuard:
        if self._guard is None:  # the precision is known once there is a trainer
            scaled = str(self.trainer.precision).startswith("16-mixed")
            self._guard = FiniteGuard(scaled, lambda: last_checkpoint(self.trainer))
        return self._guard

    def results_config(self) -> dict[str, object]:
        """Return the configuration as it was written, resolved; for ``results.json``."""
        return self.config.plain()
