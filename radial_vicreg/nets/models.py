"""Backbones with solo-learn's architectures, parameter names and initial weights, and VICReg's projector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import timm
import torch
import torchvision
from torch import Tensor, nn

from radial_vicreg.config import RunConfig
from radial_vicreg.config.lookups import unknown_backbone
from radial_vicreg.errors import UserError, did_you_mean, reason_of
from radial_vicreg.names.networks import RESNETS, VISION_TRANSFORMERS
from radial_vicreg.runtime.random_state import own_random_numbers

# Arguments of timm and torchvision that read files. A configuration from an untrusted checkpoint must not name any.
_READ_FILES = {"checkpoint_path", "pretrained", "pretrained_cfg", "pretrained_cfg_overlay", "cache_dir", "weights"}
_RESNETS = {name: getattr(torchvision.models, name) for name in RESNETS}

FIXED_SIZE = ("vit", "swin")
"""Name prefixes of backbones that take images of a single size."""

_TIMM = "timm:"


def timm_architecture(name: str) -> str | None:
    """Look up timm's name of a backbone.

    Args:
        name: value of ``backbone.name``.

    Returns:
        The name in timm; None for torchvision's ResNets and for names that are not in
        :mod:`radial_vicreg.names.networks`.
    """
    return name.removeprefix(_TIMM) if name.startswith(_TIMM) else VISION_TRANSFORMERS.get(name)


def is_embedded(name: str) -> bool:
    """Return whether the embedded host has a backbone of this name, as far as can be seen from it."""
    return name in _RESNETS or timm_architecture(name) is not None


def build_backbone(config: RunConfig) -> tuple[nn.Module, int]:
    """Build the backbone of a configuration, without a classification head.

    With the same torch seed, the weights are those of solo-learn's backbone, bit for bit.

    Args:
        config: its ``backbone`` and its stem are read.

    Returns:
        The module, which maps images ``(N, 3, H, W)`` to features ``(N, F)``, and ``F``.

    Raises:
        UserError: unknown name, or arguments that the architecture does not take.
    """
    name, arguments = config.backbone.name, config.backbone.arguments()
    refuse_file_arguments(arguments)
    architecture = timm_architecture(name)
    if name not in _RESNETS and architecture is None:
        raise unknown_backbone(name)
    if architecture is not None and not timm.is_model(architecture):
        known = [f"{_TIMM}{model}" for model in timm.list_models()]
        raise UserError(f"unknown backbone.name {name!r}: {did_you_mean(name, known, what='timm has')}")
    try:
        if architecture is None:
            return _build_resnet(name, arguments, config.has_small_stem)
        model: Any = timm.create_model(architecture, pretrained=False, num_classes=0, **arguments)
    except Exception as error:  # TypeError for an unknown argument; for a bad value, anything
        raise UserError(f"backbone.kwargs={arguments} do not fit {name}: {reason_of(error)}") from error
    return model, int(getattr(model, "head_hidden_size", model.num_features))  # some have a layer after the pooling


def check_backbone(config: RunConfig) -> None:
    """Pass images on the meta device through the backbone, so that a bad shape is found before a file is written.

    Args:
        config: its ``backbone`` and the size of its crops are read. A backbone that only another host has is not
            checked.

    Raises:
        UserError: the network does not take such images.
    """
    arguments = config.backbone.arguments()
    name = config.backbone.name
    if (name in _RESNETS and not arguments) or not is_embedded(name):
        return  # a plain ResNet takes any size; a host names the backbones that it has
    with own_random_numbers(config.seed):
        backbone = build_backbone(config)[0].to("meta")  # timm before 1.0.21 cannot build a ViT there
    check_crops(backbone, config)


def check_crops(backbone: nn.Module, config: RunConfig) -> None:
    """Pass images of every crop's size through a backbone.

    Args:
        backbone: on PyTorch's meta device, so that nothing is computed.
        config: its ``augmentations`` are read.

    Raises:
        UserError: the network does not take such images.
    """
    name, arguments = config.backbone.name, config.backbone.arguments()
    for index, augmentation in enumerate(config.augmentations):
        size = augmentation.crop_size
        try:
            backbone(torch.zeros(2, 3, size, size, device="meta"))
        except Exception as error:  # torchvision and timm raise errors of many types
            hint = "; +backbone.kwargs.dynamic_img_size=true lets a transformer accept several sizes" if index else ""
            if not index and name.startswith(FIXED_SIZE) and "img_size" not in arguments:
                hint = f"; set +backbone.kwargs.img_size={size}, or choose another crop_size"
            raise UserError(
                f"backbone.name={name} with backbone.kwargs={arguments} does not accept images of {size} pixels "
                f"(augmentations.{index}.crop_size): {reason_of(error)}{hint}"
            ) from error


def build_projector(features_dim: int, hidden_dim: int, output_dim: int) -> nn.Sequential:
    """Build VICReg's three-layer projector.

    Args:
        features_dim: input width.
        hidden_dim: width of both hidden layers.
        output_dim: width d of the embeddings.

    Returns:
        Linear, BatchNorm, ReLU, twice, and a last linear layer.
    """
    return nn.Sequential(
        nn.Linear(features_dim, hidden_dim),
        nn.BatchNorm1d(hidden_dim),
        nn.ReLU(),
        nn.Linear(hidden_dim, hidden_dim),
        nn.BatchNorm1d(hidden_dim),
        nn.ReLU(),
        nn.Linear(hidden_dim, output_dim),
    )


class Encoder(nn.Module):
    """Backbone and projector of a run, without classifier and objective.

    Args:
        backbone: maps images ``(N, 3, H, W)`` to features ``(N, F)``.
        projector: maps features to embeddings ``(N, d)``.
    """

    def __init__(self, backbone: nn.Module, projector: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone
        self.projector = projector

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        """Compute ``feats`` ``(N, F)`` and ``z`` ``(N, d)``."""
        feats = self.backbone(images)
        return {"feats": feats, "z": self.projector(feats)}


def build_encoder(config: RunConfig) -> Encoder:
    """Build backbone and projector of a configuration, with random weights.

    Raises:
        UserError: as for :func:`build_backbone`.
    """
    backbone, width = build_backbone(config)
    sizes = config.method_kwargs
    return Encoder(backbone, build_projector(width, sizes.proj_hidden_dim, sizes.proj_output_dim))


def refuse_file_arguments(arguments: Mapping[str, Any]) -> None:
    """Refuse arguments of a backbone that load weights from a file or a server.

    Args:
        arguments: ``backbone.kwargs``, from the user or from a downloaded checkpoint or card.

    Raises:
        UserError: there is such an argument.
    """
    refused = sorted(_READ_FILES & arguments.keys())
    if refused:
        raise UserError(
            f"backbone.kwargs.{refused[0]} would load weights from another source, which may run code: omit it"
        )


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


def _build_resnet(name: str, arguments: Mapping[str, Any], small_stem: bool) -> tuple[nn.Module, int]:
    # The head and the large stem are built first and then replaced: they consume random numbers, and the
    # weights that solo-learn samples later follow them.
    resnet = _RESNETS[name](**arguments)
    num_features = resnet.fc.in_features
    resnet.fc = nn.Identity()
    if small_stem:
        apply_small_stem(resnet)
    return resnet, num_features
