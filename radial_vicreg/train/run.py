"""``radial-vicreg pretrain``: one training loop around either host."""

from __future__ import annotations

import inspect
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import LearningRateMonitor, TQDMProgressBar
from lightning.pytorch.utilities import rank_zero_only
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from omegaconf import DictConfig, OmegaConf
from torch.utils.data import DataLoader

from radial_vicreg.checkpoints import check_resumable
from radial_vicreg.data import datasets as standalone_data
from radial_vicreg.data import opening as memory
from radial_vicreg.data.batches import collate
from radial_vicreg.data.loader import build_train_loader
from radial_vicreg.errors import UserError
from radial_vicreg.hosts.check_config import check_config
from radial_vicreg.hosts.method_kwargs import complete_method_kwargs
from radial_vicreg.optim import build_optimizer, build_scheduler, process_count
from radial_vicreg.secrets import without_secrets
from radial_vicreg.solo.detect import choose_host
from radial_vicreg.train.checkpointing import AtomicCheckpointIO, RunCheckpoint
from radial_vicreg.train.console import EpochSummary
from radial_vicreg.train.endings import fit
from radial_vicreg.train.epoch_seed import EpochSeed
from radial_vicreg.train.frozen_probe import FrozenLinearProbe
from radial_vicreg.train.run_folder import choose_run_folder, claim_runs_dir, no_empty_folder
from radial_vicreg.train.run_name import name_run
from radial_vicreg.train.skipped_images import SkippedImages, skipped_text
from radial_vicreg.train.stop_on_signal import StopOnSignal

METHODS = ("radialvicreg", "vicreg")


@dataclass
class Run:
    """A prepared run.

    Attributes:
        model: the host's LightningModule.
        train_loader: batches of ``[indexes, [view 1, view 2], targets]``.
        val_loader: batches of ``[images, targets]``, or None.
    """

    model: pl.LightningModule
    train_loader: DataLoader[Any]
    val_loader: DataLoader[Any] | None


def pretrain(cfg: DictConfig) -> Path:
    """Trains, and leaves checkpoints, ``results.json`` and the figure of the radii in a folder of the run's own.

    Args:
        cfg: composed configuration, see ``yaml/radialvicreg.yaml``.

    Returns:
        The run's folder.

    Raises:
        UserError: anything wrong with the configuration or the data, before a file is written.
        NonFiniteLossError: the loss became NaN or infinite.
        RunStopped: a signal ended the run.
        WorkerDiedError: a data-loading process is gone.
    """
    cfg = normalise(cfg)
    trainer = build_trainer(cfg)
    # Before anything is said or written: outside of distributed strategies, Lightning takes the environment's word.
    adopt_rank(trainer.global_rank)
    claim_runs_dir(cfg)
    host, reason = choose_host(cfg.host)
    rank_zero_only(print)(f"host: {host} ({reason})")
    pl.seed_everything(cfg.seed, workers=True, verbose=False)
    run = build_solo(cfg) if host == "solo" else build_standalone(cfg)
    probe = frozen_probe(cfg, run)
    folder, checkpoint = choose_run_folder(cfg)
    if checkpoint is not None:
        with no_empty_folder(folder):
            check_resumable(checkpoint, run.model)
    rank_zero_only(print)(f"run folder: {folder}" + (f", continuing from {checkpoint}" if checkpoint else ""))
    run.model.results_folder = str(folder)  # type: ignore[assignment]
    with no_empty_folder(folder):
        equip_trainer(trainer, cfg, folder, probe, steps_per_epoch=len(run.train_loader))
        fit(trainer, run.model, run.train_loader, run.val_loader, checkpoint)
    return folder


