"""``radial-vicreg pretrain``: one training loop around either host."""

from __future__ import annotations

import inspect
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint, TQDMProgressBar
from lightning.pytorch.utilities import rank_zero_only
from omegaconf import DictConfig, OmegaConf
from torch.utils.data import DataLoader

from radial_vicreg.callbacks import EpochSeed, EpochSummary, FrozenLinearProbe
from radial_vicreg.hosts.detect import choose_host
from radial_vicreg.hosts.loaders import build_train_loader
from radial_vicreg.hosts.method_kwargs import complete_method_kwargs
from radial_vicreg.hosts.standalone import data as standalone_data
from radial_vicreg.hosts.standalone.optim import build_optimizer, build_scheduler, process_count
from radial_vicreg.results import config_hash

METHODS = ("radialvicreg", "vicreg")
LAST_CHECKPOINT = "last.ckpt"


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
        ValueError: anything wrong with the configuration or the data, before a file is written.
        NonFiniteLossError: the loss became NaN or infinite.
    """
    cfg = normalise(cfg)
    host, reason = choose_host(cfg.host)
    rank_zero_only(print)(f"host: {host} ({reason})")
    pl.seed_everything(cfg.seed, workers=True, verbose=False)
    run = build_solo(cfg) if host == "solo" else build_standalone(cfg)
    probe = frozen_probe(cfg, run)
    folder, checkpoint = run_folder(cfg)
    rank_zero_only(print)(f"run folder: {folder}")
    run.model.results_folder = str(folder)  # type: ignore[assignment]
    trainer = build_trainer(cfg, folder, probe, steps_per_epoch=len(run.train_loader))
    trainer.fit(run.model, run.train_loader, run.val_loader, ckpt_path=checkpoint, weights_only=True)
    return folder


def normalise(cfg: DictConfig) -> DictConfig:
    """Checks method and hardware settings and adapts them to this machine.

    Args:
        cfg: composed configuration; not changed.

    Returns:
        A copy with complete ``method_kwargs`` and trainer settings that exist here: on a CPU float32, one process
        unless asked otherwise.

    Raises:
        ValueError: an unknown method, a bad ``method_kwargs``, a data format or accelerator that is not to be had.
    """
    cfg = cfg.copy()
    OmegaConf.set_struct(cfg, False)
    if cfg.method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)} here, got {cfg.method!r}")
    kwargs: dict[str, Any] = OmegaConf.to_container(cfg.method_kwargs, resolve=True)  # type: ignore[assignment]
    cfg.method_kwargs = complete_method_kwargs(cfg.method, kwargs)
    if cfg.data.get("format", "image_folder") != "image_folder":
        raise ValueError(
            f"data.format={cfg.data.format} is run by solo-learn's main_pretrain.py; here use data.format=image_folder"
        )
    on_gpu = cfg.accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available()
    if cfg.accelerator in ("gpu", "cuda") and not on_gpu:
        raise ValueError(f"accelerator={cfg.accelerator}, but PyTorch sees no GPU; use accelerator=auto or cpu")
    if not on_gpu:
        cfg.accelerator = "cpu"
        if str(cfg.precision).startswith(("16", "bf16")):
            rank_zero_only(print)(f"no GPU: training in float32 on the CPU instead of precision={cfg.precision}")
            cfg.precision = 32
        cfg.sync_batchnorm = False  # PyTorch has it for GPUs only
    if process_count(cfg) == 1:
        cfg.strategy = "auto"
    check_training(cfg)
    return cfg


def check_training(cfg: DictConfig) -> None:
    """What would otherwise fail at the first step, when files have been written.

    Raises:
        ValueError: a spacing that the batch does not allow, an unknown optimizer or scheduler or arguments that they do
            not take.
    """
    batch, spacing = cfg.optimizer.batch_size * process_count(cfg), cfg.method_kwargs.radial_spacing
    if spacing is not None and spacing >= batch:
        raise ValueError(
            f"method_kwargs.radial_spacing must be below the global batch of {batch}, got {spacing}; null chooses "
            "round(sqrt(N))"
        )
    optimizer = build_optimizer(cfg, [{"name": "check", "params": [torch.zeros(1, requires_grad=True)]}])
    build_scheduler(cfg, optimizer, total_steps=cfg.max_epochs)


def build_standalone(cfg: DictConfig) -> Run:
    """The embedded host: Lightning, timm, torchvision."""
    from radial_vicreg.hosts.standalone.module import RadialVICRegModule

    train_set = standalone_data.build_train_dataset(cfg)
    train_loader = build_train_loader(cfg, train_set)
    return Run(RadialVICRegModule(cfg), train_loader, standalone_data.build_val_loader(cfg))


def build_solo(cfg: DictConfig) -> Run:
    """solo-learn's pipelines and method; validation is ours, at the training resolution."""
    from radial_vicreg.hosts.solo import data as solo_data
    from radial_vicreg.hosts.solo.method import RadialVICReg

    # Its own checks come later or say little; these name paths and numbers.
    standalone_data.build_train_dataset(cfg)
    completed = solo_data.solo_config(cfg)
    train_loader = build_train_loader(cfg, solo_data.build_train_dataset(completed))
    model = RadialVICReg(completed)
    if not completed.performance.disable_channel_last:
        model = model.to(memory_format=torch.channels_last)
    return Run(model, train_loader, standalone_data.build_val_loader(cfg))


