"""When radii reach chi by an offset that all embeddings share: a linear projector at its minimum, in float64.

Run: python offset.py [--noise 1.8] [--steps 400]     (a minute; docs/offset.md explains the columns)
"""

from __future__ import annotations

import argparse
from typing import Any

import torch

from radial_vicreg import RadialVICRegLoss

IMAGES, FEATURES, DIM = 512, 64, 32
METHODS: dict[str, dict[str, Any]] = {
    "VICReg": {"radial_objective": "none"},
    "KL, beta1 100, 1/d": {},
    "KL, beta1 100, 1/d, no bias": {"bias": False},
    "KL, beta1 1, beta2 0.1": {
        "radial_ce_loss_weight": 1.0, "radial_ent_loss_weight": 0.1, "radial_ce_normalize": False
    },
    "KL, centred": {"radial_center": True},
    "KL + mean": {"mean_loss_weight": 25.0},
    "VICReg + mean": {"radial_objective": "none", "mean_loss_weight": 25.0},
}  # fmt: skip


def fitted(noise: float, steps: int, bias: bool = True, **settings: Any) -> dict[str, float]:
    """Fit weights and bias to two noisy views of normal features; return the terms at the minimum."""
    generator = torch.Generator().manual_seed(0)
    clean, first, second, weights = (
        torch.randn(shape, generator=generator, dtype=torch.float64)
        for shape in [(IMAGES, FEATURES)] * 3 + [(FEATURES, DIM)]
    )
    weights = (weights / FEATURES**0.5).requires_grad_()
    offset = torch.zeros(DIM, dtype=torch.float64, requires_grad=bias)
    loss_function = RadialVICRegLoss(**settings)
    optimizer = torch.optim.LBFGS([weights, offset][: 1 + bias], max_iter=steps, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        total: torch.Tensor = loss_function(*((clean + noise * view) @ weights + offset for view in (first, second)))
        total.backward()
        return total

    optimizer.step(loss)
    return {name: term.item() for name, term in loss_function.terms.items()}


def main() -> None:
    """Print both tables of docs/offset.md."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--noise", type=float, default=1.8, help="standard deviation; that of the features is 1")
    parser.add_argument("--steps", type=int, default=400)
    given = parser.parse_args()
    print("| loss | share of the mean | tr C / (d - 1) | hinge | mean radius | total |", "| --- " * 6 + "|", sep="\n")
    names = ("embedding_mean_share", "embedding_trace", "vicreg_variance", "radius_mean", "loss")
    for method, settings in METHODS.items():
        terms = fitted(given.noise, given.steps, **settings)
        print(f"| {method} | " + " | ".join(f"{terms[name]:.3f}" for name in names) + " |", flush=True)
    print(
        "\n| noise | VICReg's hinge | VICReg's tr C / (d - 1) | KL's share of the mean |", "| --- " * 4 + "|", sep="\n"
    )
    for noise in (1.0, 1.3, 1.5, 2.2):
        plain, radial = (fitted(noise, given.steps, **METHODS[name]) for name in list(METHODS)[:2])
        values = plain["vicreg_variance"], plain["embedding_trace"], radial["embedding_mean_share"]
        print(f"| {noise} | " + " | ".join(f"{value:.3f}" for value in values) + " |", flush=True)


if __name__ == "__main__":
    main()
