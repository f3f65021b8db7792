"""Rules for combinations of keys, under ``radial-vicreg pretrain``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from radial_vicreg.config.schema import RunConfig
from radial_vicreg.config.sections import AugmentationConfig, ColorJitter, Operation
from radial_vicreg.errors import UserError
from radial_vicreg.names.data_sets import DATA_SETS, facts_of
from radial_vicreg.names.terms import LOSS_DEFAULTS, METHODS, RADIAL_OBJECTIVES

_FEWEST_VIEWS = 2
_UNSUPPORTED = {
    "strategy": (
        ("fsdp", "deepspeed", "xla", "single_xla", "single_tpu", "tpu", "hpu", "single_hpu", "model_parallel"),
        "optimizers, probes and checkpoints need the whole network on each process, and only CPUs and CUDA GPUs "
        "are supported:"
        " use strategy=ddp (or another of Lightning's ddp strategies) for several processes, auto for one",
    ),
    "accelerator": (
        ("mps", "tpu", "xla", "hpu", "ipu"),
        "only CPUs and CUDA GPUs are tested: use accelerator=auto, gpu or cpu",
    ),
    "precision": (
        ("transformer-engine",),
        "Transformer Engine replaces layers by its own layers, whose weights probes and exports cannot read: use"
        " precision=bf16-mixed, 16-mixed, 32 or auto",
    ),
}
"""Choices of Lightning that are refused, by the beginning of their names; the reason, and the alternative."""
_STRENGTHS = tuple(name for name in ColorJitter.model_fields if name not in Operation.model_fields)


def refuse_unsupported(content: Mapping[str, Any]) -> None:
    """Refuse Lightning's strategies, accelerators and precisions under which no run has ever worked.

    Args:
        content: plain containers of a configuration.

    Raises:
        UserError: one is given; the message names the reason and the supported ones.
    """
    for key, (_, why) in _UNSUPPORTED.items():
        value = content.get(key)
        if is_unsupported(key, value):
            raise UserError(f"{key}={value} is not supported: {why}")


def is_unsupported(key: str, value: Any) -> bool:
    """Return whether a value of ``strategy``, ``accelerator`` or ``precision`` is one of those that are refused."""
    return isinstance(value, str) and value.lower().startswith(_UNSUPPORTED[key][0])


def check_rules(config: RunConfig) -> None:
    """Refuse combinations of keys that are invalid, although each key is valid.

    Args:
        config: of ``radial-vicreg pretrain``.

    Raises:
        UserError: a method without its loss or with another's, an operation without its strengths, fewer than two
            crops, small crops before large ones, attributes of a data set that has classes, or classes of one that has
            attributes.
    """
    _check_method(config)
    for index, augmentation in enumerate(config.augmentations):
        _check_complete(augmentation, f"augmentations.{index}.")
    _check_views(config)
    _check_labels(config)


def _check_labels(config: RunConfig) -> None:
    dataset, multi_label = config.data.dataset, config.data.multi_label
    if multi_label == facts_of(dataset).has_attributes:
        return
    if multi_label:
        known = " or ".join(name for name, facts in DATA_SETS.items() if facts.has_attributes)
        raise UserError(f"data.multi_label=true needs data.dataset={known}: other data sets have one class per image")
    raise UserError(f"data.dataset={dataset} has attributes instead of classes: set data.multi_label=true")


def _check_method(config: RunConfig) -> None:
    if config.loss is None:
        if config.method not in METHODS:
            raise UserError(
                f"method={config.method} needs a loss: radialvicreg/method={config.method} sets one if there is "
                "such a group, radialvicreg/method=own accepts loss._target_=my.module.Loss; without a loss, "
                "method must be"
                f" {' or '.join(METHODS)}"
            )
        if config.loss_views != "pair":
            raise UserError(f"loss_views applies only to a custom loss: method={config.method} always uses every view")
        return
    if config.method in RADIAL_OBJECTIVES:
        raise UserError(f"method={config.method} is the name of a radial objective: choose another name")
    if config.method in METHODS:
        raise UserError(
            f"method={config.method} has its own loss: to train with loss._target_={config.loss.target}, choose "
            "another name, method=NAME"
        )
    unread = sorted(config.method_kwargs.model_fields_set & LOSS_DEFAULTS.keys())
    if unread:
        raise UserError(
            f"method_kwargs.{unread[0]} is not read by loss._target_={config.loss.target}: write its arguments in "
            "the section loss"
        )
    if config.loss_views == "pair" and config.views != _FEWEST_VIEWS:
        raise UserError(
            f"loss_views=pair calls the loss with {_FEWEST_VIEWS} views, but augmentations give {config.views}: "
            "correct num_crops, or use loss_views=all"
        )


def _check_views(config: RunConfig) -> None:
    if config.views < _FEWEST_VIEWS:
        raise UserError(f"augmentations must give {_FEWEST_VIEWS} or more crops, got {config.views}: correct num_crops")
    sizes = [augmentation.crop_size for augmentation in config.augmentations]
    if sizes != sorted(sizes, reverse=True):
        raise UserError(
            "augmentations must be ordered from the largest crop_size to the smallest, got "
            f"{', '.join(map(str, sizes))}:"
            " probes and diagnostics use the size of the first one"
        )


def _check_complete(augmentation: AugmentationConfig, prefix: str) -> None:
    crop, jitter = augmentation.rrc, augmentation.color_jitter
    needed: dict[str, float | None] = {}
    if crop.enabled:
        needed |= {"rrc.crop_min_scale": crop.crop_min_scale, "rrc.crop_max_scale": crop.crop_max_scale}
    if jitter.prob:
        needed |= {f"color_jitter.{name}": getattr(jitter, name) for name in _STRENGTHS}
    for key, value in needed.items():
        if value is None:
            raise UserError(f"{prefix}{key} is not set: add it to the configuration or give {prefix}{key}=VALUE")
    if crop.enabled and crop.scale[0] > crop.scale[1]:
        raise UserError(
            f"{prefix}rrc.crop_min_scale must not be above crop_max_scale, got {crop.scale[0]} and {crop.scale[1]}"
        )
