"""solo-learn's configuration rules and training pipeline, for ``radial-vicreg pretrain``."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict
from solo.args.pretrain import parse_cfg
from solo.data.pretrain_dataloader import FullTransformPipeline, NCropAugmentation, build_transform_pipeline

from radial_vicreg.compose import run_config
from radial_vicreg.config import RunConfig
from radial_vicreg.data.build import RunData
from radial_vicreg.errors import UserError, reason_of
from radial_vicreg.io.secrets import without_secrets
from radial_vicreg.names.data_sets import facts_of
from radial_vicreg.solo.parts import check_backbone_name


def solo_config(config: RunConfig, data: RunData) -> DictConfig:
    """Complete a configuration as solo-learn's script does before it builds the method: defaults, scaled rates.

    Args:
        config: configuration of ``radial-vicreg pretrain``.
        data: images of the run.

    Returns:
        The configuration in solo-learn's form.

    Raises:
        UserError: solo-learn's checks refuse the configuration.
    """
    check_backbone_name(config.backbone.name)
    cfg: DictConfig = OmegaConf.create(config.plain())
    devices = cfg.devices
    # solo-learn scales by len(devices) times num_nodes, so devices must be a list.
    cfg.devices, cfg.num_nodes = list(range(config.local_processes)), config.nodes
    if not facts_of(config.data.dataset).script_formats:  # this package reads the images
        cfg.data.dataset = "custom"
    try:
        cfg = parse_cfg(cfg)
    except AssertionError as error:
        raise UserError(
            f"solo-learn rejects this configuration: {reason_of(error)}; host=standalone does not use solo-learn"
        ) from error
    cfg.devices = devices
    cfg.data.dataset = config.data.dataset
    cfg.data.num_classes = data.num_classes  # parse_cfg has counted hidden folders
    return cfg


def script_config(cfg: DictConfig, ignored: Collection[str] = ()) -> RunConfig:
    """Read the configuration of solo-learn's script, with the rates as they were written.

    Args:
        cfg: configuration after solo-learn's ``parse_cfg``.
        ignored: keys of ``method_kwargs`` that the base class reads.

    Returns:
        The configuration.

    Raises:
        UserError: a misspelt key or a bad value.
    """
    return run_config(cfg, "script", rates=_rates_as_written(cfg), ignored=ignored)


def configured_rates(cfg: DictConfig) -> dict[str, object]:
    """Undo solo-learn's scaling of the rates, so that results carry the configuration as it was written.

    Args:
        cfg: configuration after solo-learn's ``parse_cfg``.

    Returns:
        The resolved configuration with ``optimizer.lr`` and ``classifier_lr`` as in the YAML.
    """
    unscaled = copy.deepcopy(cfg)
    with open_dict(unscaled):
        unscaled.optimizer.update(_rates_as_written(cfg))
    return OmegaConf.to_container(unscaled, resolve=True)  # type: ignore[return-value]


def _rates_as_written(cfg: DictConfig) -> dict[str, float]:
    # The factor of parse_cfg; refuse_devices refuses devices that solo-learn and Lightning count differently.
    devices = cfg.devices if isinstance(cfg.devices, int) else len(cfg.devices)
    scale = cfg.optimizer.batch_size * max(devices, 1) * cfg.get("num_nodes", 1) / 256
    rates = {"lr": _rounded(cfg.optimizer.lr / scale)}
    if cfg.data.get("val_path") is not None:
        rates["classifier_lr"] = _rounded(cfg.optimizer.classifier_lr / scale)
    return rates


def resolve_in_place(cfg: DictConfig) -> None:
    """Replace interpolations by values, since solo-learn copies its configuration unchanged to W&B and ``args.json``.

    Args:
        cfg: configuration; changed in place. An interpolation that reads a secret of the environment is kept.
    """
    _resolve(cfg, list(cfg))


def solo_augmentations(cfg: DictConfig) -> FullTransformPipeline:
    """Build solo-learn's own augmentations, for images that this package reads.

    Order and subsets (``data.fraction``) of the images are those of solo-learn. A bad file is reported or skipped
    (``data.on_bad_image``). CelebA, which solo-learn cannot read, has its attributes.

    Args:
        cfg: configuration from :func:`solo_config`.

    Returns:
        A pipeline that maps an RGB image to a list of crops.
    """
    return FullTransformPipeline(
        [
            NCropAugmentation(build_transform_pipeline(cfg.data.dataset, augmentation), augmentation.num_crops)
            for augmentation in cfg.augmentations
        ]
    )


def _rounded(rate: float) -> float:
    return float(f"{rate:.12g}")  # so that 0.15 / 0.5 equals 0.3


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
