"""Where the runs of the first release are, and how they were made."""

from __future__ import annotations

from typing import Any

from radial_vicreg.synthetic.config import SyntheticConfig
from radial_vicreg.synthetic.sweep import Grid

#: One finished run of each kind.
FINISHED = {
    "standalone": "standalone/runs/radialvicreg-*-f83c*/*",
    "solo": "solo/runs/radialvicreg-*-f83c*/*",
    "main_pretrain": "main_pretrain/trained_models/radialvicreg/0",
}

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
