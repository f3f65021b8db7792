r"""Settings that are known to diverge, told before the run.

The radial cross-entropy is :math:`\beta(r^2/2-(d-1)\log r)` of each view. At its optimum, :math:`r^2=d-1`, its second
derivative along the radius is :math:`2\beta`, so :math:`4\beta` over both views. The projector's last bias moves every
embedding alike and therefore meets all of it; LARS leaves biases out of its scaling, so that for it LARS is plain
gradient descent with momentum, which is stable while rate times curvature is below :math:`2(1+\mu)`.
"""

from __future__ import annotations

from omegaconf import DictConfig, OmegaConf

from radial_vicreg.hosts.standalone.optim import process_count

# Seen with LARS at 0.3 (CIFAR-10, d 512, beta1 100): 39 steps of warm-up diverge at step 9, 1,950 train well.
_SHORTEST_WARMUP = 200
_LARGE_RATE = 0.1


def stability_warnings(cfg: DictConfig, steps_per_epoch: int) -> list[str]:
    """What is likely to go wrong with these settings, and what to change.

    Args:
        cfg: configuration with complete ``method_kwargs``, rates as written.
        steps_per_epoch: optimizer steps.

    Returns:
        One text for each hazard; empty for settings inside the known range.
    """
    kwargs = cfg.method_kwargs
    weight = float(kwargs.radial_ce_loss_weight)
    if kwargs.radial_objective != "kl" or weight == 0 or not _steps_by_rate_times_gradient(cfg):
        return []
    found = []
    dim = int(kwargs.proj_output_dim)
    rate = float(cfg.optimizer.lr) * cfg.optimizer.batch_size * process_count(cfg) / 256
    momentum = float(OmegaConf.select(cfg, "optimizer.kwargs.momentum", default=0.9))
    curvature = 4 * weight / (dim if kwargs.radial_ce_normalize else 1)
    limit = 2 * (1 + momentum) / rate if rate > 0 else float("inf")
    if curvature > limit:
        change = "lower optimizer.lr or method_kwargs.radial_ce_loss_weight"
        if not kwargs.radial_ce_normalize:
            change = f"set method_kwargs.radial_ce_normalize=true (the factor 1/{dim}), or {change}"
        found.append(
            f"the radial cross-entropy is past stability: its curvature {curvature:.3g} along the radius is above "
            f"2 (1 + momentum) / rate = {limit:.3g} for {cfg.optimizer.name} at a rate of {rate:.3g}, so embeddings "
            f"will collapse onto one vector within tens of steps; {change}"
        )
    warmup = float(OmegaConf.select(cfg, "scheduler.warmup_epochs", default=10)) * steps_per_epoch
    if warmup < _SHORTEST_WARMUP and rate >= _LARGE_RATE:
        found.append(
            f"a warm-up of {warmup:.0f} steps to a rate of {rate:.3g} is short: the radial term pulls with "
            "(d - 1) / r, which is large while radii are small. At 0.3, 39 steps have diverged and 1,950 have not; "
            f"lengthen scheduler.warmup_epochs (here one epoch is {steps_per_epoch} steps), lower optimizer.lr, or use "
            "shared/optimizer=adamw"
        )
    return found


def _steps_by_rate_times_gradient(cfg: DictConfig) -> bool:
    """Whether a bias moves by the rate times its gradient: with SGD, and with LARS where biases are excluded."""
    if cfg.optimizer.name == "lars":
        return bool(OmegaConf.select(cfg, "optimizer.kwargs.exclude_bias_n_norm", default=False))
    return bool(cfg.optimizer.name == "sgd")
