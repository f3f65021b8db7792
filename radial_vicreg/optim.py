"""Optimizers and learning-rate schedules by solo-learn's rules, from PyTorch and timm parts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import torch
from omegaconf import DictConfig, ListConfig, OmegaConf
from timm.optim import Lars
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, MultiStepLR

from radial_vicreg.errors import UserError
from radial_vicreg.keys import OPTIMIZER_DEFAULTS
from radial_vicreg.schedule import WarmupCosine

REFERENCE_BATCH = 256
"""Configured rates are per 256 images and grow linearly with the global batch."""

_TORCH_OPTIMIZERS: dict[str, type[Optimizer]] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
}
_SET_ELSEWHERE = {"params", "lr", "weight_decay", "trust_coeff", "trust_clip", "always_adapt"}
_SCHEDULERS = ("warmup_cosine", "step", "none")


class ScaledRates(NamedTuple):
    """Peak learning rates as the optimizer uses them.

    Attributes:
        lr: rate of backbone and projector.
        classifier_lr: rate of the online linear classifier.
    """

    lr: float
    classifier_lr: float


def scaled_lr(cfg: DictConfig) -> ScaledRates:
    """Scale the configured rates by batch size, processes and gradient accumulation.

    ``lr`` is multiplied by batch_size * devices * num_nodes / 256, ``classifier_lr`` only when
    ``data.val_path`` is set, and both by ``accumulate_grad_batches``. ``cfg`` itself is not changed.

    Args:
        cfg: configuration in solo-learn's schema, with rates as written in the YAML.

    Returns:
        Both rates.

    Raises:
        UserError: a key is missing or ``devices`` cannot be understood.
    """
    scale = int(_required(cfg, "optimizer.batch_size")) * process_count(cfg) / REFERENCE_BATCH
    classifier_scale = scale if OmegaConf.select(cfg, "data.val_path") is not None else 1.0
    accumulation = _accumulation(cfg)
    return ScaledRates(
        lr=float(_required(cfg, "optimizer.lr")) * scale * accumulation,
        classifier_lr=float(_required(cfg, "optimizer.classifier_lr")) * classifier_scale * accumulation,
    )


def process_count(cfg: DictConfig) -> int:
    """Count the training processes: devices times nodes.

    Args:
        cfg: configuration; ``devices`` may be a list of indices, a number, its string, ``"0,1"``, ``-1`` or
            ``auto``.

    Returns:
        Number of processes, at least 1.

    Raises:
        UserError: ``devices`` is none of these.
    """
    devices = OmegaConf.select(cfg, "devices", default="auto")
    nodes = int(OmegaConf.select(cfg, "num_nodes", default=1) or 1)
    if isinstance(devices, (ListConfig, list, tuple)):
        count = len(devices)
    elif "," in str(devices):
        count = len([index for index in str(devices).split(",") if index.strip()])
    elif str(devices) in ("auto", "-1", "None"):
        on_gpu = OmegaConf.select(cfg, "accelerator", default="auto") != "cpu" and torch.cuda.is_available()
        count = torch.cuda.device_count() if on_gpu else 1
    else:
        count = int(devices) if str(devices).isdecimal() else 0
    if count < 1:
        raise UserError(f"devices={devices!r}: expected a list such as [0], a positive number, auto or -1")
    return count * nodes


def build_optimizer(cfg: DictConfig, parameter_groups: Iterable[Mapping[str, Any]]) -> Optimizer:
    """Build ``cfg.optimizer``: sgd, lars, adam or adamw.

    ``lars`` is timm's ``Lars`` with groups chosen so that it takes the steps of solo-learn's LARS. They
    differ only for a parameter whose gradient is exactly zero (timm still decays it), and for one that is
    itself exactly zero while ``clip_lr`` is on and the rate above 1.

    Args:
        cfg: configuration in solo-learn's schema; the rate is scaled here.
        parameter_groups: dicts with ``params`` (tensors or pairs of name and tensor), ``name`` and optional
            ``lr`` and ``weight_decay``.

    Returns:
        The optimizer.

    Raises:
        UserError: unknown name, or arguments that the optimizer does not take.
    """
    name = str(_required(cfg, "optimizer.name"))
    if name not in OPTIMIZER_DEFAULTS:
        raise UserError(f"optimizer.name={name!r}: expected one of {', '.join(OPTIMIZER_DEFAULTS)}")
    groups = [{**group, "params": _tensors(group["params"])} for group in parameter_groups]
    if OmegaConf.select(cfg, "optimizer.exclude_bias_n_norm_wd", default=False):
        groups = _split(groups, lambda p: p.ndim <= 1, "no_decay", {"weight_decay": 0.0})
    kwargs = {**OPTIMIZER_DEFAULTS[name], **_optimizer_kwargs(cfg)}
    shared: dict[str, Any] = {
        "lr": scaled_lr(cfg).lr,
        "weight_decay": float(_required(cfg, "optimizer.weight_decay")),
    }
    _check_kwargs(name, kwargs)
    if name == "lars":
        return _build_lars(groups, kwargs, shared)
    return _TORCH_OPTIMIZERS[name](groups, **shared, **kwargs)


def check_optimizer(cfg: DictConfig) -> None:
    """Check the arguments of an optimizer that this package knows, before anything is built.

    Args:
        cfg: configuration in solo-learn's schema.

    Raises:
        UserError: ``optimizer.kwargs`` has keys of another optimizer, as after ``optimizer.name=...`` alone.
    """
    name = str(_required(cfg, "optimizer.name"))
    if name in OPTIMIZER_DEFAULTS:
        _check_kwargs(name, _optimizer_kwargs(cfg))


def _check_kwargs(name: str, kwargs: Mapping[str, Any]) -> None:
    accepted = {*inspect.signature(_TORCH_OPTIMIZERS.get(name, Lars)).parameters, *OPTIMIZER_DEFAULTS[name]}
    foreign = [key for key in kwargs if key not in accepted - _SET_ELSEWHERE]
    if foreign:
        raise UserError(
            f"optimizer.kwargs {', '.join(foreign)} do not fit optimizer.name={name}: exchange the whole group with"
            f" shared/optimizer={name}, or remove them: {' '.join(f'~optimizer.kwargs.{key}' for key in foreign)}"
        )


def build_scheduler(cfg: DictConfig, optimizer: Optimizer, total_steps: int) -> dict[str, Any]:
    """Build ``cfg.scheduler``: warmup_cosine, step or none.

    Args:
        cfg: configuration in solo-learn's schema.
        optimizer: from :func:`build_optimizer`.
        total_steps: optimizer steps of the whole training (``trainer.estimated_stepping_batches``).

    Returns:
        What a LightningModule's ``configure_optimizers`` returns: ``optimizer`` and, unless the scheduler is
        none, ``lr_scheduler`` with its ``scheduler``, ``interval`` and ``frequency``.

    Raises:
        UserError: unknown name or interval, or settings that are missing.
    """
    name = str(OmegaConf.select(cfg, "scheduler.name", default="none")).lower()
    if name not in _SCHEDULERS:
        raise UserError(f"scheduler.name={name!r}: expected one of {', '.join(_SCHEDULERS)}")
    if name == "none":
        return {"optimizer": optimizer}
    scheduler: LRScheduler
    if name == "step":
        milestones, interval = _required(cfg, "scheduler.lr_decay_steps"), "epoch"
        scheduler = MultiStepLR(optimizer, list(milestones))
    else:
        interval = OmegaConf.select(cfg, "scheduler.interval", default="step")
        scheduler = _build_warmup_cosine(cfg, optimizer, total_steps, interval)
    return {
        "optimizer": optimizer,
        "lr_scheduler": {"scheduler": scheduler, "interval": interval, "frequency": 1},
    }


def _build_warmup_cosine(cfg: DictConfig, optimizer: Optimizer, total_steps: int, interval: str) -> WarmupCosine:
    if interval not in ("step", "epoch"):
        raise UserError(f"scheduler.interval={interval!r}: expected step or epoch")
    epochs = int(_required(cfg, "max_epochs"))
    warmup = OmegaConf.select(cfg, "scheduler.warmup_epochs", default=10)
    start_lr = OmegaConf.select(cfg, "scheduler.warmup_start_lr", default=3e-5) * _accumulation(cfg)
    by_step = interval == "step"
    return WarmupCosine(
        optimizer,
        warmup=warmup * (total_steps / epochs) if by_step else warmup,
        total=total_steps if by_step else epochs,
        start_lr=start_lr if warmup > 0 else scaled_lr(cfg).lr,
        min_lr=OmegaConf.select(cfg, "scheduler.min_lr", default=0.0) * _accumulation(cfg),
    )


def _build_lars(groups: list[dict[str, Any]], kwargs: dict[str, Any], shared: dict[str, Any]) -> Optimizer:
    arguments = dict(kwargs)
    adaptive = {
        "trust_coeff": arguments.pop("eta"),
        "trust_clip": arguments.pop("clip_lr"),
        # timm adapts only groups with weight decay unless told so; solo-learn adapts the classifier as well.
        "always_adapt": True,
    }
    if arguments.pop("exclude_bias_n_norm"):
        # solo-learn applies weight decay inside the adapted branch only: biases and norms get neither.
        plain = {"weight_decay": 0.0, "always_adapt": False}
        groups = _split(groups, lambda p: p.ndim == 1, "not_adapted", plain)
    return Lars(groups, **shared, **adaptive, **arguments)


def _split(
    groups: list[dict[str, Any]], is_special: Callable[[Tensor], bool], suffix: str, settings: dict[str, Any]
) -> list[dict[str, Any]]:
    """Move the special parameters of each group into a group of their own, with other settings."""
    split = []
    for group in groups:
        special = [p for p in group["params"] if is_special(p)]
        common = [p for p in group["params"] if not is_special(p)]
        if common:
            split.append({**group, "params": common})
        if special:
            split.append({**group, **settings, "params": special, "name": f"{group['name']}_{suffix}"})
    return split


def _tensors(parameters: Iterable[Tensor | tuple[str, Tensor]]) -> list[Tensor]:
    # PyTorch before 2.6 takes no names.
    return [entry[1] if isinstance(entry, tuple) else entry for entry in parameters]


def _optimizer_kwargs(cfg: DictConfig) -> dict[str, Any]:
    kwargs = OmegaConf.select(cfg, "optimizer.kwargs")
    return {} if kwargs is None else OmegaConf.to_container(kwargs, resolve=True)  # type: ignore[return-value]


def _accumulation(cfg: DictConfig) -> int:
    return int(OmegaConf.select(cfg, "accumulate_grad_batches") or 1)


def _required(cfg: DictConfig, key: str) -> Any:
    value = OmegaConf.select(cfg, key)
    if value is None:
        raise UserError(f"{key} is not set: add it to the configuration or give {key}=VALUE")
    return value
