"""What each setting may be: the table behind :func:`radial_vicreg.hosts.check_config.check_config`."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import OmegaConf

from radial_vicreg.data.image import ON_BAD_IMAGE

_BASE = Path(__file__).parents[1] / "yaml" / "shared" / "base.yaml"
_LARGEST_CROP = 4096  # pixels; beyond it the first batch fills any memory
_LARGEST_COUNT = 2**31 - 1
_WIDEST = 2**20  # of the projector's layers
_MOST_WORKERS = 1024  # a slip of the finger must not start a million processes
_PRECISIONS = (
    *("32", "32-true", "64", "64-true", "16", "16-true", "16-mixed", "bf16", "bf16-true", "bf16-mixed"),
    *("transformer-engine", "transformer-engine-float16"),
)


class Rule(NamedTuple):
    """What a value may be.

    Attributes:
        accepts: tells a good value.
        expected: the same in words.
    """

    accepts: Callable[[Any], bool]
    expected: str

    def or_null(self) -> Rule:
        """The same, or no value."""
        return Rule(lambda value: value is None or self.accepts(value), f"{self.expected}, or null")


def whole(low: int, high: int = _LARGEST_COUNT) -> Rule:
    """A whole number."""
    limit = f"{low} or more" if high == _LARGEST_COUNT else f"{low} to {high:,}"
    return Rule(
        lambda v: isinstance(v, int) and not isinstance(v, bool) and low <= v <= high, f"a whole number, {limit}"
    )


def number(low: float, high: float = math.inf, above: bool = False) -> Rule:
    """A finite number from ``low`` (``above``: larger than it) to ``high``."""
    limit = f"{'above ' if above else ''}{low:g}" + (f"{'' if above else ' or more'}" if high == math.inf else "")
    limit += "" if high == math.inf else f" to {high:g}"

    def accepts(value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            return False
        return (low < value if above else low <= value) and value <= high

    return Rule(accepts, f"a finite number, {limit}")


def choice(*values: str) -> Rule:
    """One of some words; numbers among them may be written as such."""
    return Rule(lambda v: not isinstance(v, bool) and str(v) in values, f"one of {', '.join(values)}")


FLAG = Rule(lambda value: isinstance(value, bool), "true or false")
TEXT = Rule(lambda value: isinstance(value, str) and value.strip() != "" and "\0" not in value, "a text")
FILE_NAME = Rule(
    lambda v: (
        isinstance(v, (str, int))
        and str(v) not in ("", ".", "..")
        and not {"/", "\\"} & set(str(v))
        and str(v).isprintable()
    ),
    "a text that can be a file's name, without / and \\",
)
MAPPING = Rule(lambda value: isinstance(value, dict), "a section with keys of its own")
_PROBABILITY = number(0, 1)
_SHARE = number(0, 1, above=True)
_TRIPLE = Rule(
    lambda v: isinstance(v, list) and len(v) == 3 and all(number(-10, 10).accepts(x) for x in v), "three numbers"
)


def _list_of(rule: Rule) -> Rule:
    accepts = rule.accepts
    return Rule(lambda v: isinstance(v, list) and v != [] and all(map(accepts, v)), f"a list, each {rule.expected}")


SECTIONS = ("backbone", "data", "method_kwargs", "optimizer", "scheduler")
"""Sections that must be there."""

REQUIRED = ("method", "name", "backbone.name", "data.dataset", "optimizer.name", "optimizer.batch_size", "max_epochs")

RULES: dict[str, Rule] = {
    "method": TEXT,
    "name": FILE_NAME,
    "seed": whole(0, 2**32 - 1),
    "max_epochs": whole(1),
    "num_nodes": whole(1).or_null(),
    "accumulate_grad_batches": whole(1).or_null(),
    "precision": choice(*_PRECISIONS),
    "sync_batchnorm": FLAG,
    "accelerator": choice("auto", "cpu", "gpu", "cuda"),
    "strategy": TEXT.or_null(),
    "runs_dir": TEXT,
    "ckpt": TEXT.or_null(),
    "lock": choice("take").or_null(),
    "host": TEXT,
    "backbone.name": TEXT,
    "backbone.kwargs": MAPPING.or_null(),
    "data.dataset": TEXT,
    "data.name": TEXT,
    "data.format": TEXT,
    "data.train_path": TEXT.or_null(),
    "data.val_path": TEXT.or_null(),
    "data.num_workers": whole(0, _MOST_WORKERS),
    "data.num_classes": whole(1),
    "data.fraction": number(-1, 1).or_null(),
    "data.no_labels": FLAG,
    "data.multi_label": FLAG,
    "data.on_bad_image": choice(*ON_BAD_IMAGE),
    "optimizer.name": TEXT,
    "optimizer.batch_size": whole(2),  # BatchNorm of one sample is undefined
    "optimizer.lr": number(0),
    "optimizer.classifier_lr": number(0),
    "optimizer.weight_decay": number(0),
    "optimizer.exclude_bias_n_norm_wd": FLAG,
    "optimizer.kwargs": MAPPING.or_null(),
    **{f"optimizer.kwargs.{name}": number(0) for name in ("momentum", "dampening", "eta", "eps")},
    **{
        f"optimizer.kwargs.{name}": FLAG
        for name in ("clip_lr", "exclude_bias_n_norm", "nesterov", "amsgrad", "maximize")
    },
    "optimizer.kwargs.betas": Rule(
        lambda v: isinstance(v, list) and len(v) == 2 and all(number(0, 1).accepts(x) and x < 1 for x in v),
        "two numbers, 0 or more and below 1",
    ),
    "method_kwargs.proj_hidden_dim": whole(1, _WIDEST),
    "method_kwargs.proj_output_dim": whole(1, _WIDEST),
    "scheduler.name": TEXT,
    "scheduler.interval": TEXT,
    "scheduler.warmup_epochs": number(0),
    "scheduler.warmup_start_lr": number(0),
    "scheduler.min_lr": number(0),
    "scheduler.lr_decay_steps": _list_of(whole(0)).or_null(),
    "checkpoint.enabled": FLAG,
    "checkpoint.dir": TEXT,
    "checkpoint.frequency": whole(1),
    "checkpoint.keep_prev": FLAG,
    "resume_from_checkpoint": TEXT.or_null(),
    "auto_resume.enabled": FLAG,
    "dali.encode_indexes_into_labels": FLAG,
    "wandb.enabled": FLAG,
    "wandb.offline": FLAG,
    "wandb.entity": TEXT.or_null(),
    "wandb.project": TEXT.or_null(),
    "loggers.csv": FLAG,
    "loggers.tensorboard": FLAG,
    "diagnostics.enabled": FLAG,
    "diagnostics.every_n_epochs": whole(0),
    "diagnostics.max_images": whole(2),
    "probes.projector_linear": FLAG,
    "probes.encoder_mlp": FLAG,
    "probes.encoder_knn": FLAG,
    "probes.frozen_linear": FLAG,
    "probes.lr": number(0, above=True),
    "probes.mlp_hidden_dim": whole(1),
    "probes.knn_neighbours": _list_of(whole(1)),
    "probes.knn_temperature": number(0, above=True),
    "probes.knn_bank": whole(1),
    "performance.disable_channel_last": FLAG,
}
"""Dotted key to what it may be; keys that are absent are not checked."""

AUGMENTATION_RULES: dict[str, Rule] = {
    "crop_size": whole(1, _LARGEST_CROP),
    "num_crops": whole(1),
    "mean": _TRIPLE,
    "std": _TRIPLE,
    "rrc.enabled": FLAG,
    "rrc.crop_min_scale": _SHARE,
    "rrc.crop_max_scale": _SHARE,
    **{f"color_jitter.{name}": number(0) for name in ("brightness", "contrast", "saturation")},
    "color_jitter.hue": number(0, 0.5),
    **{
        f"{name}.prob": _PROBABILITY
        for name in ("color_jitter", "grayscale", "gaussian_blur", "solarization", "equalization", "horizontal_flip")
    },
}
"""The same for each entry of ``augmentations``."""

_NOT_IN_BASE: dict[str, tuple[str, ...]] = {
    "data": ("name", "format", "num_large_crops", "num_small_crops", "fingerprint"),
    "knn_eval": ("enabled", "k", "distance_func"),
    "auto_umap": ("enabled", "dir", "frequency"),
}
_FILLED_IN = (
    *("seed", "devices", "accelerator", "strategy", "sync_batchnorm", "precision"),
    *("host", "runs_dir", "ckpt", "lock", "checkpoint", "wandb", "loggers"),
)
TOP_LEVEL = ("debug_augmentations", "augment", "augmentations", *_NOT_IN_BASE)


def defaults() -> dict[str, Any]:
    """What ``yaml/shared/base.yaml`` says for keys that a configuration of one's own may lack."""
    return {key: _base()[key] for key in _FILLED_IN}


