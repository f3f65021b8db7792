"""Keys, defaults and meaning of the objective, without torch: what the loss, configurations and identities agree on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LOSS_DEFAULTS: dict[str, Any] = {
    "sim_loss_weight": 25.0,
    "var_loss_weight": 25.0,
    "cov_loss_weight": 1.0,
    "radial_objective": "kl",
    "radial_ce_loss_weight": 100.0,
    "radial_ent_loss_weight": 0.0,
    "radial_ce_normalize": True,
    "radial_spacing": None,
    "radial_w1_loss_weight": 1.0,
    "radial_w1_target": "samples",
    "radial_reverse_kl_loss_weight": 1.0,
    "e2mc_loss_weight": 0.0,
    "radial_center": False,
}
"""``method_kwargs`` that are arguments of :class:`radial_vicreg.losses.RadialVICRegLoss`, with its defaults."""

RADIAL_READS: dict[str, dict[str, tuple[str, ...]]] = {
    "kl": {"radial_ce_loss_weight": ("radial_ce_normalize",), "radial_ent_loss_weight": ("radial_spacing",)},
    "wasserstein": {"radial_w1_loss_weight": ("radial_w1_target",)},
    "reverse_kl": {"radial_reverse_kl_loss_weight": ()},
    "none": {},
}
"""Of each radial objective, its weights and what else is read when a weight is not zero."""

VICREG_WEIGHTS = ("sim_loss_weight", "var_loss_weight", "cov_loss_weight")

OPTIMIZER_DEFAULTS: dict[str, dict[str, Any]] = {
    "sgd": {"momentum": 0.9},
    "lars": {"momentum": 0.9, "eta": 1e-3, "clip_lr": False, "exclude_bias_n_norm": False},
    "adam": {},
    "adamw": {"betas": [0.9, 0.999]},
}
"""Optimizers and solo-learn's defaults of ``optimizer.kwargs``."""

SMALL_IMAGE_DATASETS = ("cifar10", "cifar100")
"""Their ResNets get the small-image stem under ``small_image_stem: auto``, which is solo-learn's own rule."""


def effective_objective(method: str, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Reduce ``method_kwargs`` to what the loss depends on.

    A key that the chosen objective does not read, or that belongs to a term of weight zero, is left out: two
    configurations with equal results here train alike. VICReg is Radial-VICReg without its terms.

    Args:
        method: ``"vicreg"`` or ``"radialvicreg"``.
        kwargs: ``method_kwargs``, complete or not; keys that are no settings of the loss are passed over.

    Returns:
        The keys that are read, with their values; ``radial_objective`` is ``"none"`` where no radial term counts.
    """
    given = {name: kwargs.get(name, default) for name, default in LOSS_DEFAULTS.items()}
    objective = "none" if method == "vicreg" else str(given["radial_objective"])
    if objective not in RADIAL_READS:
        return {**given, "radial_objective": objective}  # of another version: what it reads is not known
    kept: dict[str, Any] = {name: given[name] for name in VICREG_WEIGHTS}
    if given["e2mc_loss_weight"]:
        kept["e2mc_loss_weight"] = given["e2mc_loss_weight"]
    radial: dict[str, Any] = {}
    for weight, others in RADIAL_READS[objective].items():
        if given[weight]:
            radial.update({name: given[name] for name in (weight, *others)})
    if not radial:
        return {"radial_objective": "none", **kept}
    return {"radial_objective": objective, "radial_center": bool(given["radial_center"]), **kept, **radial}
