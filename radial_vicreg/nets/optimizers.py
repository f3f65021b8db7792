"""Optimizers and learning-rate schedules following solo-learn's rules, built from PyTorch and timm."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from timm.optim.lars import Lars
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, MultiStepLR

from radial_vicreg.config import RunConfig
from radial_vicreg.config.fields import choices
from radial_vicreg.errors import UserError
from radial_vicreg.names.networks import OPTIMIZER_DEFAULTS
from radial_vicreg.nets.schedule import WarmupCosine

OPTIMIZERS: dict[str, type[Optimizer]] = {
    "sgd": torch.optim.SGD,
    "lars": Lars,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
}
"""The class of each ``optimizer.name``; its arguments are those of its constructor."""

_SET_ELSEWHERE = {"params", "lr", "weight_decay", "trust_coeff", "trust_clip", "always_adapt"}


def build_optimizer(config: RunConfig, parameter_groups: Iterable[Mapping[str, Any]]) -> Optimizer:
    """Build the optimizer of a configuration: sgd, lars, adam or adamw.

    ``lars`` is timm's ``Lars`` with groups chosen so that it takes the steps of solo-learn's LARS. They
    differ only for a parameter whose gradient is exactly zero (timm still decays it), and for one that is
    itself exactly zero while ``clip_lr`` is on and the rate above 1.

    Args:
        config: its ``optimizer`` is read; the rate is scaled here.
        parameter_groups: dicts with ``params`` (tensors or pairs of name and tensor), ``name`` and optional
            ``lr`` and ``weight_decay``.

    Returns:
        The optimizer.

    Raises:
        UserError: unknown name, or arguments that the optimizer does not take.
    """
    name = config.optimizer.name
    _check_choice("optimizer.name", name)
    groups = [{**group, "params": _tensors(group["params"])} for group in parameter_groups]
    if config.optimizer.exclude_bias_n_norm_wd:
        groups = _split(groups, lambda p: p.ndim <= 1, "no_decay", {"weight_decay": 0.0})
    kwargs = {**OPTIMIZER_DEFAULTS[name], **config.optimizer.arguments()}
    shared: dict[str, Any] = {"lr": config.rates.lr, "weight_decay": config.optimizer.weight_decay}
    _check_kwargs(name, kwargs)
    if name == "lars":
        return _build_lars(groups, kwargs, shared)
    return OPTIMIZERS[name](groups, **shared, **kwargs)


def check_optimizer(config: RunConfig) -> None:
    """Check the arguments of an optimizer that this package knows, before anything is built.

    Args:
        config: its ``optimizer`` is read.

    Raises:
        UserError: ``optimizer.kwargs`` has keys of another optimizer, as after ``optimizer.name=...`` alone.
    """
    if config.optimizer.name in OPTIMIZER_DEFAULTS:
        _check_kwargs(config.optimizer.name, config.optimizer.arguments())


def optimizer_arguments(name: str) -> set[str]:
    """List the keys that ``optimizer.kwargs`` may have for an optimizer.

    Args:
        name: value of ``optimizer.name``.
    """
    return {*inspect.signature(OPTIMIZERS[name]).parameters, *OPTIMIZER_DEFAULTS[name]} - _SET_ELSEWHERE


def _check_choice(key: str, given: str) -> None:
    if given not in (known := choices(key)):
        raise UserError(f"{key}={given!r}: expected one of {', '.join(known)}")


def _check_kwargs(name: str, kwargs: Mapping[str, Any]) -> None:
    unknown = [key for key in kwargs if key not in optimizer_arguments(name)]
    if unknown:
        raise UserError(
            f"optimizer.kwargs {', '.join(unknown)} do not fit optimizer.name={name}: exchange the whole group with"
            f" radialvicreg/optimizer={name}, or remove them: {' '.join(f'~optimizer.kwargs.{key}' for key in unknown)}"
        )


def build_scheduler(config: RunConfig, optimizer: Optimizer, total_steps: int) -> dict[str, Any]:
    """Build the schedule of a configuration: warmup_cosine, step or none.

    Args:
        config: its ``scheduler`` and ``max_epochs`` are read.
        optimizer: from :func:`build_optimizer`.
        total_steps: optimizer steps of the whole training (``trainer.estimated_stepping_batches``).

    Returns:
        The dictionary of a LightningModule's ``configure_optimizers``: ``optimizer`` and, unless the scheduler is
        none, ``lr_scheduler`` with its ``scheduler``, ``interval`` and ``frequency``.

    Raises:
        UserError: unknown name or interval, or settings that are missing.
    """
    settings = config.scheduler
    name = (settings.name or "none").lower()
    _check_choice("scheduler.name", name)
    if name == "none":
        return {"optimizer": optimizer}
    scheduler: LRScheduler
    if name == "step":
        if settings.lr_decay_steps is None:
            raise UserError("scheduler.lr_decay_steps is not set: give scheduler.lr_decay_steps=[EPOCH,...]")
        interval = "epoch"
        scheduler = MultiStepLR(optimizer, list(settings.lr_decay_steps))
    else:
        interval = settings.interval
        scheduler = _build_warmup_cosine(config, optimizer, total_steps)
    return {
        "optimizer": optimizer,
        "lr_scheduler": {"scheduler": scheduler, "interval": interval, "frequency": 1},
    }


def _build_warmup_cosine(config: RunConfig, optimizer: Optimizer, total_steps: int) -> WarmupCosine:
    settings, epochs = config.scheduler, config.max_epochs
    if settings.interval not in (known := choices("scheduler.interval")):
        raise UserError(f"scheduler.interval={settings.interval!r}: expected {' or '.join(known)}")
    by_step, warmup = settings.interval == "step", settings.warmup_epochs
    return WarmupCosine(
        optimizer,
        warmup=warmup * (total_steps / epochs) if by_step else warmup,
        total=total_steps if by_step else epochs,
        start_lr=settings.warmup_start_lr * config.accumulation if warmup > 0 else config.rates.lr,
        min_lr=settings.min_lr * config.accumulation,
    )


def _build_lars(groups: list[dict[str, Any]], kwargs: Mapping[str, Any], shared: Mapping[str, Any]) -> Optimizer:
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
    groups: list[dict[str, Any]], is_special: Callable[[Tensor], bool], suffix: str, settings: Mapping[str, object]
) -> list[dict[str, Any]]:
    """Move the special parameters of each group into a separate group with other settings."""
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
    # Names would change the content of checkpoints.
    return [entry[1] if isinstance(entry, tuple) else entry for entry in parameters]
