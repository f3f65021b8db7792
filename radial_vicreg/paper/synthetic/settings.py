"""The keys of a synthetic run: name, range, default and meaning of each. Every other module asks for an attribute.

Nothing here needs PyTorch or numba: a configuration is refused before either is loaded.
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
"""Radial objectives and added terms whose gradient :mod:`.objective` and :mod:`.kernels` have."""
SUBSAMPLE = 2000
"""Points in the pairwise metrics: a 32 MB cost matrix for the transport."""
KEY_LENGTH = 16
"""Hexadecimal digits that identify a configuration."""


@dataclass(frozen=True)
class Objective:
    """What is descended.

    Attributes:
        objective: ``kl``, ``wasserstein``, ``reverse_kl`` or ``e2mc``. VCReg is ``kl`` with both betas 0. The authors'
            settings for figure 1b are beta1 = beta2 = 100, lambda2 = lambda3 = 1, past stability.
        lambda2: weight of the variance term.
        lambda3: weight of the covariance term.
        beta1: weight of the radial cross-entropy (``kl``).
        beta2: weight of the radial entropy (``kl``).
        gamma: weight of the radial or E2MC loss of the other objectives. Ours compare the radii themselves; the
            authors' W1 and reverse KL can divide them by sqrt(dim - 1) first, and then a gamma of theirs is not one
            of ours.
        m: spacing of the entropy (``kl``); None is round(sqrt(N)), which E2MC always uses.

    Raises:
        UserError: unknown objective, or a weight that is negative or not finite.
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
        """The loss weights, as :data:`Weights` of floats."""
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
"""The weights of an objective by name: floats of one run, or tensors of a batch of runs, ``(B, 1)`` each."""


@dataclass(frozen=True)
class SyntheticConfig(Objective):
    """Everything that decides the outcome of a run; two runs with the same values give the same points.

    Attributes:
        distribution: where the points start, a key of :data:`~.distributions.DISTRIBUTIONS`.
        alpha: share of X in ``mixture``.
        num_samples: number of points N.
        dim: dimension d; 2 for the sunshines.
        steps: gradient steps.
        lr: peak learning rate. Gradients are means over N points, so what counts is lr * weight * steps / N for the
            way that a term's weight makes in a run: at 10,000 points and 200,000 steps, 0.5 converges at a weight of
            1 and 0.005 at a weight of 100. Past lr * beta2 of about 1.4 descent is unstable: the result depends on
            rounding, look at several seeds.
        schedule: ``cosine`` (the paper's text), ``linear`` (the authors' command for figure 1) or ``constant`` after
            the warm-up.
        warmup_steps: steps of linear warm-up.
        final_lr: rate at the end of the decay.
        seed: of the starting points and of the metrics' subsample.

    Raises:
        UserError: a value out of range, by name.
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
        # Two points and one step refuse wrong values before the run, not during it.
        sample(self.distribution, 2, self.dim, alpha=self.alpha)
        learning_rates(1, self.lr, schedule=self.schedule, warmup_steps=self.warmup_steps, final_lr=self.final_lr)
        self.spacing(self.num_samples)

    @property
    def definition(self) -> int:
        """Which definition of the distribution's name is meant, from 1."""
        return DISTRIBUTIONS[self.distribution].definition

    @property
    def key(self) -> str:
        """Identifies the configuration: equal keys, equal runs."""
        values = asdict(self)
        if self.definition > 1:
            values["definition"] = self.definition
        text = json.dumps(values, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:KEY_LENGTH]

    def start(self) -> Array:
        """Draw the starting points, shape ``(num_samples, dim)``."""
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
    """The keys of ``radial-vicreg synthetic key=value``: a run's configuration and how it is made.

    Attributes:
        device: ``cpu`` is numba on one core; another torch device, ``cuda`` for example, is PyTorch there.
        snapshots: kept along the way, evenly spaced, the end among them.
        subsample: points of the exact transport, the MMD and the normality test.
        out: folder of the results; None is ``runs/synthetic/DISTRIBUTION-KEY``.
    """

    device: str = "cpu"
    snapshots: int = 5
    subsample: int = SUBSAMPLE
    out: str | None = None

    @property
    def config(self) -> SyntheticConfig:
        """What of it decides the outcome."""
        return SyntheticConfig(**{one.name: getattr(self, one.name) for one in fields(SyntheticConfig)})