def normalise(cfg: DictConfig) -> DictConfig:
    """Checks method and hardware settings and adapts them to this machine.

    Args:
        cfg: composed configuration; not changed.

    Returns:
        A copy with complete ``method_kwargs`` and trainer settings that exist here: on a CPU float32, one process
        unless asked otherwise.

    Raises:
        UserError: an unknown method, a bad ``method_kwargs``, a data format or accelerator that is not to be had.
    """
    cfg = check_config(cfg)
    if process_count(cfg) == 1:
        adopt_rank(0)  # before the first message
    if cfg.method not in METHODS:
        raise UserError(f"method must be one of {', '.join(METHODS)} here, got {cfg.method!r}")
    kwargs: dict[str, Any] = OmegaConf.to_container(cfg.method_kwargs, resolve=True)  # type: ignore[assignment]
    cfg.method_kwargs = complete_method_kwargs(cfg.method, kwargs)
    if (option := memory.memory_option(cfg)) is not None:
        if cfg.host == "solo":
            raise UserError(f"{option} needs host=standalone: solo-learn's data pipeline has no such option")
        if cfg.host == "auto":
            rank_zero_only(print)(f"{option}: host=standalone has it")
            cfg.host = "standalone"
    on_gpu = cfg.accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available()
    if cfg.accelerator in ("gpu", "cuda") and not on_gpu:
        raise UserError(f"accelerator={cfg.accelerator}, but PyTorch sees no GPU; use accelerator=auto or cpu")
    if not on_gpu:
        cfg.accelerator = "cpu"
    if process_count(cfg) == 1:
        cfg.strategy = "auto"
    if _effective_hardware(cfg)["precision"] != cfg.precision:
        rank_zero_only(print)(f"no GPU: training in float32 on the CPU instead of precision={cfg.precision}")
    check_training(cfg)
    name_run(cfg, process_count(cfg))
    return cfg


def check_training(cfg: DictConfig) -> None:
    """What would otherwise fail at the first step, when files have been written.

    Raises:
        UserError: a spacing that the batch does not allow, an unknown optimizer or scheduler or arguments that they do
            not take.
    """
    batch, spacing = cfg.optimizer.batch_size * process_count(cfg), cfg.method_kwargs.radial_spacing
    if spacing is not None and spacing >= batch:
        raise UserError(
            f"method_kwargs.radial_spacing must be below the global batch of {batch}, got {spacing}; null chooses "
            "round(sqrt(N))"
        )
    optimizer = build_optimizer(cfg, [{"name": "check", "params": [torch.zeros(1, requires_grad=True)]}])
    build_scheduler(cfg, optimizer, total_steps=cfg.max_epochs)


def build_standalone(cfg: DictConfig) -> Run:
    """The embedded host: Lightning, timm, torchvision."""
    from radial_vicreg.train.module import RadialVICRegModule

    train_loader = build_train_loader(cfg, memory.build_train_dataset(cfg))
    return Run(RadialVICRegModule(cfg), train_loader, memory.build_val_loader(cfg))


def build_solo(cfg: DictConfig) -> Run:
    """solo-learn's pipelines and method; validation is ours, at the training resolution."""
    from radial_vicreg.solo import data as solo_data
    from radial_vicreg.solo.method import RadialVICReg

    # Its own checks come later or say little; these name paths and numbers.
    standalone_data.build_train_dataset(cfg)
    completed = solo_data.solo_config(cfg)
    train_loader = build_train_loader(cfg, solo_data.build_train_dataset(completed))
    model = RadialVICReg(completed, own_loop=True)
    if not completed.performance.disable_channel_last:
        model = model.to(memory_format=torch.channels_last)
    return Run(model, train_loader, standalone_data.build_val_loader(cfg))


def frozen_probe(cfg: DictConfig, run: Run) -> FrozenLinearProbe | None:
    """The before-and-after probe, when ``probes.frozen_linear`` asks for it.

    Raises:
        UserError: it is asked for, but there is no labelled validation set.
    """
    if not (cfg.get("probes") or {}).get("frozen_linear", False):
        return None
    if run.val_loader is None or cfg.data.get("no_labels", False):
        raise UserError("probes.frozen_linear needs labels and data.val_path; set probes.frozen_linear=false")
    plain = standalone_data.build_train_dataset(cfg, transform=standalone_data.build_val_transform(cfg)).dataset
    loader = DataLoader(plain, batch_size=256, num_workers=cfg.data.num_workers, collate_fn=collate)
    return FrozenLinearProbe(loader, run.val_loader)


