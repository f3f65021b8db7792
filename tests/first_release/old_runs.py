"""Where the runs of the first release are, and how they were made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from radial_vicreg.synthetic.config import SyntheticConfig
from radial_vicreg.synthetic.sweep import Grid

FIXTURES = Path(__file__).parents[1] / "fixtures" / "first_release"

KL = ["method_kwargs.radial_ce_loss_weight=1", "method_kwargs.radial_ent_loss_weight=0.1", "precision=32"]

#: One finished run of each kind.
FINISHED = {
    "standalone": "standalone/runs/radialvicreg-*-f83c*/*",
    "solo": "solo/runs/radialvicreg-*-f83c*/*",
    "main_pretrain": "main_pretrain/trained_models/radialvicreg/0",
}

#: solo-learn's vit_tiny has fixed sizes: the fixtures' name means timm's, with the sizes of ``backbone.kwargs``.
SMALL_VIT = """
import timm
from solo.methods.base import BaseMethod
def small_vit(method, **sizes):
    return timm.create_model("vit_tiny_patch16_224", num_classes=0, **sizes)
BaseMethod._BACKBONES["vit_tiny"] = small_vit
"""

_AXES: dict[str, tuple[Any, ...]] = {
    "alpha": (0.25, 0.99),
    "lr": (0.5, 5.0),
    "beta1": (0.0, 1.0),
    "beta2": (0.0, 1.0),
    "seed": (0, 1),
}
SYNTHETIC_GRID = Grid(
    SyntheticConfig(distribution="mixture", num_samples=64, steps=50, warmup_steps=5, lambda2=25.0, lambda3=1.0),
    _AXES,
    subsample=32,
)
