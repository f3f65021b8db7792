r"""Terms of the objective, without PyTorch: their functions, weights, further settings and labels in a report.

A term is declared here and computed in :mod:`radial_vicreg.losses`: its function, and its line in
:class:`~radial_vicreg.losses.RadialVICRegLoss`, which takes every key as an argument. ``method_kwargs``, identities,
labels of the report and the cases of the tests follow from the declarations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

Value = float | int | bool | str | None
"""A value of a setting of the objective."""


class Key(NamedTuple):
    """A setting of the objective: an argument of the loss and a key of ``method_kwargs``.

    Attributes:
        name: of the argument and the key.
        default: value of an omitted key. The values have its type; with None they are integers or None.
        meaning: in a few words.
        low: smallest value of a number; None for flags and choices.
        choices: every value of a choice.
        aliases: names in the paper and in its authors' code, which error messages recognise.
        unset: meaning of None.
    """

    name: str
    default: Any
    meaning: str
    low: int | None = None
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    unset: str = ""

    @property
    def short(self) -> str:
        """The name without ``radial_``, for a report."""
        return self.name.removeprefix("radial_")


class Term(NamedTuple):
    r"""A term of the objective.

    Attributes:
        name: in ``terms`` of the loss and in logs.
        weight: setting of its weight; a term of weight zero does not count.
        function: function of :mod:`radial_vicreg.losses` that computes it for one view (the invariance: for two).
        formula: formula of that function, in LaTeX.
        symbol: of the weight, in the columns of a report.
        label: of the weight or the term, in the labels of a report.
        reads: further settings of the term.
        sign: 1, or -1 for a term that is maximised.
        logged: whether logs show it even if it does not count.
    """

    name: str
    weight: Key
    function: str
    formula: str
    symbol: str
    label: str
    reads: tuple[Key, ...] = ()
    sign: int = 1
    logged: bool = False


class RadialObjective(NamedTuple):
    """Objective for the radii.

    Attributes:
        name: value of ``radial_objective``.
        label: of the method in a report.
        terms: terms whose weighted sum is the radial loss.
    """

    name: str
    label: str
    terms: tuple[Term, ...] = ()


VICREG = (
    Term(
        "vicreg_invariance",
        Key("sim_loss_weight", 25.0, "lambda1, weight of the invariance", low=0, aliases=("lambda1",)),
        "invariance_loss",
        r"\frac1{Nd}\sum_{ij}(z_{ij}-z'_{ij})^2",
        symbol="lambda1",
        label="λ1",
        logged=True,
    ),
    Term(
        "vicreg_variance",
        Key("var_loss_weight", 25.0, "lambda2, weight of the variance", low=0, aliases=("lambda2",)),
        "variance_loss",
        r"\frac1d\sum_j\max(0,\gamma-\sqrt{\mathrm{Var}(z^j)+\epsilon})",
        symbol="lambda2",
        label="λ2",
        logged=True,
    ),
    Term(
        "vicreg_covariance",
        Key("cov_loss_weight", 1.0, "lambda3, weight of the covariance", low=0, aliases=("lambda3",)),
        "covariance_loss",
        r"\frac1d\sum_{i\neq j}C_{ij}^2",
        symbol="lambda3",
        label="λ3",
        logged=True,
    ),
)
"""Terms that every objective has."""

RADIAL = (
    RadialObjective(
        "kl",
        "Radial-VICReg",
        (
            Term(
                "radial_ce",
                Key(
                    "radial_ce_loss_weight",
                    100.0,
                    'beta1 ("rlw"), weight of the radial cross-entropy',
                    low=0,
                    aliases=("beta1", "rlw"),
                ),
                "chi_cross_entropy",
                r"\frac1N\sum_i\tfrac12\|z_i\|^2-(d-1)\log\|z_i\|",
                symbol="beta1",
                label="β1",
                reads=(Key("radial_ce_normalize", True, "divide the cross-entropy by d"),),
                logged=True,
            ),
            Term(
                "radial_entropy",
                Key(
                    "radial_ent_loss_weight",
                    0.0,
                    'beta2 ("rlew"), weight of the radial entropy',
                    low=0,
                    aliases=("beta2", "rlew"),
                ),
                "m_spacing_entropy",
                r"\frac1{N-m}\sum_{i=1}^{N-m}\log\big(\frac{N+1}m(r_{(i+m)}-r_{(i)})\big)",
                symbol="beta2",
                label="β2",
                reads=(
                    Key(
                        "radial_spacing",
                        None,
                        "m of the entropy; null is round(sqrt(N)) of the global batch",
                        low=1,
                        aliases=("m",),
                        unset="round(sqrt(N))",
                    ),
                ),
                sign=-1,
                logged=True,
            ),
        ),
    ),
    RadialObjective(
        "wasserstein",
        "Radial-VICReg W1",
        (
            Term(
                "radial_w1",
                Key("radial_w1_loss_weight", 1.0, "gamma, weight of the Wasserstein-1 term", low=0, aliases=("gamma",)),
                "radial_wasserstein_loss",
                r"\frac1K\sum_i|r_{(i)}-u_{(i)}|",
                symbol="gamma",
                label="γ",
                reads=(
                    Key(
                        "radial_w1_target",
                        "samples",
                        "reference radii: random samples of chi(d), or its quantiles",
                        choices=("samples", "quantiles"),
                    ),
                ),
            ),
        ),
    ),
    RadialObjective(
        "reverse_kl",
        "Radial-VICReg rKL",
        (
            Term(
                "radial_reverse_kl",
                Key("radial_reverse_kl_loss_weight", 1.0, "weight of the reverse KL", low=0),
                "radial_reverse_kl_loss",
                r"-\frac1K\sum_k\log\hat p(u_k)",
                symbol="gamma",
                label="γ",
            ),
        ),
    ),
    RadialObjective("none", "VICReg"),
)
"""Objectives for the radii."""

ADDED = (
    Term(
        "e2mc",
        Key("e2mc_loss_weight", 0.0, "weight of E2MC, with any radial objective", low=0),
        "e2mc_loss",
        r"w\,c(\sigma(Z))-\frac1d\sum_jH(\sigma(z^j))",
        symbol="e2mc",
        label="E2MC",
    ),
    Term(
        "mean_loss",
        Key("mean_loss_weight", 0.0, "weight of the squared mean, with any radial objective", low=0),
        "mean_loss",
        r"\frac1d\sum_jm_j^2",
        symbol="mean",
        label="mean",
        logged=True,
    ),
)
"""Terms that are read whatever the radial objective."""

LOGGED = (
    "loss",
    "vicreg_loss",
    "radial_loss",
    "radial_kl",
    "w1_chi",
    "radius_mean",
    "radius_std",
    "embedding_mean_norm",
    "embedding_mean_share",
    "embedding_trace",
)
"""Further entries of ``terms`` of the loss: sums of terms, and measurements."""

OBJECTIVE_LABELS = {objective.name: objective.label for objective in RADIAL}
"""Method names in a report, by objective for the radii."""

RADIAL_OBJECTIVES = tuple(OBJECTIVE_LABELS)
"""Objectives for the radii, by the name that configurations use."""

_CHOICE = Key("radial_objective", "kl", "objective that matches the radii to chi(d)", choices=RADIAL_OBJECTIVES)
_CENTRE = Key("radial_center", False, "subtract the batch mean before the radii are computed; the paper does not")


def terms_of(objective: str) -> tuple[Term, ...]:
    """List the radial terms of an objective; none for an unknown one, such as another version's.

    Args:
        objective: value of ``radial_objective``.
    """
    return next((found.terms for found in RADIAL if found.name == objective), ())


RADIAL_TERMS = tuple(term for objective in RADIAL for term in objective.terms)
TERMS = (*VICREG, *RADIAL_TERMS, *ADDED)
"""Every term."""


def _keys() -> Iterator[Key]:
    """List all keys in the order of the loss's arguments: for each objective its weights, then its further settings."""
    yield from (term.weight for term in VICREG)
    yield _CHOICE
    for objective in RADIAL:
        yield from (term.weight for term in objective.terms)
        yield from (key for term in objective.terms for key in term.reads)
    yield from (term.weight for term in ADDED)
    yield from (key for term in ADDED for key in term.reads)
    yield _CENTRE


