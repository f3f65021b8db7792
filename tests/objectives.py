"""Cases of every objective and the definition of every term, from the declarations of ``radial_vicreg.names.terms``.

Tests of gradients, precision, views, processes and devices run over ``CASES``: a new term is among them once it is
declared. Its formula is written here once more, by functions of one view, as the standard that the loss is held to.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from radial_vicreg import losses
from radial_vicreg.losses import RadialVICRegLoss
from radial_vicreg.losses.radial import REVERSE_KL_TARGETS, reverse_kl_of
from radial_vicreg.names.terms import ADDED, RADIAL, TERMS, VICREG, Key, Term, terms_of

Settings = dict[str, Any]

#: A weight for each term that nothing else has, so that no term can stand for another.
WEIGHTS: dict[str, float] = {
    term.weight.name: (term.weight.default or 1.0) * (1 + place / 10) for place, term in enumerate(TERMS)
}


def other_values(key: Key) -> list[Any]:
    """Values of a key that are not its default."""
    if key.choices:
        return [choice for choice in key.choices if choice != key.default]
    if isinstance(key.default, bool):
        return [not key.default]
    return [key.low or 1] if key.default is None else [key.default + 1]


def _weights(terms: Sequence[Term]) -> Settings:
    return {term.weight.name: WEIGHTS[term.weight.name] for term in terms}


def _read(name: str, chosen: Settings, terms: Sequence[Term]) -> Iterator[tuple[str, Settings]]:
    """A case with these terms, and one for each other value of what they read."""
    yield name, chosen
    for key in (key for term in terms for key in term.reads):
        for value in other_values(key):
            yield f"{name}, {key.short} {value}", {**chosen, key.name: value}


def _cases() -> Iterator[tuple[str, Settings]]:
    for objective in RADIAL:
        chosen = {"radial_objective": objective.name, **_weights(VICREG), **_weights(objective.terms)}
        yield from _read(objective.name, chosen, objective.terms)
        if objective.terms:
            yield f"{objective.name}, centred", {**chosen, "radial_center": True}
    for term in ADDED:
        yield from _read(term.symbol, {"radial_objective": "none", **_weights([term])}, [term])
    everything = {**_weights(RADIAL[0].terms), **_weights(ADDED), "radial_center": True}
    yield f"{RADIAL[0].name} and all that is added", {"radial_objective": RADIAL[0].name, **everything}


CASES: dict[str, Settings] = dict(_cases())
"""Arguments of the loss: each objective, each value of what its terms read, centred, and each added term."""


def _draws(settings: Settings) -> bool:
    try:
        return RadialVICRegLoss(**settings).draws_samples
    except (TypeError, KeyError):  # declaration and loss disagree: losses/test_terms.py says in what
        return False


DRAWING = [name for name, settings in CASES.items() if _draws(settings)]
"""Cases whose value depends on chi draws."""


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(3)


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "variance": losses.variance_loss,
    "covariance": losses.covariance_loss,
    "chi_cross_entropy": losses.chi_cross_entropy,
    "chi_cross_entropy_per_dimension": lambda z: losses.chi_cross_entropy(z, normalize=True),
    "gaussianization": lambda z: losses.radial_gaussianization_loss(z, 1.5, 0.3),
    "radial_kl": losses.radial_kl,
    "wasserstein_quantiles": lambda z: losses.radial_wasserstein_loss(z, "quantiles"),
    "wasserstein_samples": lambda z: losses.radial_wasserstein_loss(z, "samples", _generator()),
    "reverse_kl": lambda z: losses.radial_reverse_kl_loss(z, num_targets=32, generator=_generator()),
    "reverse_kl_fixed_bandwidth": lambda z: losses.radial_reverse_kl_loss(z, 0.5, 32, _generator()),
    "marginal_entropy": losses.marginal_entropy,
    "hypercovariance": losses.hypercovariance_loss,
    "e2mc": losses.e2mc_loss,
    "mean": losses.mean_loss,
}
"""Every function of one view, with its draws fixed so that it is a function of ``z`` alone."""


class Batch(NamedTuple):
    """What a definition is computed from.

    Attributes:
        loss: the module, in evaluation mode: its draws stand still.
        views: embeddings of each view.
        seen: the same as the radial terms see them, minus their mean with ``radial_center``.
    """

    loss: RadialVICRegLoss
    views: tuple[Tensor, ...]
    seen: tuple[Tensor, ...]


def two_means(function: Callable[..., Tensor], *columns: Any) -> Tensor:
    """Twice the mean of a function over the views."""
    values = [function(*row) for row in zip(*columns, strict=True)]
    return 2 * torch.stack(values).mean()


def _invariance(batch: Batch) -> Tensor:
    pairs = itertools.combinations(batch.views, 2)
    return torch.stack([losses.invariance_loss(first, second) for first, second in pairs]).mean()


def _wasserstein(batch: Batch) -> Tensor:
    targets: Any = ["quantiles"] * len(batch.views)
    if batch.loss.radial_w1_target == "samples":
        targets = batch.loss._draws(len(batch.views[0]), batch.views).unbind(1)
    return two_means(losses.radial_wasserstein_loss, batch.seen, targets)


def _reverse_kl(batch: Batch) -> Tensor:
    draws = batch.loss._draws(REVERSE_KL_TARGETS, batch.views).unbind(1)
    return two_means(reverse_kl_of, [z.norm(dim=1) for z in batch.seen], draws)


DEFINITIONS: dict[str, Callable[[Batch], Tensor]] = {
    "vicreg_invariance": _invariance,
    "vicreg_variance": lambda batch: two_means(losses.variance_loss, batch.views),
    "vicreg_covariance": lambda batch: two_means(losses.covariance_loss, batch.views),
    "radial_ce": lambda batch: two_means(
        lambda z: losses.chi_cross_entropy(z, batch.loss.radial_ce_normalize), batch.seen
    ),
    "radial_entropy": lambda batch: two_means(
        lambda z: losses.m_spacing_entropy(z.norm(dim=1), batch.loss.radial_spacing), batch.seen
    ),
    "radial_w1": _wasserstein,
    "radial_reverse_kl": _reverse_kl,
    "e2mc": lambda batch: two_means(losses.e2mc_loss, batch.views),
    "mean_loss": lambda batch: two_means(losses.mean_loss, batch.views),
}
"""Each term by its name, by the functions of one view and of one pair."""


def batch_of(loss: RadialVICRegLoss, views: Sequence[Tensor]) -> Batch:
    """What the definitions are computed from."""
    seen = [z - z.mean(dim=0) for z in views] if loss.radial_center else views
    return Batch(loss.eval(), tuple(views), tuple(seen))


def counted_terms(loss: RadialVICRegLoss) -> list[Term]:
    """Terms of which the loss is the weighted sum."""
    added = [term for term in ADDED if getattr(loss, term.weight.name)]
    return [*VICREG, *terms_of(loss.radial_objective), *added]


def weighted_sum(loss: RadialVICRegLoss, value: Callable[[Term], Tensor]) -> Tensor:
    """The total by the declared weights and signs."""
    return torch.stack(
        [term.sign * getattr(loss, term.weight.name) * value(term) for term in counted_terms(loss)]
    ).sum()
