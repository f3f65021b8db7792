"""Names, defaults and ranges that losses, configuration and identity agree on, without torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

RADIAL_OBJECTIVES = ("kl", "wasserstein", "reverse_kl", "none")
"""Objectives for the radii, by the name that configurations use."""

WASSERSTEIN_TARGETS = ("samples", "quantiles")
"""What radii are compared with: fresh chi draws, or exact quantiles."""


class ObjectiveKey(NamedTuple):
    """A setting of the objective: an argument of the loss and a key of ``method_kwargs``.

    Attributes:
        default: where it is left out.
        meaning: in a few words.
        low: smallest value of a number; None for flags and choices.
        choices: every value of a choice.
    """

    default: Any
    meaning: str
    low: int | None = None
    choices: tuple[str, ...] = ()


OBJECTIVE: dict[str, ObjectiveKey] = {
    "sim_loss_weight": ObjectiveKey(25.0, "lambda1, weight of the invariance", low=0),
    "var_loss_weight": ObjectiveKey(25.0, "lambda2, weight of the variance", low=0),
    "cov_loss_weight": ObjectiveKey(1.0, "lambda3, weight of the covariance", low=0),
    "radial_objective": ObjectiveKey("kl", "what pulls the radii towards chi(d)", choices=RADIAL_OBJECTIVES),
    "radial_ce_loss_weight": ObjectiveKey(100.0, 'beta1 ("rlw"), weight of the radial cross-entropy', low=0),
    "radial_ent_loss_weight": ObjectiveKey(0.0, 'beta2 ("rlew"), weight of the radial entropy', low=0),
    "radial_ce_normalize": ObjectiveKey(True, "divide the cross-entropy by d"),
    "radial_spacing": ObjectiveKey(None, "m of the entropy; null is round(sqrt(N)) of the global batch", low=1),
    "radial_w1_loss_weight": ObjectiveKey(1.0, "gamma, weight of the Wasserstein-1 term", low=0),
    "radial_w1_target": ObjectiveKey("samples", "what the radii are compared with", choices=WASSERSTEIN_TARGETS),
    "radial_reverse_kl_loss_weight": ObjectiveKey(1.0, "weight of the reverse KL", low=0),
    "e2mc_loss_weight": ObjectiveKey(0.0, "weight of E2MC, whichever the radial objective", low=0),
    "mean_loss_weight": ObjectiveKey(0.0, "weight of the squared mean, whichever the radial objective", low=0),
    "radial_center": ObjectiveKey(False, "take the radii of z minus the batch mean; the paper does not"),
}
"""``method_kwargs`` that are arguments of :class:`radial_vicreg.losses.RadialVICRegLoss`."""

LOSS_DEFAULTS: dict[str, Any] = {name: key.default for name, key in OBJECTIVE.items()}

RADIAL_READS: dict[str, dict[str, tuple[str, ...]]] = {
    "kl": {"radial_ce_loss_weight": ("radial_ce_normalize",), "radial_ent_loss_weight": ("radial_spacing",)},
    "wasserstein": {"radial_w1_loss_weight": ("radial_w1_target",)},
    "reverse_kl": {"radial_reverse_kl_loss_weight": ()},
    "none": {},
}
"""Of each radial objective, its weights and what else is read when a weight is not zero."""

VICREG_WEIGHTS = ("sim_loss_weight", "var_loss_weight", "cov_loss_weight")

ADDED_WEIGHTS = ("e2mc_loss_weight", "mean_loss_weight")
"""Weights of terms that are read whatever the radial objective, and count where they are not zero."""

METHODS = ("radialvicreg", "vicreg")
"""Methods whose loss is :class:`radial_vicreg.losses.RadialVICRegLoss`; any other brings a loss of its own."""

OPTIMIZER_DEFAULTS: dict[str, dict[str, Any]] = {
    "sgd": {"momentum": 0.9},
    "lars": {"momentum": 0.9, "eta": 1e-3, "clip_lr": False, "exclude_bias_n_norm": False},
    "adam": {},
    "adamw": {"betas": [0.9, 0.999]},
}
"""Optimizers and solo-learn's defaults of ``optimizer.kwargs``."""


def objective_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Reduce a configuration to what its loss depends on.

    Args:
        config: resolved, plain containers.

    Returns:
        Of ours, see :func:`effective_objective`; of any other ``loss``, its target with its arguments, and the views
        that it is called with. The method's name is no part of it.
    """
    if loss := config.get("loss"):
        return {"loss": dict(loss), "views": config.get("loss_views") or "pair"}
    return effective_objective(str(config.get("method")), config.get("method_kwargs") or {})


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
    kept |= {name: given[name] for name in ADDED_WEIGHTS if given[name]}
    radial: dict[str, Any] = {}
    for weight, others in RADIAL_READS[objective].items():
        if given[weight]:
            radial.update({name: given[name] for name in (weight, *others)})
    if not radial:
        return {"radial_objective": "none", **kept}
    return {"radial_objective": objective, "radial_center": bool(given["radial_center"]), **kept, **radial}
