"""The objective in float16, bfloat16 and float32 against float64: values and gradients, over scales of the embeddings.

    python -m benchmarks.precision [--device cpu|cuda]

The reference is computed in float64 from the same embeddings, rounded to the narrow type. Errors are relative to the
loss, and to the largest entry of the gradient. Float16 gradients beyond float16's range are counted, not compared.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import torch
from torch import Tensor

from benchmarks.runner import markdown_table
from radial_vicreg.losses import RadialVICRegLoss

OBJECTIVES: dict[str, dict[str, Any]] = {
    "kl": {"radial_ent_loss_weight": 0.1},
    "kl, centred": {"radial_ent_loss_weight": 0.1, "radial_center": True},
    "wasserstein": {"radial_objective": "wasserstein", "radial_w1_target": "quantiles"},
    "none": {"radial_objective": "none"},
}
SCALES = (1e-3, 1.0, 1e3)
SHAPES = ((256, 512), (512, 128))
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
AUTOCAST = (torch.bfloat16, torch.float16)


def measure(device: str, seconds: float = float("inf")) -> list[dict[str, Any]]:
    """Return one row per objective, shape, scale and type, until ``seconds`` have elapsed."""
    rows: list[dict[str, Any]] = []
    began = time.monotonic()
    for name, settings in OBJECTIVES.items():
        for shape in SHAPES:
            for scale in SCALES:
                if time.monotonic() - began > seconds:
                    return rows
                where = {"objective": name, "N": shape[0], "d": shape[1], "scale": scale}
                for dtype in DTYPES:
                    rows.append({**where, "type": _name(dtype), **_errors(settings, shape, scale, dtype, device)})
                for dtype in AUTOCAST:
                    found = _errors(settings, shape, scale, torch.float32, device, autocast=dtype)
                    rows.append({**where, "type": f"float32, autocast {_name(dtype)}", **found})
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Make a table of the worst case for each type and scale."""
    header = ["type", "scale", "cases", "loss error", "gradient error", "finite", "gradients beyond the type"]
    cells = []
    for kind in dict.fromkeys(row["type"] for row in rows):
        for scale in SCALES:
            found = [row for row in rows if row["type"] == kind and row["scale"] == scale]
            if found:
                worst = [f"{max(row[key] for row in found):.1e}" for key in ("loss_error", "gradient_error")]
                finite = "all" if all(row["finite"] for row in found) else "NO"
                beyond = f"{max(row['beyond'] for row in found):.1%}"
                cells.append([kind, f"{scale:g}", len(found), *worst, finite, beyond])
    return markdown_table(header, cells)


def _errors(
    settings: dict[str, Any],
    shape: tuple[int, int],
    scale: float,
    dtype: torch.dtype,
    device: str,
    autocast: torch.dtype | None = None,
) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)
    first = torch.randn(shape, generator=generator, dtype=torch.float64)
    second = first + 0.5 * torch.randn(shape, generator=generator, dtype=torch.float64)
    views = [(scale * z).to(device, dtype) for z in (first, second)]
    exact, exact_gradient = _evaluate(settings, [z.double() for z in views], None)
    value, gradient = _evaluate(settings, views, autocast)
    held = exact_gradient.abs() <= torch.finfo(dtype).max
    difference = ((gradient - exact_gradient) * held).nan_to_num(posinf=0.0, neginf=0.0)
    largest = float((exact_gradient * held).abs().max())
    return {
        "loss_error": abs(value - exact) / abs(exact),
        "gradient_error": float(difference.abs().max()) / largest if largest else 0.0,
        "finite": bool(torch.isfinite(gradient[held]).all()) and value == value and abs(value) != float("inf"),
        "beyond": float((~held).double().mean()),
    }


def _evaluate(settings: dict[str, Any], views: list[Tensor], autocast: torch.dtype | None) -> tuple[float, Tensor]:
    views = [z.clone().requires_grad_() for z in views]
    with torch.autocast(views[0].device.type, dtype=autocast or torch.bfloat16, enabled=autocast is not None):
        loss = RadialVICRegLoss(**settings).eval()(*views)
    loss.backward()
    return float(loss.detach()), torch.stack([z.grad.double() for z in views])  # type: ignore[union-attr]


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=("cpu", "cuda"))
    print(table(measure(parser.parse_args().device)))


if __name__ == "__main__":
    main()
