"""Names and defaults shared by configuration and identity, without PyTorch."""

from __future__ import annotations

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
