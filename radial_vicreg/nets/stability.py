r"""Predictions before the run: whether its settings diverge, and to which radii the radial term alone would lead.

The radial cross-entropy is :math:`\beta(r^2/2-(d-1)\log r)` of each view. Its second derivative along the radius is
:math:`\beta(1+(d-1)/r^2)`: :math:`2\beta` at its optimum, :math:`r^2=d-1`, and about :math:`7\beta` at
:math:`r=0.4\sqrt d`, where untrained projectors start. Over both views it is twice as large. The projector's last bias
moves every embedding alike, so this curvature applies to it in full. LARS excludes biases from its scaling: they follow
plain gradient descent with momentum, which is stable while rate times curvature is below :math:`2(1+\mu)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from radial_vicreg.config import RunConfig
from radial_vicreg.names.counts import counted

if TYPE_CHECKING:
    from radial_vicreg.losses import RadialEquilibrium

_VIEWS = 2
# Radius of an untrained projector's embeddings, in units of sqrt(d), measured at d 512 and 2048.
_UNTRAINED_RADIUS = 0.4
# Weight of the cross-entropy times rate over steps of warm-up. With LARS at 0.3 and momentum 0.9 on CIFAR-10, 1.5e-3
# (d 512, beta1 100 with 1/d, 39 steps) and 1.3e-3, 5.9e-4, 3.8e-4 (d 2048, beta1 1 without, 234, 507, 780 steps)
# diverge within 30 steps; 3.0e-5 and 1.5e-4 (the same with 1,950 steps) do not.
_STEEPEST_WARMUP = 2e-4
# W1 to chi(d) above which radii follow another distribution; the standard deviation of chi(d) is 0.71.
_FAR_FROM_CHI = 1.0


class Stability(NamedTuple):
    """The curvature of the radial cross-entropy compared with the limit of the optimizer.

    Attributes:
        curvature: curvature along the radius over both views, at the cross-entropy's optimum.
        far_curvature: the same at the radii of untrained embeddings.
        rate: peak learning rate, scaled by the global batch.
        global_batch: images of one step.
        limit: largest curvature that is stable at this rate.
        weight: weight of the cross-entropy, including 1/d.
    """

    curvature: float
    far_curvature: float
    rate: float
    global_batch: int
    limit: float
    weight: float

    @property
    def is_past(self) -> bool:
        """Whether the optimum itself is unstable."""
        return self.curvature > self.limit

    @property
    def largest_batch(self) -> int:
        """The global batch at which linear scaling of the rate reaches the limit."""
        return int(self.global_batch * self.limit / self.curvature)

    @property
    def shortest_warmup(self) -> float:
        """Steps of linear warm-up below which radii were observed to overshoot."""
        return self.weight * self.rate / _STEEPEST_WARMUP


def stability_of(config: RunConfig) -> Stability | None:
    """Compute curvature and limit of a configuration.

    Args:
        config: configuration of a run.

    Returns:
        None without a radial cross-entropy, or if the optimizer scales steps itself (Adam, LARS with biases).

    Raises:
        UserError: a key is missing.
    """
    settings = config.method_kwargs
    weight, dim = settings.radial_ce_loss_weight, settings.proj_output_dim
    if config.radial_objective != "kl" or weight == 0 or not _steps_by_rate_times_gradient(config):
        return None
    if settings.radial_ce_normalize:
        weight /= dim
    rate = config.rates.lr
    momentum = float(config.optimizer.arguments().get("momentum", 0.9))
    return Stability(
        curvature=_VIEWS * 2 * weight,
        far_curvature=_VIEWS * (1 + (dim - 1) / (_UNTRAINED_RADIUS**2 * dim)) * weight,
        rate=rate,
        global_batch=config.global_batch * config.accumulation,
        limit=2 * (1 + momentum) / rate if rate > 0 else float("inf"),
        weight=weight,
    )


def past_stability(config: RunConfig) -> str | None:
    """Describe how far a configuration is past stability in a few words; None if it is stable.

    Args:
        config: configuration of a run.

    Raises:
        UserError: as for :func:`stability_of`.
    """
    found = stability_of(config)
    if found is None or not found.is_past:
        return None
    return f"past stability: curvature {found.curvature:.3g}, limit {found.limit:.3g} at a rate of {found.rate:.3g}"


def stability_warnings(config: RunConfig, steps_per_epoch: int) -> list[str]:
    """Describe what is likely to fail with these settings, and what to change.

    Args:
        config: configuration of a run.
        steps_per_epoch: optimizer steps per epoch.

    Returns:
        One text; empty for settings inside the known range.

    Raises:
        UserError: as for :func:`stability_of`.
    """
    found = stability_of(config)
    if found is None:
        return []
    if found.is_past:
        return [_past_text(config, found)]
    warmup = config.scheduler.warmup_epochs * steps_per_epoch
    if warmup >= found.shortest_warmup:
        return []
    return [
        f"a warm-up of {counted(round(warmup), 'step')} to a rate of {found.rate:.3g} is too short: the gradient of "
        "the radial term, (d - 1) / r, is large while radii are small, so radii overshoot and the covariance term "
        f"makes them diverge; about {found.shortest_warmup:.0f} steps are needed. Lengthen scheduler.warmup_epochs "
        "(here one epoch is "
        f"{steps_per_epoch} steps), lower optimizer.lr, or use radialvicreg/optimizer=adamw"
    ]


def equilibrium_of(config: RunConfig, normalize: bool | None = None) -> RadialEquilibrium | None:
    """Find the equilibrium of a configuration's radial term at its global batch.

    Args:
        config: configuration of a run.
        normalize: replaces the configuration's ``radial_ce_normalize``.

    Returns:
        See :func:`radial_vicreg.losses.radial_equilibrium`.

    Raises:
        UserError: the objective does not take these settings.
    """
    from radial_vicreg.losses import radial_equilibrium  # imports PyTorch, which the stability does not need

    settings = config.method_kwargs
    return radial_equilibrium(
        settings.proj_output_dim,
        settings.radial_ce_loss_weight,
        settings.radial_ent_loss_weight,
        # The entropy is computed over the images of one forward pass: accumulation adds no radii.
        count=config.global_batch,
        m=settings.radial_spacing,
        normalize_ce=settings.radial_ce_normalize if normalize is None else normalize,
        objective=config.radial_objective,
    )


def distant_equilibrium(config: RunConfig) -> RadialEquilibrium | None:
    """Find the equilibrium if both betas count and it is far from chi(d); else None, as for all cells of the paper.

    Args:
        config: configuration of a run.

    Raises:
        UserError: the objective does not take these settings.
    """
    settings, found = config.method_kwargs, equilibrium_of(config)
    both = min(settings.radial_ce_loss_weight, settings.radial_ent_loss_weight) > 0
    return found if both and found is not None and found.w1 > _FAR_FROM_CHI else None


def equilibrium_note(config: RunConfig) -> str | None:
    """Describe in one line how the radial term pulls radii away from chi(d), with the remedy; None if it does not.

    Args:
        config: configuration of a run.

    Raises:
        UserError: the objective does not take these settings.
    """
    found = distant_equilibrium(config)
    if found is None:
        return None
    dim = config.method_kwargs.proj_output_dim
    text = (
        f"note: the radial term alone is minimal at radii of {found.mean:.1f} ± {found.std:.1f}, at a W1 of "
        f"{found.w1:.1f} to chi({dim})"
    )
    other = equilibrium_of(config, normalize=False) if config.method_kwargs.radial_ce_normalize else None
    if other is not None and other.w1 < found.w1:
        return f"{text}; with method_kwargs.radial_ce_normalize=false it would be {other.w1:.2g}"
    return f"{text}; a smaller method_kwargs.radial_ent_loss_weight reduces it"


def _past_text(config: RunConfig, found: Stability) -> str:
    settings = config.method_kwargs
    change = "lower optimizer.lr or method_kwargs.radial_ce_loss_weight"
    if not settings.radial_ce_normalize:
        change = f"set method_kwargs.radial_ce_normalize=true (the factor 1/{settings.proj_output_dim}), or {change}"
    if found.largest_batch > 1:
        change += f"; at this optimizer.lr the limit is a global batch of about {found.largest_batch}"
    return (
        f"the radial cross-entropy is past stability: its curvature {found.curvature:.3g} along the radius at the "
        f"optimum ({found.far_curvature:.3g} at untrained embeddings) is above 2 (1 + momentum) / rate = "
        f"{found.limit:.3g} for {config.optimizer.name} at a rate of {found.rate:.3g} (optimizer.lr "
        f"{config.optimizer.lr:.3g}, global batch {found.global_batch}), so embeddings will collapse onto one "
        f"vector within tens of steps; {change}"
    )


def _steps_by_rate_times_gradient(config: RunConfig) -> bool:
    """Return whether a bias moves by the rate times its gradient: with SGD, and with LARS if biases are excluded."""
    if config.optimizer.name == "lars":
        return bool(config.optimizer.arguments().get("exclude_bias_n_norm", False))
    return config.optimizer.name == "sgd"
