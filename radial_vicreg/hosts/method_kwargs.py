"""``method_kwargs`` of Radial-VICReg: defaults and checks, the same for both hosts."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Any

from radial_vicreg.errors import UserError
from radial_vicreg.keys import LOSS_DEFAULTS
from radial_vicreg.losses import RadialVICRegLoss

DEFAULTS: dict[str, Any] = {**LOSS_DEFAULTS, "small_image_stem": "auto"}
REQUIRED = ("proj_hidden_dim", "proj_output_dim")
STEM_CHOICES = ("auto", True, False)


def check_method_kwargs(kwargs: Mapping[str, Any], host_keys: Collection[str] = ()) -> dict[str, Any]:
    """Fill in defaults and check every value.

    Args:
        kwargs: ``cfg.method_kwargs``.
        host_keys: keys that the host's base class reads; their values pass unchecked.

    Returns:
        All keys, with a value each.

    Raises:
        ValueError: an unknown key (the nearest known one is named), a missing projector dimension, or a value out of
            range (key, value and range are named).
    """
    known = (*REQUIRED, *DEFAULTS, *host_keys)
    for key in kwargs:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(known)}"
            raise UserError(f"method_kwargs.{key} is not a setting of radialvicreg; {hint}")
    for key in REQUIRED:
        value = kwargs.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise UserError(f"method_kwargs.{key} must be a whole number of 1 or more, got {value!r}")
    filled = {**DEFAULTS, **kwargs}
    if not any(filled["small_image_stem"] is choice or filled["small_image_stem"] == choice for choice in STEM_CHOICES):
        raise UserError(
            f"method_kwargs.small_image_stem must be auto, true or false, got {filled['small_image_stem']!r}"
        )
    try:
        build_objective(filled)
    except ValueError as error:
        raise UserError(f"method_kwargs.{error}") from error
    return filled


def complete_method_kwargs(method: str, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """:func:`check_method_kwargs` for either method: ``vicreg`` is the objective without a radial term.

    Args:
        method: ``"radialvicreg"`` or ``"vicreg"``.
        kwargs: ``cfg.method_kwargs``.

    Returns:
        All keys, with a value each.

    Raises:
        ValueError: as :func:`check_method_kwargs`.
    """
    return check_method_kwargs({**kwargs, "radial_objective": "none"} if method == "vicreg" else kwargs)


def build_objective(kwargs: Mapping[str, Any], seed: int = 0) -> RadialVICRegLoss:
    """The loss of a checked ``method_kwargs``.

    Args:
        kwargs: ``cfg.method_kwargs``.
        seed: of the chi draws of the Wasserstein and reverse-KL objectives.

    Returns:
        The loss module.

    Raises:
        ValueError: a value out of range; key, value and range are named.
    """
    return RadialVICRegLoss(**{key: kwargs[key] for key in LOSS_DEFAULTS}, seed=seed)