OBJECTIVE: dict[str, Key] = {key.name: key for key in _keys()}
"""``method_kwargs`` that are arguments of :class:`radial_vicreg.losses.RadialVICRegLoss`."""

LOSS_DEFAULTS: dict[str, Any] = {name: key.default for name, key in OBJECTIVE.items()}

WASSERSTEIN_TARGETS = OBJECTIVE["radial_w1_target"].choices
"""Targets of the radii: new chi samples, or exact quantiles."""

METHODS = ("radialvicreg", "vicreg")
"""Methods whose loss is :class:`radial_vicreg.losses.RadialVICRegLoss`; any other method has a custom loss."""

METHOD_LABELS = {
    "radialvicreg": OBJECTIVE_LABELS[_CHOICE.default],
    "vicreg": OBJECTIVE_LABELS["none"],
    "e2mc": " + ".join([OBJECTIVE_LABELS["none"], *(term.label for term in ADDED if term.symbol == "e2mc")]),
    "barlow": "Barlow Twins",
    "lejepa": "LeJEPA",
    "visreg": "VISReg",
}
"""Names in a report of the methods of ``yaml/radialvicreg/method``; others keep the name in their configuration."""


def method_in_words(objective: str, centred: bool = False, added: Iterable[str] = ()) -> str:
    """Name a method without its weights as reports and legends show it: ``Radial-VICReg centred + mean``.

    Args:
        objective: objective for the radii, or the name of a method with a custom loss.
        centred: whether the radii are those of z minus the batch mean.
        added: symbols of the added terms that count.
    """
    name = OBJECTIVE_LABELS.get(objective) or METHOD_LABELS.get(objective, objective)
    words = [f" + {term.label}" for term in ADDED if term.symbol in set(added)]
    return "".join([name, *[" centred"] * centred, *words])


