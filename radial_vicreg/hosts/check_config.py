"""Checks a configuration before anything is built or written: types, ranges, unknown keys, secrets."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.strategies import StrategyRegistry
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from radial_vicreg.errors import UserError
from radial_vicreg.hosts.config_rules import (
    AUGMENTATION_RULES,
    REQUIRED,
    RULES,
    SECTIONS,
    Rule,
    defaults,
    known_keys,
    top_level_keys,
)
from radial_vicreg.models import BACKBONES, build_backbone
from radial_vicreg.optim import check_optimizer, process_count
from radial_vicreg.secrets import refuse_secrets
from radial_vicreg.solo.limits import refuse_impossible

_OWN_NAMES_CUTOFF = 0.8  # a helper value for ${...} may have any name that is not nearly one of ours
_VIEWS = 2

PRETRAIN_ONLY: dict[str, tuple[Any, ...]] = {
    "data.on_bad_image": ("error",),
    "data.cache": (None, "none"),
    "data.format": ("image_folder", "h5", "dali"),
    "host": ("auto",),
    "runs_dir": ("runs",),
    "ckpt": (None,),
    "loggers.csv": (True,),
    "loggers.tensorboard": (False,),
    "probes.frozen_linear": (False,),
}
"""Keys that only ``radial-vicreg pretrain`` reads, with the values under which solo-learn's script does the same."""

_OWN_SECTIONS = ("diagnostics", "probes", "loggers")
_OWN_KEYS = {
    "data": ("on_bad_image", "cache", "multi_label")
}  # in a section of solo-learn's, which may hold anything else


def check_config(cfg: DictConfig) -> DictConfig:
    """Check what ``radial-vicreg pretrain`` is about to run, on either host.

    Args:
        cfg: composed configuration; not changed.

    Returns:
        A copy, open for new keys, without sections that are null, and with the defaults of ``yaml/shared/base.yaml``
        for device, logging and checkpoints where a configuration of one's own lacks them.

    Raises:
        ValueError: a missing or unknown key (the nearest known one is named), a value of the wrong type or out of
            range, a key that holds a password, a network that does not take the images.
    """
    cfg = _completed(cfg)
    for section in SECTIONS:  # before anything is resolved: the name of a run refers to most of them
        if not OmegaConf.is_dict(OmegaConf.select(cfg, section)):
            raise UserError(f"{section} must be a section with keys of its own, got {cfg.get(section)!r}")
    config = _plain(cfg)
    refuse_secrets(config)
    _check_keys(config)
    for key in REQUIRED:
        if OmegaConf.select(cfg, key) is None:
            raise UserError(f"{key} is not set: add it to the configuration or give {key}=VALUE")
    _check_values(config, RULES)
    _check_augmentations(config.get("augmentations"))
    if config["data"].get("multi_label") and config["data"]["dataset"] != "celeba":
        raise UserError("data.multi_label=true needs data.dataset=celeba: other data sets have one class an image")
    if config.get("strategy") not in (known_strategies := ("auto", *StrategyRegistry.available_strategies())):
        raise UserError(f"strategy must be one of {', '.join(known_strategies)}, got {config.get('strategy')!r}")
    process_count(cfg)
    _refuse_solo_only(cfg)
    _check_network(cfg)
    return cfg


def refuse_pretrain_only(cfg: DictConfig) -> None:
    """Refuse, under solo-learn's own script, what it would ignore.

    Args:
        cfg: the configuration of solo-learn's script.

    Raises:
        ValueError: a setting that only ``radial-vicreg pretrain`` reads is not at its default, a misspelt key or a bad
            value in one of our sections, a name that would lead out of the folder of the checkpoints, a key that holds
            a password, keys of another optimizer, or what solo-learn's script cannot do
            (:func:`radial_vicreg.solo.limits.refuse_impossible`).
    """
    config = _plain(cfg)
    refuse_secrets(config)
    _check_own_sections(config)
    _check_values(config, {"name": RULES["name"]})
    for key, allowed in PRETRAIN_ONLY.items():
        value = OmegaConf.select(cfg, key, default=allowed[0])
        if value not in allowed:
            raise UserError(
                f"{key}={value} is read by `radial-vicreg pretrain` only, and solo-learn's script would ignore it: use"
                f" that command, or {key}={'null' if allowed[0] is None else str(allowed[0]).lower()}"
            )
    check_optimizer(cfg)
    refuse_impossible(cfg)


