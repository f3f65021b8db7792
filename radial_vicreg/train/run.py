"""``radial-vicreg pretrain``: one training loop around either host."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import lightning.pytorch as pl
import torch
from lightning.pytorch.utilities import rank_zero_only
from torch.utils.data import DataLoader

from radial_vicreg.config import RunConfig
from radial_vicreg.data.build import RunData, open_data
from radial_vicreg.data.fingerprint import listed_once
from radial_vicreg.data.loader import (
    build_train_loader,
    build_training_set,
    build_val_loader,
    faster_loading,
    workers_note,
)
from radial_vicreg.errors import UserError
from radial_vicreg.names.probes import frozen_key
from radial_vicreg.nets.models import check_backbone
from radial_vicreg.nets.optimizers import build_optimizer, build_scheduler
from radial_vicreg.probes.registry import frozen_probes
from radial_vicreg.runs.checkpoints import check_resumable
from radial_vicreg.runs.origin import images_of
from radial_vicreg.runtime.devices import process_device
from radial_vicreg.train.callbacks.frozen_probe import FrozenProbe
from radial_vicreg.train.callbacks.skipped_images import SkippedImages, skipped_text
from radial_vicreg.train.callbacks.waiting import WaitingAdvice
from radial_vicreg.train.endings import fit
from radial_vicreg.train.first_checks import check_names, standalone_options
from radial_vicreg.train.hardware import precision_as_begun, precision_note
from radial_vicreg.train.loss import check_objective
from radial_vicreg.train.micro_batches import check_micro_batches
from radial_vicreg.train.processes import adopt_rank, check_launcher
from radial_vicreg.train.run_folder import choose_run_folder, claim_runs_dir, no_empty_folder
from radial_vicreg.train.run_name import named
from radial_vicreg.train.same_run import begun_precision
from radial_vicreg.train.trainer import (
    batches_per_epoch,
    build_trainer,
    equip_trainer,
    steps_per_epoch,
)


class Parts(NamedTuple):
    """The parts that a host adds to the training loop.

    Attributes:
        model: the host's LightningModule.
        train_loader: batches of ``[indexes, [view 1, view 2, ...], targets]``.
    """

    model: pl.LightningModule
    train_loader: DataLoader[Any]


class Host(NamedTuple):
    """A host of the training loop.

    Attributes:
        name: ``standalone`` or ``solo``.
        reason: reason for the choice, one sentence.
        build: builds the host's parts from a configuration and its images.
    """

    name: str
    reason: str
    build: Callable[[RunConfig, RunData], Parts]


def build_standalone(config: RunConfig, data: RunData) -> Parts:
    """Build the parts of the embedded host: Lightning, timm, torchvision."""
    from radial_vicreg.train.module import PretrainingModule

    train_loader = build_train_loader(config, build_training_set(config, data))
    return Parts(PretrainingModule(config, data.num_classes), train_loader)


def embedded(config: RunConfig) -> Host:
    """Choose the embedded host for any value of ``host``."""
    return Host("standalone", "it is the embedded host", build_standalone)


@listed_once()  # for the processes that Lightning starts, too
def pretrain(
    config: RunConfig,
    choose_host: Callable[[RunConfig], Host] = embedded,
    claim: AbstractContextManager[object] | None = None,
) -> Path:
    """Train, and write checkpoints, ``results.json`` and the figure of the radii to the run's own folder.

    Args:
        config: the requested configuration.
        choose_host: returns the host; default: the embedded one.
        claim: context that the first process enters before images are read and a folder is chosen, and leaves at its
            end; it may refuse the run with an error.

    Returns:
        The run's folder.

    Raises:
        UserError: anything wrong with the configuration or the data, before a file is written.
        RunFailed: the loss became NaN or infinite, or a data-loading process has died.
        RunStopped: a signal ended the run.
    """
    with ExitStack() as held:
        run = set_up(config, choose_host, claim=None if claim is None else lambda: held.enter_context(claim))
        return _train(run)


def _train(run: SetUp) -> Path:
    config, trainer = run.config, run.trainer
    model, train_loader = run.parts
    folder, checkpoint = choose_run_folder(config)
    with no_empty_folder(folder):
        if checkpoint is not None:
            check_resumable(checkpoint, model)
            trainer = _as_begun(trainer, config, Path(checkpoint))
        rank_zero_only(print)(f"run folder: {folder}" + (f", resuming from {checkpoint}" if checkpoint else ""))
        model.results_folder = str(folder)  # type: ignore[assignment]
        batches = batches_per_epoch(trainer, config, images=len(train_loader.dataset))  # type: ignore[arg-type]
        equip_trainer(trainer, config, folder, steps_per_epoch(config, batches))
        trainer.callbacks.extend(run.callbacks)  # type: ignore[attr-defined]
        fit(trainer, model, train_loader, run.val_loader, checkpoint)
    return folder


def _as_begun(trainer: pl.Trainer, config: RunConfig, checkpoint: Path) -> pl.Trainer:
    """Return a trainer with the precision in which the run of a checkpoint began, if this machine has it."""
    precision = precision_as_begun(config, begun_precision(checkpoint))
    if precision is None:
        return trainer
    rank_zero_only(print)(
        f"precision: {precision}, in which this run began; a new run on this machine would take {trainer.precision}"
    )
    return build_trainer(config, precision)


class SetUp(NamedTuple):
    """A run that is ready to start; nothing has been written.

    Attributes:
        config: prepared configuration.
        trainer: trainer without the parts that need a run's folder.
        host: the chosen host.
        data: the images.
        parts: the parts of the host.
        val_loader: validation batches, or None.
        callbacks: callbacks that need the images.
    """

    config: RunConfig
    trainer: pl.Trainer
    host: Host
    data: RunData
    parts: Parts
    val_loader: DataLoader[Any] | None
    callbacks: list[pl.Callback]


def set_up(
    config: RunConfig,
    choose_host: Callable[[RunConfig], Host],
    keep_images: bool = True,
    claim: Callable[[], object] | None = None,
) -> SetUp:
    """Build everything that a run needs before it has a folder.

    Args:
        config: the requested configuration.
        choose_host: returns the host.
        keep_images: decode images to keep in memory, and try the file system of ``runs_dir``; otherwise images are only
            listed and nothing is written.
        claim: called in the first process, once its rank is known and before images are read.

    Returns:
        The run.

    Raises:
        UserError: anything wrong with the configuration or the data.
    """
    config, trainer = prepared_trainer(config)
    claim_runs_dir(config, write=keep_images)
    if claim is not None and trainer.global_rank == 0:
        claim()
    host = choose_host(config)
    rank_zero_only(print)(f"host: {host.name} ({host.reason})")
    if (note := workers_note(config)) is not None:
        rank_zero_only(print)(note)
    pl.seed_everything(config.seed, workers=True, verbose=False)
    if not keep_images:
        listed = config.data.model_copy(update={"cache": "none", "format": "image_folder"})
        config = config.model_copy(update={"data": listed})
    data = open_data(config)
    check_num_classes(config, data.num_classes)
    parts = host.build(config, data)
    val_loader = build_val_loader(config, data)
    return SetUp(config, trainer, host, data, parts, val_loader, _callbacks(config, data, val_loader))


def prepared_trainer(config: RunConfig) -> tuple[RunConfig, pl.Trainer]:
    """Prepare a configuration, build its trainer, and print changes of the configuration.

    Args:
        config: the requested configuration.

    Returns:
        The prepared configuration and the trainer.

    Raises:
        UserError: as for :func:`prepare` and :func:`build_trainer`.
    """
    prepared = prepare(config)
    trainer = build_trainer(prepared)
    # Before any message or file: without a distributed strategy, Lightning takes the rank from the environment.
    adopt_rank(trainer.global_rank)
    if config.host != prepared.host:
        for option in standalone_options(config):
            rank_zero_only(print)(f"{option}: using host=standalone, which supports it")
    if (note := precision_note(prepared)) is not None:
        rank_zero_only(print)(note)
    return prepared, trainer


def prepare(config: RunConfig) -> RunConfig:
    """Refuse settings that would fail later, and adapt hardware settings to this machine.

    Args:
        config: the requested configuration.

    Returns:
        The configuration with the run's final name, and trainer settings that are available here.

    Raises:
        UserError: a number of processes that torchrun or Slurm did not start, a loss that cannot be built or called, a
            key that only solo-learn's script reads, a strategy that Lightning lacks, a logger whose package is missing,
            a network that does not take the images, a data format or accelerator that is not available, a spacing that
            the batch does not allow, micro-batches that the backbone cannot have, an optimizer or scheduler that cannot
            be built.
    """
    check_launcher(config)
    check_names(config)
    check_backbone(config)
    changes: dict[str, object] = {"method_kwargs": config.objective_settings}
    if standalone_options(config):
        changes["host"] = "standalone"
    on_gpu = config.accelerator != "cpu" and torch.cuda.is_available()
    if config.accelerator in ("gpu", "cuda") and not on_gpu:
        raise UserError(f"accelerator={config.accelerator}, but PyTorch sees no GPU; use accelerator=auto or cpu")
    if not on_gpu:
        changes["accelerator"] = "cpu"
    if config.processes == 1:
        changes["strategy"] = "auto"
    config = config.model_copy(update=changes)
    _check_first_step(config)
    check_micro_batches(config)
    check_objective(config, process_device(on_gpu))
    return named(config, runs=Path(config.runs_dir))


def _check_first_step(config: RunConfig) -> None:
    optimizer = build_optimizer(config, [{"name": "check", "params": [torch.zeros(1, requires_grad=True)]}])
    build_scheduler(config, optimizer, total_steps=config.max_epochs)


def check_num_classes(config: RunConfig, found: int) -> None:
    """Refuse a number of classes that is not that of the images.

    Args:
        config: its ``data.num_classes``, which solo-learn's script counts, need not be given.
        found: number of classes of the images.

    Raises:
        UserError: a different number is given.
    """
    if config.data.num_classes not in (None, found):
        raise UserError(
            f"data.num_classes={config.data.num_classes}, but the images of data.train_path={config.data.train_path} "
            f"have {found}: omit it, classes are counted"
        )


def _callbacks(config: RunConfig, data: RunData, val_loader: DataLoader[Any] | None) -> list[pl.Callback]:
    """Build the callbacks that need the images.

    Raises:
        UserError: a frozen probe is requested, but there is no labelled validation set.
    """
    callbacks: list[pl.Callback] = [WaitingAdvice(lambda: faster_loading(config, data))]
    for probe in frozen_probes(config.probes):
        if val_loader is None or config.data.no_labels:
            switch = f"probes.{frozen_key(probe.name)}"
            raise UserError(f"{switch} needs labels and data.val_path; set {switch}=false")
        images = images_of(config)
        callbacks.append(FrozenProbe(probe, data.plain_training_set(), val_loader, config.data.num_workers, images))
    skipped, omitted = data.skipped, data.omitted
    if skipped:
        rank_zero_only(print)(skipped_text(skipped))
    if skipped or omitted:
        callbacks.append(SkippedImages(skipped, omitted))
    return callbacks
