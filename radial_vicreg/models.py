"""Backbones with solo-learn's architectures, parameter names and initial weights."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import timm
import torch.nn as nn
import torchvision
from omegaconf import DictConfig, OmegaConf

from radial_vicreg.errors import UserError
from radial_vicreg.keys import SMALL_IMAGE_DATASETS

_VIT_ARCHITECTURES = {
    "vit_tiny": "vit_tiny_patch16_224",
    "vit_small": "vit_small_patch16_224",
    "vit_base": "vit_base_patch16_224",
    "vit_large": "vit_large_patch16_224",
}
# Of timm.create_model and torchvision: a configuration that came with somebody's checkpoint must not name more files.
_READ_FILES = {"checkpoint_path", "pretrained", "pretrained_cfg", "pretrained_cfg_overlay", "cache_dir", "weights"}
_RESNETS = {"resnet18": torchvision.models.resnet18, "resnet50": torchvision.models.resnet50}

TORCHVISION_NAMES = tuple(_RESNETS)
TIMM_NAMES = (*_RESNETS, *_VIT_ARCHITECTURES.values())
"""What an exported backbone may be called in either library."""

BACKBONES = (*_RESNETS, *_VIT_ARCHITECTURES)
"""Names accepted as ``backbone.name``."""


def build_backbone(cfg: DictConfig) -> tuple[nn.Module, int]:
    """Build ``cfg.backbone.name`` with ``cfg.backbone.kwargs``, without a classification head.

    With the same torch seed, the weights are those of solo-learn's backbone, bit for bit.

    Args:
        cfg: configuration in solo-learn's schema.

    Returns:
        The module, images ``(N, 3, H, W)`` to features ``(N, F)``, and ``F``.

    Raises:
        UserError: unknown name, or arguments that the architecture does not take.
    """
    name = str(cfg.backbone.name)
    arguments = _backbone_kwargs(cfg)
    refuse_file_arguments(arguments)
    if name not in BACKBONES:
        nearest = difflib.get_close_matches(name, BACKBONES, n=1, cutoff=0.0)[0]
        raise UserError(f"unknown backbone.name {name!r}: expected one of {', '.join(BACKBONES)} (nearest: {nearest})")
    try:
        if name in _RESNETS:
            return _build_resnet(name, arguments, small_stem=uses_small_stem(cfg))
        vit = timm.create_model(_VIT_ARCHITECTURES[name], pretrained=False, num_classes=0, **arguments)
    except Exception as error:  # TypeError for an unknown argument; for a bad value, anything
        raise UserError(f"backbone.kwargs={arguments} do not fit {name}: {error}") from error
    return vit, int(vit.num_features)  # type: ignore[arg-type]


def refuse_file_arguments(arguments: Mapping[str, Any]) -> None:
    """Refuse arguments of a backbone that load weights from a file or a server.

    Args:
        arguments: ``backbone.kwargs``, of one's own or out of somebody's checkpoint or card.

    Raises:
        UserError: there is one.
    """
    refused = sorted(_READ_FILES & arguments.keys())
    if refused:
        raise UserError(
            f"backbone.kwargs.{refused[0]} would load weights from elsewhere, which may run code: leave it out"
        )


def uses_small_stem(cfg: DictConfig) -> bool:
    """Whether a ResNet gets the small-image stem: ``method_kwargs.small_image_stem``.

    ``auto`` (the default) follows the dataset's name as solo-learn does, so that its ``main_linear.py`` loads
    the checkpoint; true and false override it.

    Args:
        cfg: configuration in solo-learn's schema.

    Returns:
        True for the small stem.

    Raises:
        UserError: another value.
    """
    choice = OmegaConf.select(cfg, "method_kwargs.small_image_stem", default="auto")
    if isinstance(choice, bool):
        return choice
    if str(choice).lower() in ("true", "false"):
        return str(choice).lower() == "true"
    if choice == "auto":
        return cfg.data.dataset in SMALL_IMAGE_DATASETS
    raise UserError(f"method_kwargs.small_image_stem={choice!r}: expected auto, true or false")


def apply_small_stem(resnet: nn.Module) -> nn.Module:
    """Replace a torchvision ResNet's stem, in place, by solo-learn's for small images.

    A 3x3 convolution with stride 1 and padding 2, freshly initialised, and no max-pool.

    Args:
        resnet: a module with ``conv1`` and ``maxpool``.

    Returns:
        The same module.
    """
    resnet.conv1 = nn.Conv2d(3, 64, kernel_size=3, stride=1, padding=2, bias=False)
    resnet.maxpool = nn.Identity()
    return resnet


def _build_resnet(name: str, arguments: dict[str, Any], small_stem: bool) -> tuple[nn.Module, int]:
    # The head and the large stem are built first and then replaced: they consume random numbers, and the
    # weights that solo-learn draws later follow them.
    resnet = _RESNETS[name](**arguments)
    num_features = resnet.fc.in_features
    resnet.fc = nn.Identity()
    if small_stem:
        apply_small_stem(resnet)
    return resnet, num_features


def _backbone_kwargs(cfg: DictConfig) -> dict[str, Any]:
    kwargs = OmegaConf.select(cfg, "backbone.kwargs")
    return {} if kwargs is None else OmegaConf.to_container(kwargs, resolve=True)  # type: ignore[return-value]