def frozen_probe(cfg: DictConfig, run: Run) -> FrozenLinearProbe | None:
    """The before-and-after probe, when ``probes.frozen_linear`` asks for it.

    Raises:
        ValueError: it is asked for, but there is no labelled validation set.
    """
    if not (cfg.get("probes") or {}).get("frozen_linear", False):
        return None
    if run.val_loader is None or cfg.data.get("no_labels", False):
        raise ValueError("probes.frozen_linear needs labels and data.val_path; set probes.frozen_linear=false")
    plain = standalone_data.build_train_dataset(cfg, transform=standalone_data.build_val_transform(cfg)).dataset
    return FrozenLinearProbe(DataLoader(plain, batch_size=256, num_workers=cfg.data.num_workers), run.val_loader)


def run_folder(cfg: DictConfig) -> tuple[Path, str | None]:
    """A new folder for a new run, or the folder and checkpoint that ``ckpt`` asks to continue.

    Args:
        cfg: normalised configuration.

    Returns:
        Folder and checkpoint (None for a new run).

    Raises:
        ValueError: ``ckpt=last`` finds no run of this configuration, or ``ckpt`` is not a file.
    """
    identity = config_hash(_plain(cfg), process_count(cfg))
    kind = f"{cfg.method}-{cfg.data.dataset}-{cfg.backbone.name}-d{cfg.method_kwargs.proj_output_dim}"
    parent = Path(cfg.runs_dir) / f"{kind}-{identity}"
    if cfg.ckpt is None and rank_zero_only.rank != 0:  # type: ignore[attr-defined]
        return parent, None  # only the first process writes, into a folder of its making
    if cfg.ckpt is None:
        stamp = time.strftime("%Y%m%d-%H%M%S")
        for suffix in ("", *(f"-{count}" for count in range(2, 1000))):
            try:
                (parent / f"{stamp}{suffix}").mkdir(parents=True)
            except FileExistsError:  # another run of this second
                continue
            return parent / f"{stamp}{suffix}", None
        raise ValueError(f"could not make a new folder in {parent}")
    if cfg.ckpt == "last":
        found = sorted(parent.glob(f"*/checkpoints/{LAST_CHECKPOINT}"), key=lambda path: path.stat().st_mtime)
        if not found:
            raise ValueError(
                f"ckpt=last: no checkpoint of this configuration in {parent}; leave ckpt out to start anew"
            )
        checkpoint = found[-1]
    else:
        checkpoint = Path(str(cfg.ckpt))
        if not checkpoint.is_file():
            raise ValueError(f"ckpt={cfg.ckpt} is not a file; give a checkpoint's path, or ckpt=last")
    return checkpoint.parent.parent, str(checkpoint)


def build_trainer(cfg: DictConfig, folder: Path, probe: FrozenLinearProbe | None, steps_per_epoch: int) -> pl.Trainer:
    """Lightning's trainer with this project's callbacks and loggers.

    Args:
        cfg: normalised configuration.
        folder: the run's.
        probe: the before-and-after probe, if any.
        steps_per_epoch: a short epoch is still logged.

    Returns:
        The trainer; radius monitor and results writer are attached by the model.
    """
    loggers = build_loggers(cfg, folder)
    callbacks: list[pl.Callback] = [EpochSeed(int(cfg.seed)), EpochSummary(cfg.method_kwargs.proj_output_dim)]
    interactive = sys.stderr.isatty()  # a bar in a log file is a line for every step
    if interactive:
        callbacks.append(TQDMProgressBar(refresh_rate=5))
    if probe is not None:
        callbacks.append(probe)
    if loggers:
        callbacks.append(LearningRateMonitor(logging_interval="step"))
    if cfg.checkpoint.enabled:
        callbacks.append(
            ModelCheckpoint(
                dirpath=folder / "checkpoints",
                filename="epoch-{epoch}",
                auto_insert_metric_name=False,  # an equals sign in the name would need quoting in ckpt=...
                every_n_epochs=cfg.checkpoint.get("frequency", 1),
                save_top_k=-1 if cfg.checkpoint.get("keep_prev", False) else 1,
                save_last=True,
                save_on_train_epoch_end=True,
            )
        )
    known = inspect.signature(pl.Trainer.__init__).parameters
    settings = {key: value for key, value in _plain(cfg).items() if key in known}
    settings.update(
        devices=process_count(cfg) // int(cfg.get("num_nodes", 1)) if cfg.accelerator == "cpu" else settings["devices"],
        callbacks=callbacks,
        logger=loggers,
        default_root_dir=str(folder),
        enable_checkpointing=bool(cfg.checkpoint.enabled),
        enable_progress_bar=interactive,
        enable_model_summary=False,
        log_every_n_steps=min(settings.get("log_every_n_steps", 50), steps_per_epoch),
        num_sanity_val_steps=0,
    )
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
    return pl.Trainer(**settings)


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
        logger.log_hyperparams(_plain(cfg))
        loggers.append(logger)
    return loggers


def _plain(cfg: DictConfig) -> dict[str, Any]:
    return OmegaConf.to_container(cfg, resolve=True)  # type: ignore[return-value]
