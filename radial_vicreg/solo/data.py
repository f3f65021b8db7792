"""solo-learn's configuration rules and training pipeline, for ``radial-vicreg pretrain``."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Iterable
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict
from solo.args.pretrain import parse_cfg
from solo.data.pretrain_dataloader import FullTransformPipeline, NCropAugmentation, build_transform_pipeline
from solo.methods.base import BaseMethod
from torch.utils.data import Dataset

from radial_vicreg.data.datasets import build_train_dataset as build_standalone_dataset
from radial_vicreg.data.datasets import num_classes
from radial_vicreg.errors import UserError
from radial_vicreg.optim import process_count
from radial_vicreg.secrets import without_secrets


def solo_config(cfg: DictConfig) -> DictConfig:
    """The configuration as solo-learn's own script would hand it to the method: defaults filled in, rates scaled.

    Args:
        cfg: configuration as written; not changed.

    Returns:
        A completed copy.

    Raises:
        UserError: solo-learn's checks refuse the configuration.
    """
    if cfg.backbone.name not in BaseMethod._BACKBONES:
        known = sorted(BaseMethod._BACKBONES)
        near = difflib.get_close_matches(str(cfg.backbone.name), known, n=1, cutoff=0.0)[0]
        raise UserError(
            f"unknown backbone.name {cfg.backbone.name!r}: solo-learn has {', '.join(known)} (nearest: {near})"
        )
    completed = copy.deepcopy(cfg)
    OmegaConf.set_struct(completed, False)
    devices = completed.devices
    # It scales by len(devices), whatever the type; a number of processes has no length.
    completed.devices = list(range(process_count(cfg)))
    if cfg.data.dataset == "celeba":  # not one of its names
        completed.data.dataset = "custom"
    try:
        completed = parse_cfg(completed)
    except AssertionError as error:
        raise UserError(f"solo-learn refuses this configuration: {error or 'an assertion without a text'}") from error
    completed.devices = devices
    completed.data.dataset = cfg.data.dataset
    completed.data.num_classes = num_classes(completed)  # parse_cfg has counted hidden folders
    return completed


def configured_rates(cfg: DictConfig) -> dict[str, Any]:
    """Undoes solo-learn's scaling of the rates, so that results carry the configuration as it was written.

    Args:
        cfg: configuration after solo-learn's ``parse_cfg``.

    Returns:
        The resolved configuration with ``optimizer.lr`` and ``classifier_lr`` as in the YAML.
    """
    unscaled = copy.deepcopy(cfg)
    with open_dict(unscaled):
        devices = cfg.devices
        processes = len(devices) if not isinstance(devices, int) else devices
        scale = cfg.optimizer.batch_size * processes * cfg.get("num_nodes", 1) / 256
        unscaled.optimizer.lr = _rounded(cfg.optimizer.lr / scale)
        if cfg.data.get("val_path") is not None:
            unscaled.optimizer.classifier_lr = _rounded(cfg.optimizer.classifier_lr / scale)
    return OmegaConf.to_container(unscaled, resolve=True)  # type: ignore[return-value]


def resolve_in_place(cfg: DictConfig) -> None:
    """Replace interpolations by their values: solo-learn copies its configuration unresolved to W&B and ``args.json``.

    Args:
        cfg: configuration; changed in place. An interpolation that holds a secret of the environment stays one.
    """
    _resolve(cfg, list(cfg))


def build_train_dataset(cfg: DictConfig) -> Dataset[Any]:
    """solo-learn's augmentations on images that this package reads.

    Order and subsets (``data.fraction``) are those of solo-learn's own data sets; a bad file is named, or left out
    (``data.on_bad_image``), and CelebA, which solo-learn cannot read, comes with its attributes.

    Args:
        cfg: completed configuration (:func:`solo_config`).

    Returns:
        Yields (index, crops, target).
    """
    transform = FullTransformPipeline(
        [
            NCropAugmentation(build_transform_pipeline(cfg.data.dataset, augmentation), augmentation.num_crops)
            for augmentation in cfg.augmentations
        ]
    )
    return build_standalone_dataset(cfg, transform)


def _rounded(rate: float) -> float:
    return float(f"{rate:.12g}")  # 0.15 / 0.5 and 0.3 shall be one number


def _resolve(node: Any, keys: Iterable[Any]) -> None:
    for key in keys:
        if OmegaConf.is_missing(node, key):
            continue
        if not OmegaConf.is_interpolation(node, key):
            if OmegaConf.is_config(node[key]):
                _resolve(node[key], range(len(node[key])) if OmegaConf.is_list(node[key]) else list(node[key]))
            continue
        value = OmegaConf.to_container(node[key], resolve=True) if OmegaConf.is_config(node[key]) else node[key]
        if without_secrets(value) == value:
            node[key] = value
