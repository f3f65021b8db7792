"""Names and defaults shared by configuration and identity, without PyTorch."""

from __future__ import annotations

import re
from collections.abc import Mapping

OPTIMIZER_DEFAULTS: dict[str, dict[str, float | bool | list[float]]] = {
    "sgd": {"momentum": 0.9},
    "lars": {"momentum": 0.9, "eta": 1e-3, "clip_lr": False, "exclude_bias_n_norm": False},
    "adam": {},
    "adamw": {"betas": [0.9, 0.999]},
}
"""Optimizers and solo-learn's defaults of ``optimizer.kwargs``."""

RESNETS = ("resnet18", "resnet50")
"""Backbones from torchvision."""

VISION_TRANSFORMERS = {
    "vit_tiny": "vit_tiny_patch16_224",
    "vit_small": "vit_small_patch16_224",
    "vit_base": "vit_base_patch16_224",
    "vit_large": "vit_large_patch16_224",
}
"""Backbones from timm, with timm's names."""

BACKBONES = (*RESNETS, *VISION_TRANSFORMERS)
"""Values of ``backbone.name`` on both hosts, named as in solo-learn; the embedded host also has ``timm:NAME``."""

SOLO_BACKBONES = (
    *("swin_tiny", "swin_small", "swin_base", "swin_large"),
    *("poolformer_s12", "poolformer_s24", "poolformer_s36", "poolformer_m36", "poolformer_m48"),
    *("convnext_tiny", "convnext_small", "convnext_base", "convnext_large"),
    *("wide_resnet28w2", "wide_resnet28w8"),
)
"""Further backbones of solo-learn; a test compares this list with solo-learn."""

# Families without statistics of a batch, which draw no random numbers unless an argument says so. Hybrids of ResNets
# and transformers have BatchNorm, and those with relative positions have dropout.
_SINGLE_IMAGES = re.compile(
    r"vit_(tiny|small|base|large)|(poolformer|convnext)_[a-z0-9]+"
    r"|timm:(vit_[a-z0-9]+_patch|deit3?_|convnext(v2)?_|beit(v2|3)?_|eva(02)?_).*"
)
_HARMLESS_ARGUMENTS = {
    *("img_size", "patch_size", "dynamic_img_size", "dynamic_img_pad", "strict_img_size", "in_chans"),
    *("embed_dim", "depth", "num_heads", "mlp_ratio", "depths", "dims"),
    *("qkv_bias", "qk_norm", "init_values", "ls_init_value"),
    *("class_token", "reg_tokens", "no_embed_class", "pre_norm", "global_pool"),
}


def sees_single_images(name: str, arguments: Mapping[str, object]) -> bool:
    """Return whether the features of an image depend on this image alone, however many images come with it.

    That is so without statistics of the batch (BatchNorm) and without random numbers (dropout, stochastic depth). It is
    decided by names, so that it is the same on every machine, and false wherever it is not known.

    Args:
        name: value of ``backbone.name``.
        arguments: ``backbone.kwargs``.
    """
    unknown = [key for key, value in arguments.items() if key not in _HARMLESS_ARGUMENTS]
    return bool(_SINGLE_IMAGES.fullmatch(name)) and all("drop" in key and not arguments[key] for key in unknown)


_DDP = ("ddp", "ddp_spawn", "ddp_fork", "ddp_notebook")

STRATEGIES = (
    "auto",
    *_DDP,
    *(f"{name}_find_unused_parameters_{value}" for name in _DDP for value in ("false", "true")),
    "single_device",
)
"""Lightning's strategies that are supported; a test compares this list with Lightning."""

SOLO_LARGE_VIEWS = 2
"""Number of large crops that solo-learn's methods require."""
