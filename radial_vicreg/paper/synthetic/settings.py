"""The keys of a synthetic run: name, range, default and meaning of each. Other modules use the attributes only.

This module needs neither PyTorch nor numba, so an invalid configuration is rejected before they are imported.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import namedtuple
from dataclasses import asdict, dataclass, fields
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from radial_vicreg.errors import UserError
from radial_vicreg.names.terms import LOSS_DEFAULTS
from radial_vicreg.paper.synthetic.distributions import DISTRIBUTIONS, sample
from radial_vicreg.paper.synthetic.rates import learning_rates

Array = NDArray[np.float64]

OBJECTIVES = ("kl", "wasserstein", "reverse_kl", "e2mc")
"""Radial objectives and added terms whose gradients :mod:`.gradient` and :mod:`.kernels` implement."""
SUBSAMPLE = 2000
"""Number of points in the pairwise metrics: a 32 MB cost matrix for the transport."""
_KEY_LENGTH = 16
"""Number of hexadecimal digits that identify a configuration."""


@dataclass(frozen=True)
class Objective:
    """The objective to minimise.

    Attributes:
        objective: ``kl``, ``wasserstein``, ``reverse_kl`` or ``e2mc``. VCReg is ``kl`` with both betas 0. The authors'
            settings for figure 1b, which are past stability, are beta1 = beta2 = 100, lambda2 = lambda3 = 1.
        lambda2: weight of the variance term.
        lambda3: weight of the covariance term.
        beta1: weight of the radial cross-entropy (``kl``).
        beta2: weight of the radial entropy (``kl``).
        gamma: weight of the radial or E2MC loss of the other objectives. Our losses compare the radii themselves. The
            authors' W1 and reverse KL can divide the radii by sqrt(dim - 1) first; their gamma then has another scale.
        m: spacing of the entropy (``kl``); None is round(sqrt(N)), which E2MC always uses.

    Raises:
        UserError: the objective is unknown, or a weight is negative or not finite.
    """

    objective: str = "kl"
    lambda2: float = LOSS_DEFAULTS["var_loss_weight"]
    lambda3: float = LOSS_DEFAULTS["cov_loss_weight"]
    beta1: float = 1.0
    beta2: float = 1.0
    gamma: float = 1.0
    m: int | None = None

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise UserError(f"objective must be one of {', '.join(OBJECTIVES)}, got {self.objective!r}")
        for name, value in zip(Weights._fields, self.weights, strict=True):
            if not (math.isfinite(value) and value >= 0):
                raise UserError(f"{name} is a loss weight and must be finite and at least 0, got {value}")

    @property
    def weights(self) -> Any:
        """The loss weights, :data:`Weights` of floats."""
        return Weights(*(float(getattr(self, name)) for name in Weights._fields))

    def spacing(self, num_samples: int) -> int:
        """Return the entropy's m for N points.

        Raises:
            UserError: m is outside 1..N-1.
        """
        m = round(math.sqrt(num_samples)) if self.m is None or self.objective == "e2mc" else self.m
        if not 1 <= m <= num_samples - 1:
            raise UserError(f"m must be an integer in 1..N-1 = 1..{num_samples - 1}, got {m}")
        return m


Weights = cast(Any, namedtuple("Weights", [one.name for one in fields(Objective) if one.type == "float"]))
"""The weights of an objective by name: floats for one run, or tensors ``(B, 1)`` for a batch of runs."""


@dataclass(frozen=True)
class SyntheticConfig(Objective):
    """All settings that determine the outcome of a run; two runs with the same values give the same points.

    Attributes:
        distribution: distribution of the starting points, a key of :data:`~.distributions.DISTRIBUTIONS`.
        alpha: share of X in ``mixture``.
        num_samples: number of points N.
        dim: dimension d; 2 for the sunshines.
        steps: gradient steps.
        lr: peak learning rate. Gradients are means over N points, so the effect of a term in a run scales with
            lr * weight * steps / N: at 10,000 points and 200,000 steps, 0.5 converges at a weight of 1 and 0.005 at a
            weight of 100. Descent is unstable above lr * beta2 of about 1.4; the result then depends on rounding, and
            several seeds are needed.
        schedule: ``cosine`` (the paper's text), ``linear`` (the authors' command for figure 1) or ``constant`` after
            the warm-up.
        warmup_steps: number of steps of the linear warm-up.
        final_lr: rate at the end of the decay.
        seed: seed of the starting points and of the metrics' subsample.

    Raises:
        UserError: a value is out of range; the message names it.
    """

    distribution: str = "x"
    alpha: float = 1.0
    num_samples: int = 10_000
    dim: int = 2
    steps: int = 200_000
    lr: float = 0.5
    schedule: str = "cosine"
    warmup_steps: int = 100
    final_lr: float = 1e-6
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.seed < 0 or self.num_samples < 2 or self.steps < 1:
            raise UserError(
                "seed must be at least 0, num_samples at least 2 and steps at least 1, "
                f"got {self.seed}, {self.num_samples} and {self.steps}"
            )
        # Sampling two points and one rate rejects wrong values before the run instead of during it.
        sample(self.distribution, 2, self.dim, alpha=self.alpha)
        learning_rates(1, self.lr, schedule=self.schedule, warmup_steps=self.warmup_steps, final_lr=self.final_lr)
        self.spacing(self.num_samples)

    @property
    def definition(self) -> int:
        """Version of the distribution's definition, from 1."""
        return DISTRIBUTIONS[self.distribution].definition

    @property
    def key(self) -> str:
        """Identifier of the configuration; runs with equal keys are equal."""
        values = asdict(self)
        if self.definition > 1:
            values["definition"] = self.definition
        text = json.dumps(values, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:_KEY_LENGTH]

    def start(self) -> Array:
        """Sample the starting points, shape ``(num_samples, dim)``."""
        return sample(self.distribution, self.num_samples, self.dim, alpha=self.alpha, seed=self.seed)

    def rates(self) -> Array:
        """Compute the learning rate of every step, shape ``(steps,)``."""
        return learning_rates(
            self.steps,
            self.lr,
            schedule=self.schedule,
            warmup_steps=self.warmup_steps,
            final_lr=self.final_lr,
        )


@dataclass(frozen=True)
class Options(SyntheticConfig):
    """The keys of ``radial-vicreg synthetic key=value``: a run's configuration and its execution.

    Attributes:
        device: ``cpu`` uses numba on one core; any other torch device, such as ``cuda``, uses PyTorch.
        snapshots: number of snapshots after the start, evenly spaced and including the end.
        subsample: number of points in the exact transport, the MMD and the normality test.
        out: folder of the results; None is ``runs/synthetic/DISTRIBUTION-KEY``.
    """

    device: str = "cpu"
    snapshots: int = 5
    subsample: int = SUBSAMPLE
    out: str | None = None

    @property
    def config(self) -> SyntheticConfig:
        """The settings that determine the outcome."""
        return SyntheticConfig(**{one.name: getattr(self, one.name) for one in fields(SyntheticConfig)})