@lru_cache(maxsize=1)
def _base() -> dict[str, Any]:
    return OmegaConf.to_container(OmegaConf.load(_BASE), resolve=False)  # type: ignore[return-value]


@lru_cache(maxsize=1)
def known_keys() -> dict[str, tuple[str, ...]]:
    """Keys of every section: those of ``yaml/shared/base.yaml``, of the table above, and solo-learn's."""
    found: dict[str, dict[str, None]] = {
        section: dict.fromkeys(content) for section, content in _base().items() if isinstance(content, dict)
    }
    for dotted in RULES:
        section, _, key = dotted.partition(".")
        if key and "." not in key and section != "method_kwargs":  # which has a check of its own
            found.setdefault(section, {})[key] = None
    for section, keys in _NOT_IN_BASE.items():
        found.setdefault(section, {}).update(dict.fromkeys(keys))
    found["scheduler"].update(dict.fromkeys(("name", "lr_decay_steps")))
    del found["hydra"]
    return {section: tuple(keys) for section, keys in found.items()}


@lru_cache(maxsize=1)
def top_level_keys() -> tuple[str, ...]:
    """Keys that are no section's: ours, solo-learn's, and those of Lightning's trainer are added by the caller."""
    return (*_base(), *known_keys(), *(key for key in RULES if "." not in key), *TOP_LEVEL, "method_kwargs")