def unknown_key(key: str, known: Iterable[str], section: str = "") -> UserError:
    """The error for a key that nothing reads; the nearest known one is named.

    Args:
        key: what was given.
        known: what is read.
        section: where, with a dot at its end.
    """
    names = sorted(set(known))
    near = difflib.get_close_matches(key, names, n=1)
    hint = f"did you mean {section}{near[0]}?" if near else f"known keys: {', '.join(names)}"
    return UserError(f"{section}{key} is not a setting; {hint}")


def _refuse_solo_only(cfg: DictConfig) -> None:
    """Refuse what only solo-learn's script reads, and `radial-vicreg pretrain` would ignore."""
    if (checkpoint := OmegaConf.select(cfg, "resume_from_checkpoint")) is not None:
        raise UserError(
            f"resume_from_checkpoint={checkpoint} is read by solo-learn's script only: here, ckpt={checkpoint} goes on"
            " from a checkpoint"
        )
    if OmegaConf.select(cfg, "knn_eval.enabled", default=False):
        raise UserError("knn_eval is solo-learn's script's: here, probes.encoder_knn=true is the kNN after validations")


def _completed(cfg: DictConfig) -> DictConfig:
    given = cfg.copy()
    OmegaConf.set_struct(given, False)
    for key in known_keys():
        if key in given and not OmegaConf.is_missing(given, key) and given[key] is None:
            del given[key]
    for key, value in defaults().items():
        if key not in given:
            given[key] = value
        elif isinstance(value, dict) and OmegaConf.is_dict(given[key]):
            given[key] = OmegaConf.merge(value, given[key])
    return given


def _check_own_sections(config: Mapping[Any, Any]) -> None:
    """Refuse what would pass silently, since solo-learn's script takes any key: misspelt sections, keys and values."""
    trainer = inspect.signature(pl.Trainer.__init__).parameters
    sections = known_keys()
    own = (*_OWN_SECTIONS, "runs_dir")  # not host, lock and ckpt: too many words are near those
    _refuse_misspelt(config, own, {*top_level_keys(), *trainer})
    for section in _OWN_SECTIONS:
        _check_section(config, section, sections[section])
    for section, keys in _OWN_KEYS.items():
        _refuse_misspelt(config.get(section) or {}, keys, sections[section], f"{section}.")
    theirs = tuple(f"{section}." for section in _OWN_SECTIONS)
    _check_values(config, {key: rule for key, rule in RULES.items() if key.startswith(theirs)})


def _refuse_misspelt(content: Mapping[Any, Any], own: Iterable[str], known: Iterable[str], section: str = "") -> None:
    """Refuse a key that nothing reads when it is nearly one of ours; any other is the user's own."""
    for key in content:
        if str(key) not in known and difflib.get_close_matches(str(key), own, n=1, cutoff=_OWN_NAMES_CUTOFF):
            raise unknown_key(str(key), own, section)


def _check_keys(config: Mapping[Any, Any]) -> None:
    trainer = inspect.signature(pl.Trainer.__init__).parameters
    known = {*top_level_keys(), *trainer}
    _refuse_misspelt(config, known, known)
    for section, keys in known_keys().items():
        _check_section(config, section, keys)


def _check_section(config: Mapping[Any, Any], section: str, keys: Iterable[str]) -> None:
    content = config.get(section)
    if content is not None and not isinstance(content, dict):
        raise UserError(f"{section} must be a section with keys of its own, got {content!r}")
    for key in content or {}:
        if str(key) not in keys:
            raise unknown_key(str(key), keys, f"{section}.")


