"""Argument checks: every error states what arrived, what is needed and what to do."""

from __future__ import annotations

import math
import sys
from numbers import Integral, Real
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from radial_vicreg.losses._tracing import values_are_at_hand
from radial_vicreg.names.terms import OBJECTIVE
from radial_vicreg.runtime.distributed import gather_integers

T = TypeVar("T")

#: Supported dtypes; float16 and bfloat16 are computed and returned in float32.
SUPPORTED_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
HALF_DTYPES = (torch.float16, torch.bfloat16)


def full_precision(z: Tensor) -> torch.autocast:
    """Disable autocast on the device of ``z``: squares overflow in float16."""
    return torch.autocast(device_type=z.device.type, enabled=False)


def checked_view(z: Tensor) -> Tensor:
    """Return ``z`` in at least float32 if it is a finite float batch of shape ``(N >= 2, d >= 1)``."""
    z = _checked_layout(z, "z")
    require_finite(z, "z")
    return z


def checked_pair(z1: Tensor, z2: Tensor) -> tuple[Tensor, Tensor]:
    """Apply :func:`checked_view` to both views and require equal shapes."""
    views = _checked_layouts({"z1": z1, "z2": z2})
    for name, z in views.items():
        require_finite(z, name)
    return views["z1"], views["z2"]


def checked_vector(values: Tensor, name: str, length: int | None = None) -> Tensor:
    """Return a finite 1-D float tensor in at least float32; require ``length`` values unless it is None."""
    _require_float(values, name, "(N,)")
    if values.dim() != 1:
        raise ValueError(f"{name}: expected shape (N,), got {tuple(values.shape)}; pass one number per sample.")
    if length is None and len(values) < 2:
        raise ValueError(f"{name}: at least 2 samples are needed, got {len(values)}.")
    if length is not None and len(values) != length:
        raise ValueError(f"{name}: expected {length} values, one per row of z, got {len(values)}.")
    values = _promoted(values)
    require_finite(values, name)
    return values


def checked_batch(views: tuple[Tensor, ...], keywords: dict[str, Tensor], agree: bool) -> tuple[Tensor, ...]:
    """Check the views of a training call.

    On a CPU non-finite values raise at once (except under a tracer, see :func:`require_finite`). On a GPU they are not
    checked, since the check would stall it.

    Args:
        views: positional arguments: embeddings of each view, shape ``(N, d)``, or all in one tensor ``(V, N, d)``.
        keywords: keyword arguments instead: two views, ``z1`` and ``z2``.
        agree: exchange shapes and results of the checks between ranks first, so that every rank raises when one does
            (on a GPU by a device-side assertion, which needs no host synchronisation).

    Returns:
        At least two views of equal shape, in one dtype, at least float32.

    Raises:
        ValueError: the input of this rank or, with ``agree``, of any rank is invalid.
    """
    problem: ValueError | None = None
    checked: dict[str, Tensor] = {}
    try:
        checked = _checked_layouts(_numbered(views, keywords))
        for name, z in checked.items():
            if z.device.type == "cpu":
                require_finite(z, name)
    except ValueError as error:
        problem = error
    tensors = [z for z in (*views, *keywords.values()) if isinstance(z, Tensor)]
    if agree and tensors:
        _agree((len(checked), *checked["view 1"].shape) if problem is None else None, tensors[0].device)
    if problem is not None:
        raise problem
    return tuple(checked.values())


def require_finite(values: Tensor, name: str) -> None:
    """Raise a ValueError that counts the non-finite entries of ``values`` (waits for a GPU).

    Skip the check where tensors hold no values: under a tracer or a transform of ``torch.func``.
    """
    if not values_are_at_hand():
        return
    # A single pass: the sum is never finite when a value is not, although it can overflow when all values are finite.
    if math.isfinite(values.detach().sum().item()):
        return
    finite = torch.isfinite(values)
    if not bool(finite.all()):
        count = values.numel() - int(finite.sum())
        raise ValueError(
            f"{name}: {count} of {values.numel()} values are not finite; finite embeddings are needed. "
            "Lower the learning rate, lengthen the warm-up, or look for the first layer that overflows."
        )


def checked_spacing(m: int | None, count: int) -> int:
    """Check that the spacing ``m`` lies within ``1..count-1``; None becomes ``round(sqrt(count))``."""
    if m is None:
        return round(math.sqrt(count))
    if isinstance(m, bool) or not isinstance(m, Integral) or not 1 <= m <= count - 1:
        raise ValueError(
            f"m: expected an integer within 1..{count - 1} for {count} samples, got {m!r}; None takes round(sqrt(N))."
        )
    return int(m)


def checked_setting(name: str, value: T) -> T:
    """Return the value of a setting if :data:`radial_vicreg.names.terms.OBJECTIVE` allows it."""
    key, checked = OBJECTIVE[name], cast(Any, value)
    if key.choices:
        checked = checked_choice(name, value, key.choices)
    elif isinstance(key.default, bool):
        checked = checked_flag(name, value)
    elif isinstance(key.default, float):
        checked = checked_number(name, value, minimum=key.low or 0)
    elif value is not None or key.default is not None:
        checked = checked_integer(name, value, minimum=key.low or 0)
    return cast(T, checked)


def checked_number(name: str, value: Any, *, minimum: float = 0, positive: bool = False) -> float:
    """Return ``value`` as a float if it is finite and at least ``minimum``; with ``positive``, above zero."""
    allowed = "a finite number > 0" if positive else f"a finite number >= {minimum:g}"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"{name}: expected {allowed}, got {value!r} ({type(value).__name__}).")
    number: Any = value  # Real declares no comparison
    # Comparisons also reject NaN. isfinite fails for a compiler's symbolic numbers and for integers too large for a
    # float.
    if not minimum <= number <= sys.float_info.max or (positive and float(number) == 0):
        raise ValueError(f"{name}: expected {allowed}, got {value!r}.")
    return float(number)


