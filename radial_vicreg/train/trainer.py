"""Lightning's trainer, with this project's callbacks and loggers."""

from __future__ import annotations

import inspect
import math
from pathlib import Path
from typing import Any

import lightning
import lightning.pytorch as pl
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import LearningRateMonitor

from radial_vicreg.config import RunConfig
from radial_vicreg.config.trainer_arguments import TRAINER_ARGUMENTS
from radial_vicreg.errors import UserError, reason_of
from radial_vicreg.io.secrets import without_secrets
from radial_vicreg.runs.checkpoints import CHECKPOINTS
from radial_vicreg.train.callbacks.checkpointing import AtomicCheckpointIO, RunCheckpoint
from radial_vicreg.train.callbacks.console import EpochSummary, RunBar, quiet_lightning
from radial_vicreg.train.callbacks.csv_tables import StepTable
from radial_vicreg.train.callbacks.epoch_seed import EpochSeed
from radial_vicreg.train.callbacks.stop_on_signal import StopOnSignal
from radial_vicreg.train.hardware import effective_hardware
from radial_vicreg.train.processes import check_processes

_REFUSALS = (MisconfigurationException, TypeError, ValueError, RuntimeError, ImportError)
"""Errors of Lightning's Trainer, when it is built, for invalid settings and for settings that need another package."""


def build_trainer(config: RunConfig, precision: str | None = None) -> pl.Trainer:
    """Build Lightning's trainer without the parts that need a run's folder.

    Args:
        config: prepared configuration.
        precision: effective precision; by default the one that this machine chooses.

    Returns:
        The trainer, which knows its process's rank; see :func:`equip_trainer` for the rest.

    Raises:
        UserError: Lightning refuses the settings, or would train with another number of processes than requested.
    """
    quiet_lightning()
    settings = trainer_settings(config)
    decided = {
        name: found.read_by.instead for name, found in TRAINER_ARGUMENTS.items() if found.read_by.who == "script"
    }
    if given := sorted(decided.keys() & settings.keys()):
        raise UserError(f"{', '.join(given)}: {decided[given[0]]}")
    settings.update(effective_hardware(config), **decided_arguments())
    if precision is not None:
        settings["precision"] = precision
    if config.accelerator == "cpu":
        settings["devices"] = config.local_processes
    try:
        trainer = pl.Trainer(**settings)
    except _REFUSALS as error:
        raise UserError(f"Lightning's Trainer refuses the configuration: {reason_of(error)}") from error
    check_processes(config, trainer)
    return trainer


def decided_arguments() -> dict[str, Any]:
    """Return the arguments of Lightning's Trainer that no configuration of ``radial-vicreg pretrain`` may set."""
    return {
        "plugins": [AtomicCheckpointIO()],
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "num_sanity_val_steps": 0,
    }


def trainer_settings(config: RunConfig) -> dict[str, Any]:
    """Return the arguments of Lightning's Trainer in a configuration.

    Args:
        config: configuration of either host.

    Returns:
        Values by name.

    Raises:
        UserError: the installed Lightning has an argument that this package does not know: two runs that differ in it
            would count as one experiment.
    """
    arguments = inspect.signature(pl.Trainer).parameters
    settings = {key: value for key, value in config.plain().items() if key in arguments}
    if unknown := sorted(settings.keys() - RunConfig.model_fields.keys() - TRAINER_ARGUMENTS.keys()):
        raise UserError(
            f"{unknown[0]} is an argument of Lightning {lightning.__version__} that radial-vicreg does not know: runs "
            f"that differ in it would count as one experiment. Remove {unknown[0]}, or update radial-vicreg"
        )
    return settings


def equip_trainer(trainer: pl.Trainer, config: RunConfig, folder: Path, epoch_steps: int) -> None:
    """Add this project's callbacks and loggers to a trainer; the model attaches radius monitor and results writer.

    Args:
        trainer: trainer from :func:`build_trainer`.
        config: prepared configuration.
        folder: folder of the run.
        epoch_steps: steps per epoch; every epoch is logged at least once. Otherwise, it would keep the values that
            Lightning logged in an earlier epoch, which a resumed run does not have.
    """
    loggers = build_loggers(config, folder)
    callbacks: list[pl.Callback] = [RunBar(), StopOnSignal(), EpochSeed(config.seed), EpochSummary(config)]
    if loggers:
        callbacks.append(LearningRateMonitor(logging_interval="step"))
    if (checkpoint := config.checkpoint).enabled:
        callbacks.append(RunCheckpoint(folder / CHECKPOINTS, checkpoint.frequency, checkpoint.keep_prev))
    trainer.callbacks.extend(callbacks)  # type: ignore[attr-defined]
    trainer.loggers = loggers
    trainer.log_every_n_steps = min(trainer.log_every_n_steps, max(1, epoch_steps))  # type: ignore[attr-defined]


def batches_per_epoch(trainer: pl.Trainer, config: RunConfig, images: int) -> int:
    """Count the batches that each process sees in an epoch; ``limit_train_batches`` cuts them."""
    batches = math.ceil(images / config.processes) // config.optimizer.batch_size
    limit = trainer.limit_train_batches
    return min(limit, batches) if isinstance(limit, int) else int(limit * batches)


def steps_per_epoch(config: RunConfig, batches: int) -> int:
    """Count the optimizer steps of an epoch with this number of batches; the last step may have fewer batches."""
    return math.ceil(batches / config.accumulation)


def build_loggers(config: RunConfig, folder: Path) -> list[Any]:
    """Build CSV, TensorBoard and W&B loggers as configured; W&B only when asked."""
    from lightning.pytorch.loggers import TensorBoardLogger, WandbLogger

    loggers: list[Any] = []
    if config.loggers.csv:
        loggers.append(StepTable(folder))
    if config.loggers.tensorboard:
        loggers.append(TensorBoardLogger(str(folder), name=None, version="tensorboard"))
    if config.wandb.enabled:
        logger = WandbLogger(
            name=config.name,
            project=config.wandb.project,
            entity=config.wandb.entity,
            offline=config.wandb.offline,
            save_dir=str(folder),
        )
        logger.log_hyperparams(without_secrets(config.plain()))
        loggers.append(logger)
    return loggers
