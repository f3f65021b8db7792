"""Names and defaults that configuration and identity agree on, without torch."""

from __future__ import annotations

OPTIMIZER_DEFAULTS: dict[str, dict[str, float | bool | list[float]]] = {
    "sgd": {"momentum": 0.9},
    "lars": {"momentum": 0.9, "eta": 1e-3, "clip_lr": False, "exclude_bias_n_norm": False},
    "adam": {},
    "adamw": {"betas": [0.9, 0.999]},
}
"""Optimizers and solo-learn's defaults of ``optimizer.kwargs``."""

RESNETS = ("resnet18", "resnet50")
"""Backbones that are torchvision's."""

VISION_TRANSFORMERS = {
    "vit_tiny": "vit_tiny_patch16_224",
    "vit_small": "vit_small_patch16_224",
    "vit_base": "vit_base_patch16_224",
    "vit_large": "vit_large_patch16_224",
}
"""Backbones that are timm's, and what timm calls them."""

BACKBONES = (*RESNETS, *VISION_TRANSFORMERS)
"""Names of ``backbone.name`` that both hosts have, which are solo-learn's; the embedded host has ``timm:NAME``, too."""

SOLO_BACKBONES = (
    *("swin_tiny", "swin_small", "swin_base", "swin_large"),
    *("poolformer_s12", "poolformer_s24", "poolformer_s36", "poolformer_m36", "poolformer_m48"),
    *("convnext_tiny", "convnext_small", "convnext_base", "convnext_large"),
    *("wide_resnet28w2", "wide_resnet28w8"),
)
"""What solo-learn has besides; a test compares this list with solo-learn."""

SOLO_LARGE_VIEWS = 2
"""Large crops that solo-learn's methods compare, no more and no fewer."""