def objective_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Reduce a configuration to the settings that its loss depends on.

    Args:
        config: resolved, plain containers.

    Returns:
        For our methods, see :func:`effective_objective`; for a custom ``loss``, its target with its arguments, and the
        views that it is called with. The method's name is not included.
    """
    if loss := config.get("loss"):
        return {"loss": dict(loss), "views": config.get("loss_views") or "pair"}
    return effective_objective(str(config.get("method")), config.get("method_kwargs") or {})


def effective_objective(method: str, kwargs: Mapping[str, Any]) -> dict[str, Value]:
    """Reduce ``method_kwargs`` to the settings that the loss depends on.

    A key that the chosen objective does not read, or that belongs to a term of weight zero, is omitted, so that
    configurations with equal results train alike. VICReg is Radial-VICReg without radial terms.

    Args:
        method: ``"vicreg"`` or ``"radialvicreg"``.
        kwargs: ``method_kwargs``, complete or not; keys that are not settings of the loss are ignored.

    Returns:
        The keys that are read, with their values; ``radial_objective`` is ``"none"`` where no radial term counts.
    """
    given = {name: kwargs.get(name, default) for name, default in LOSS_DEFAULTS.items()}
    objective = "none" if method == "vicreg" else str(given["radial_objective"])
    if objective not in RADIAL_OBJECTIVES:
        return {**given, "radial_objective": objective}  # from another version: its settings are unknown
    kept: dict[str, Value] = {term.weight.name: given[term.weight.name] for term in VICREG}
    kept |= _counted(ADDED, given)
    radial = _counted(terms_of(objective), given)
    if not radial:
        return {"radial_objective": "none", **kept}
    return {"radial_objective": objective, "radial_center": bool(given["radial_center"]), **kept, **radial}


def _counted(terms: tuple[Term, ...], given: Mapping[str, Value]) -> dict[str, Value]:
    """Keep the weights that are not zero, each with the further settings of its term."""
    counted = (term for term in terms if given[term.weight.name])
    return {key.name: given[key.name] for term in counted for key in (term.weight, *term.reads)}
