"""How fast a step of the synthetic experiments is: the engines against a plain autograd loop, side by side.

    python benchmarks/synthetic.py [--num-samples N] [--repeats R]

All contestants run on one core (torch and numba with one thread each), interleaved; results are medians over the
repeats. The loop is the straightforward implementation: the losses of this package, `torch.autograd.grad`, one
in-place update.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

from radial_vicreg.paper.synthetic.distributions import sample
from radial_vicreg.paper.synthetic.engine_cpu import CpuEngine
from radial_vicreg.paper.synthetic.engine_torch import TorchEngine
from radial_vicreg.paper.synthetic.gradient import total_loss
from radial_vicreg.paper.synthetic.settings import Objective

RATE = 0.5
AUTOGRAD_STEPS, ENGINE_STEPS, BATCHED_STEPS, BATCH = 50, 2000, 5, 8


def autograd_loop(start: np.ndarray, objective: Objective, dtype: torch.dtype) -> Callable[[], int]:
    z = torch.tensor(start, dtype=dtype, requires_grad=True)

    def steps() -> int:
        for _ in range(AUTOGRAD_STEPS):
            (gradient,) = torch.autograd.grad(total_loss(z, objective), z)
            with torch.no_grad():
                z.sub_(gradient, alpha=RATE)
        return AUTOGRAD_STEPS

    return steps


def cpu_engine(start: np.ndarray, objective: Objective) -> Callable[[], int]:
    engine = CpuEngine(start, objective)

    def steps() -> int:
        engine.advance(np.full(ENGINE_STEPS, RATE))
        return ENGINE_STEPS

    return steps


def batched_engine(start: np.ndarray, objective: Objective) -> Callable[[], int]:
    engine = TorchEngine(np.stack([start] * BATCH), [objective] * BATCH)

    def steps() -> int:
        engine.advance(np.full((BATCHED_STEPS, BATCH), RATE))
        return BATCHED_STEPS * BATCH

    return steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--num-samples", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    start = sample("x", options.num_samples)
    kl = Objective()
    contestants = {
        "autograd loop, float64": autograd_loop(start, kl, torch.float64),
        "autograd loop, float32": autograd_loop(start, kl, torch.float32),
        "cpu engine, float64": cpu_engine(start, kl),
        "cpu engine, rate past stability (beta 10, 10)": cpu_engine(start, Objective(beta1=10.0, beta2=10.0)),
        "cpu engine, no entropy (beta2 0)": cpu_engine(start, Objective(beta2=0.0)),
        "cpu engine, VCReg (beta1 0, beta2 0)": cpu_engine(start, Objective(beta1=0.0, beta2=0.0)),
        f"batched torch engine on a CPU, {BATCH} runs, per run": batched_engine(start, kl),
    }
    for contestant in contestants.values():
        contestant()  # warm-up: compiles and makes the first steps
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(options.repeats):
        for name, contestant in contestants.items():
            began = time.perf_counter()
            steps = contestant()
            times[name].append((time.perf_counter() - began) / steps * 1e6)
    medians = {name: statistics.median(values) for name, values in times.items()}
    reference = medians["autograd loop, float32"]
    print(f"{options.num_samples} points in the plane, one core; speed-up over the faster loop (float32)")
    for name, median in medians.items():
        print(f"{name:<52} {median:9.1f} us a step  {reference / median:7.1f} x")


if __name__ == "__main__":
    main()