def _check_values(config: Mapping[Any, Any], rules: Mapping[str, Rule], prefix: str = "") -> None:
    for dotted, rule in rules.items():
        *sections, key = dotted.split(".")
        node: Any = config
        for section in sections:
            node = node.get(section) if node else None
            if node is not None and not isinstance(node, dict):
                raise UserError(f"{prefix}{section} must be a section with keys of its own, got {_short(node)}")
        if node and key in node and not rule.accepts(node[key]):
            raise UserError(f"{prefix}{dotted} must be {rule.expected}, got {_short(node[key])}")


def _check_augmentations(entries: Any) -> None:
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise UserError(
            f"augmentations must be a list of pipelines, see yaml/shared/augmentation; got {_short(entries)}"
        )
    operations: dict[str, set[str]] = {}
    for dotted in AUGMENTATION_RULES:
        operation, _, key = dotted.partition(".")
        operations.setdefault(operation, set()).update({key} if key else ())
    for index, entry in enumerate(entries):
        prefix = f"augmentations.{index}."
        for key, content in entry.items():
            if str(key) not in operations:
                raise unknown_key(str(key), operations, prefix)
            for inner in content if isinstance(content, dict) else ():
                if str(inner) not in operations[key]:
                    raise unknown_key(str(inner), operations[key], f"{prefix}{key}.")
        _check_values(entry, AUGMENTATION_RULES, prefix)
        _check_complete(entry, prefix)
    crops = sum(entry["num_crops"] for entry in entries)
    if crops != _VIEWS or len({entry["crop_size"] for entry in entries}) > 1:
        raise UserError(
            f"augmentations must give {_VIEWS} crops of one size, the two views that are compared; got {crops} of"
            f" {', '.join(str(entry['crop_size']) for entry in entries)} pixels: correct num_crops and crop_size"
        )


def _check_complete(entry: Mapping[str, Any], prefix: str) -> None:
    needed = ["crop_size", "num_crops"]
    if (entry.get("rrc") or {}).get("enabled"):
        needed += ["rrc.crop_min_scale", "rrc.crop_max_scale"]
    if (entry.get("color_jitter") or {}).get("prob"):
        needed += [f"color_jitter.{name}" for name in ("brightness", "contrast", "saturation", "hue")]
    for key in needed:
        operation, _, inner = key.partition(".")
        if (entry[operation].get(inner) if inner else entry.get(key)) is None:
            raise UserError(f"{prefix}{key} is not set: add it to the configuration or give {prefix}{key}=VALUE")
    scale = entry.get("rrc") or {}
    if scale.get("enabled") and scale["crop_min_scale"] > scale["crop_max_scale"]:
        raise UserError(
            f"{prefix}rrc.crop_min_scale must not be above crop_max_scale, got {scale['crop_min_scale']} and"
            f" {scale['crop_max_scale']}"
        )


def _check_network(cfg: DictConfig) -> None:
    """Passes images without pixels through the backbone: a shape that does not fit shows before a file is written."""
    kwargs: Any = cfg.backbone.get("kwargs") or {}
    if cfg.backbone.name not in BACKBONES or (cfg.backbone.name.startswith("resnet") and not kwargs):
        return  # the host names the backbones that it has; a plain ResNet takes any size
    size = cfg.augmentations[0].crop_size
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        backbone, _ = build_backbone(cfg)
        try:
            backbone(torch.zeros(2, 3, size, size))
        except Exception as error:  # torchvision and timm assert, divide and index in their own ways
            raise UserError(
                f"backbone.name={cfg.backbone.name} with backbone.kwargs={kwargs} does not take images of {size} pixels"
                f" (augmentations.0.crop_size): {' '.join(str(error).split())}"
            ) from error


def _plain(cfg: DictConfig) -> dict[Any, Any]:
    try:
        plain: dict[Any, Any] = OmegaConf.to_container(cfg, resolve=True)  # type: ignore[assignment]
    except OmegaConfBaseException as error:
        raise UserError(f"a value of the configuration cannot be resolved: {error}") from error
    return plain


def _short(value: Any, limit: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}..."