def build_trainer(cfg: DictConfig) -> pl.Trainer:
    """Build Lightning's trainer without what belongs to a run's folder.

    Args:
        cfg: normalised configuration.

    Returns:
        The trainer, which knows its process's rank; see :func:`equip_trainer` for the rest.

    Raises:
        UserError: Lightning refuses the settings, or the job has another number of processes than they ask for.
    """
    interactive = sys.stderr.isatty()  # a bar in a log file is a line for every step
    known = inspect.signature(pl.Trainer.__init__).parameters
    settings = {key: value for key, value in _plain(cfg).items() if key in known}
    settings.update(
        _effective_hardware(cfg),
        devices=process_count(cfg) // int(cfg.get("num_nodes", 1)) if cfg.accelerator == "cpu" else settings["devices"],
        callbacks=[TQDMProgressBar(refresh_rate=5)] if interactive else [],
        plugins=[AtomicCheckpointIO()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=interactive,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
    try:
        trainer = pl.Trainer(**settings)
    except (MisconfigurationException, TypeError) as error:
        raise UserError(f"Lightning's Trainer refuses the configuration: {error}") from error
    _check_job(trainer)
    return trainer


def _check_job(trainer: pl.Trainer) -> None:
    """Compare a scheduler's tasks with the processes asked for: Lightning does so when files have been written."""
    cluster = getattr(trainer.strategy.launcher, "cluster_environment", None)
    if cluster is None:
        return
    try:
        cluster.validate_settings(num_devices=trainer.num_devices, num_nodes=trainer.num_nodes)
    except ValueError as error:
        raise UserError(
            f"the job has another number of tasks or nodes than devices and num_nodes ask for: {error}"
        ) from error


def equip_trainer(
    trainer: pl.Trainer, cfg: DictConfig, folder: Path, probe: FrozenLinearProbe | None, steps_per_epoch: int
) -> None:
    """Give a trainer this project's callbacks and loggers; the model attaches radius monitor and results writer.

    Args:
        trainer: of :func:`build_trainer`.
        cfg: normalised configuration.
        folder: the run's.
        probe: the before-and-after probe, if any.
        steps_per_epoch: a short epoch is still logged.
    """
    loggers = build_loggers(cfg, folder)
    callbacks: list[pl.Callback] = [
        StopOnSignal(),
        EpochSeed(int(cfg.seed)),
        EpochSummary(cfg.method_kwargs.proj_output_dim),
    ]
    if probe is not None:
        callbacks.append(probe)
    if skipped := standalone_data.skipped_images(cfg):
        rank_zero_only(print)(skipped_text(skipped))
        callbacks.append(SkippedImages(skipped))
    if loggers:
        callbacks.append(LearningRateMonitor(logging_interval="step"))
    if cfg.checkpoint.enabled:
        callbacks.append(
            RunCheckpoint(
                folder / "checkpoints",
                every_n_epochs=cfg.checkpoint.get("frequency", 1),
                keep_all=cfg.checkpoint.get("keep_prev", False),
            )
        )
    trainer.callbacks.extend(callbacks)  # type: ignore[attr-defined]
    trainer.loggers = loggers
    trainer.log_every_n_steps = min(trainer.log_every_n_steps, steps_per_epoch)  # type: ignore[attr-defined]


def adopt_rank(rank: int) -> None:
    """Tell Lightning's ``rank_zero_only`` a process's rank; ``RANK`` or ``SLURM_PROCID`` may be of other things.

    Args:
        rank: the trainer's ``global_rank``.
    """
    rank_zero_only.rank = rank  # type: ignore[attr-defined]


def build_loggers(cfg: DictConfig, folder: Path) -> list[Any]:
    """CSV, TensorBoard and W&B as configured; W&B only when asked."""
    from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger, WandbLogger

    wanted = cfg.get("loggers") or {}
    loggers: list[Any] = []
    if wanted.get("csv", False):
        loggers.append(CSVLogger(str(folder), name="csv"))
    if wanted.get("tensorboard", False):
        loggers.append(TensorBoardLogger(str(folder), name=None, version="tensorboard"))
    if cfg.wandb.enabled:
        logger = WandbLogger(
            name=str(cfg.name),
            project=cfg.wandb.project,
            entity=cfg.wandb.entity,
            offline=cfg.wandb.offline,
            save_dir=str(folder),
        )
        logger.log_hyperparams(without_secrets(_plain(cfg)))
        loggers.append(logger)
    return loggers


def _effective_hardware(cfg: DictConfig) -> dict[str, Any]:
    """What this machine makes of the requested precision and BatchNorm; the configuration keeps what was asked for."""
    if cfg.accelerator != "cpu":
        return {"precision": cfg.precision, "sync_batchnorm": cfg.sync_batchnorm}
    half = str(cfg.precision).startswith(("16", "bf16"))  # slow or missing there
    return {"precision": 32 if half else cfg.precision, "sync_batchnorm": False}  # PyTorch has it for GPUs only


def _plain(cfg: DictConfig) -> dict[str, Any]:
    return OmegaConf.to_container(cfg, resolve=True)  # type: ignore[return-value]