def checked_integer(name: str, value: Any, minimum: int) -> int:
    """Return ``value`` as an int if it is at least ``minimum``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < minimum:
        raise ValueError(f"{name}: expected an integer >= {minimum}, got {value!r} ({type(value).__name__}).")
    return int(value)


def checked_flag(name: str, value: Any) -> bool:
    """Return ``value`` if it is a bool (a YAML string such as ``"false"`` would count as true)."""
    if not isinstance(value, bool):
        raise ValueError(f"{name}: expected true or false, got {value!r} ({type(value).__name__}).")
    return value


def checked_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of ``choices``."""
    if value not in choices:
        raise ValueError(f"{name}: expected one of {', '.join(choices)}, got {value!r}.")
    return str(value)


def _checked_layout(z: Tensor, name: str) -> Tensor:
    _require_float(z, name, "(N, d)")
    if z.dim() != 2:
        raise ValueError(f"{name}: expected shape (N, d), got {tuple(z.shape)}; flatten all but the first dimension.")
    if z.shape[0] < 2:
        raise ValueError(f"{name}: at least 2 samples are needed, got shape {tuple(z.shape)} (N, d).")
    if z.shape[1] < 1:
        raise ValueError(f"{name}: at least 1 dimension is needed, got shape {tuple(z.shape)} (N, d).")
    return _promoted(z)


def _checked_layouts(views: dict[str, Tensor]) -> dict[str, Tensor]:
    """Check each view, require the shape and device of the first, and promote all to one dtype."""
    checked = {name: _checked_layout(z, name) for name, z in views.items()}
    (first_name, first), *others = checked.items()
    for name, z in others:
        if z.shape != first.shape:
            raise ValueError(
                f"{first_name} and {name} must have one shape (row i of each belongs to image i), "
                f"got {tuple(first.shape)} and {tuple(z.shape)}."
            )
        if z.device != first.device:
            raise ValueError(
                f"{first_name} and {name} must be on one device, got {first.device} and {z.device}; "
                "move one of them with .to(device)."
            )
    dtype = torch.float64 if any(z.dtype == torch.float64 for z in checked.values()) else torch.float32
    return {name: z.to(dtype) for name, z in checked.items()}


def _numbered(views: tuple[Tensor, ...], keywords: dict[str, Tensor]) -> dict[str, Tensor]:
    """Name the views of a call ``view 1``, ``view 2``, ...; see :func:`checked_batch`."""
    if keywords:
        if views or set(keywords) != {"z1", "z2"}:
            raise ValueError(
                f"expected views by position, or z1 and z2 by keyword, got {len(views)} by position and "
                f"{', '.join(keywords)} by keyword; pass all of them by position."
            )
        views = keywords["z1"], keywords["z2"]
    elif len(views) == 1 and isinstance(views[0], Tensor) and views[0].dim() == 3 and len(views[0]) > 1:
        views = views[0].unbind()
    elif len(views) < 2:
        got = [f"shape {tuple(z.shape)}" if isinstance(z, Tensor) else type(z).__name__ for z in views]
        raise ValueError(
            "expected at least 2 views, each of shape (N, d), or all in one tensor of shape (V, N, d), got "
            f"{f'one argument ({got[0]})' if got else 'none'}."
        )
    numbered = {f"view {number}": z for number, z in enumerate(views, start=1)}
    for name, z in numbered.items():
        if isinstance(z, Tensor) and z.dim() == 3:
            raise ValueError(
                f"{name}: expected shape (N, d), got {tuple(z.shape)}; flatten all but the first dimension, or "
                "pass all views as one tensor of shape (V, N, d), alone."
            )
    return numbered


def _require_float(values: Tensor, name: str, shape: str) -> None:
    if not isinstance(values, Tensor):
        raise ValueError(f"{name}: expected a torch.Tensor of shape {shape}, got {type(values).__name__}.")
    if values.is_meta:
        raise ValueError(
            f"{name}: expected values, got a tensor on the meta device, which has a shape {tuple(values.shape)} and no "
            "values; build the network on a real device (module.to_empty(device=...), then load its weights)."
        )
    if values.dtype not in SUPPORTED_DTYPES:
        raise ValueError(
            f"{name}: expected float16, bfloat16, float32 or float64, got {values.dtype}; convert it with .float()."
        )


def _promoted(values: Tensor) -> Tensor:
    return values.float() if values.dtype in HALF_DTYPES else values


def _agree(shape: tuple[int, ...] | None, device: torch.device) -> None:
    """Raise on every rank if the shape ``(V, N, d)`` differs between ranks or is None (invalid input) on one."""
    table = gather_integers(shape or (-1, -1, -1), device)
    remedy = "equal batches per rank are needed (drop_last=True), or gather_distributed=False for local statistics"
    if device.type == "cuda":
        if shape is not None:
            torch._assert_async((table == table[0]).all(), f"batch shapes differ between ranks; {remedy}")
        return
    rows = [tuple(row) for row in table.tolist()]
    rejected = [rank for rank, row in enumerate(rows) if row[0] < 0]
    if shape is not None and rejected:
        noun = "rank" if len(rejected) == 1 else "ranks"
        raise ValueError(f"{noun} {rejected} rejected their embeddings (see their error); stopping on every rank.")
    if shape is not None and len(set(rows)) > 1:
        raise ValueError(f"batch shapes (V, N, d) differ between ranks: {rows} in rank order; {remedy}.")
