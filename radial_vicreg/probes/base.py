"""What every probe says of itself and does: it chooses one number on held-out images, then learns from all others."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from torch import Tensor, nn

from radial_vicreg.config import ProbesConfig
from radial_vicreg.io.terminal import track
from radial_vicreg.names.probes import FEATURES, HEADLINES, frozen_key
from radial_vicreg.probes.selection import Targets, check_features, chosen_by, hold_out
from radial_vicreg.runs.results import Cost, Probes

if TYPE_CHECKING:
    from typing_extensions import Self


class Shown(NamedTuple):
    """A figure of an online probe with a column in the report.

    Attributes:
        metric: the figure; default: top-1.
        variant: of a probe with several, such as the k of the kNN.
    """

    metric: str = HEADLINES[0]
    variant: str = ""


@dataclass(frozen=True)
class Online:
    """How a probe learns while a network trains.

    Attributes:
        name: its figures are ``online_<name>`` in ``results.json``, and logged as ``val_<name>_acc1``.
        features: one of :data:`radial_vicreg.names.probes.FEATURES`.
        learns: ``"network"``: the host trains it together with the network; ``"batches"``: :meth:`Probe.head` is
            trained on every batch; ``"bank"``: :meth:`Probe.votes` are of features that the epoch has computed.
        switch: key of section ``probes`` that switches it on; None: it is always on.
        settings: keys of section ``probes`` that change its figures.
        columns: what the report shows of it, by heading.
    """

    name: str
    features: str
    learns: Literal["network", "batches", "bank"]
    switch: str | None = None
    settings: tuple[str, ...] = ()
    columns: Mapping[str, Shown] = field(default_factory=dict)


@dataclass(frozen=True)
class Frozen:
    """How a probe is fitted on frozen encoder features before and after a training, with ``probes.frozen_<name>``.

    Attributes:
        columns: what the report shows of it, by heading: the moment, ``"trained"`` or ``"untrained"``.
    """

    columns: Mapping[str, Literal["trained", "untrained"]]


class Probe(ABC):
    """A probe of frozen features with one number to choose.

    A fifth of the training set, stratified where possible, chooses among the candidates; the probe is then fitted on
    the whole training set. The test set has no part in the choice. A subclass has its names and uses as class
    attributes, how to fit with one candidate (:meth:`_fit`) and what came of it (:meth:`_figures`). Its constructor
    has a default for every argument.

    Args:
        candidates: to choose from; the first of those that do equally well is taken.
        seed: of the held-out split, and of whatever the fit draws.

    Attributes:
        name: of the probe everywhere, and of its module.
        label: of the probe in headings of the report.
        choice: of the number that is chosen.
        online: how it learns while a network trains.
        frozen: how it is fitted before and after a training; None: it is not.
        chosen_: the chosen candidate by its name, after :meth:`fit`.
        held_out_: each candidate with its figure on the held-out part.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    choice: ClassVar[str]
    online: ClassVar[tuple[Online, ...]] = ()
    frozen: ClassVar[Frozen | None] = None

    def __init_subclass__(cls) -> None:
        """Refuse a class that lacks what the command line, a training or the report will ask of it."""
        super().__init_subclass__()
        if missing := next(_missing(cls), None):
            raise TypeError(f"{cls.__name__} {missing}; see radial_vicreg.probes.base.Probe")

    def __init__(self, candidates: Sequence[Any] = (), seed: int = 0) -> None:
        self.candidates = tuple(candidates)
        self.seed = seed

    def fit(self, features: Tensor, labels: Tensor, bar: str | None = None) -> Self:
        """Choose and fit.

        Args:
            features: shape ``(N, F)``, floating point.
            labels: classes ``(N,)``, integers, or attributes ``(N, A)`` of zeros and ones.
            bar: label of a progress bar over the candidates; None shows none.

        Returns:
            The probe itself.

        Raises:
            UserError: shapes that do not agree, fewer than two classes, or non-finite features.
        """
        x = check_features(features, labels)
        self._targets = Targets(labels)
        y = self._targets.encode(labels)
        fit, held = hold_out(y, self.seed)
        tried = self._try(x[fit], y[fit], x[held], y[held])
        if bar is not None:
            tried = track(tried, bar, len(self.candidates))
        self.held_out_ = [{self.choice: candidate, "score": chosen_by(figures)} for candidate, figures in tried]
        best = max(self.held_out_, key=lambda entry: entry["score"])
        self.chosen_ = {self.choice: best[self.choice]}
        self._fit(x, y, best[self.choice])
        return self

    def score(self, features: Tensor, labels: Tensor) -> dict[str, object]:
        """Compute figures on other images.

        Args:
            features: shape ``(N, F)``.
            labels: shape ``(N,)`` or ``(N, A)``.

        Returns:
            ``top1`` and ``top5`` in percent (100 with fewer than 6 classes), or the multi-label figures.

        Raises:
            UserError: shapes that do not agree, non-finite features, or unknown classes.
        """
        x = check_features(features, labels)
        return self._figures(x, self._targets.encode(labels))

    @classmethod
    def head(cls, width: int, outputs: int, settings: ProbesConfig) -> nn.Module:
        """Build what learns from every batch of a training.

        Args:
            width: of the features.
            outputs: number of classes or attributes.
            settings: section ``probes`` of the configuration.

        Returns:
            Features ``(N, width)`` to logits ``(N, outputs)``.
        """
        raise NotImplementedError

    @classmethod
    def votes(
        cls, bank: Tensor, targets: Tensor, queries: Tensor, outputs: int, settings: ProbesConfig
    ) -> dict[str, Tensor]:
        """Score images by the features of others that a training has computed.

        Args:
            bank: their features, shape ``(M, F)``.
            targets: their classes ``(M,)`` or attributes ``(M, A)``.
            queries: features of the images, shape ``(Q, F)``.
            outputs: number of classes or attributes.
            settings: section ``probes`` of the configuration.

        Returns:
            Scores ``(Q, outputs)`` by variant, which follows the name of the online probe.
        """
        raise NotImplementedError

    def _try(self, x: Tensor, y: Tensor, x_held: Tensor, y_held: Tensor) -> Iterator[tuple[float, dict[str, object]]]:
        """Fit each candidate and list it with its figures on held-out images."""
        for candidate in self.candidates:
            self._fit(x, y, candidate)
            yield candidate, self._figures(x_held, y_held)

    @abstractmethod
    def _fit(self, features: Tensor, encoded: Tensor, candidate: Any) -> None:
        """Fit on features ``(N, F)`` and targets as :meth:`.Targets.encode` gives them."""

    @abstractmethod
    def _figures(self, features: Tensor, encoded: Tensor) -> dict[str, object]:
        """Compute what :meth:`score` returns, of what was fitted last."""


def _missing(probe: type[Probe]) -> Iterator[str]:
    """List what a class of a probe lacks."""
    for attribute in ("name", "label", "choice"):
        if not isinstance(getattr(probe, attribute, None), str):
            yield f"has no {attribute}"
    for use in probe.online:
        if use.features not in FEATURES:
            yield f"has features {use.features!r}, which must be one of {', '.join(FEATURES)}"
        for key in (use.switch, *use.settings):
            if key is not None and key not in ProbesConfig.model_fields:
                yield f"names a setting that config.ProbesConfig has no field for: ProbesConfig has no {key}"
        source = "a bank" if use.learns == "bank" else use.learns
        if use.learns != "network" and use.switch is None:
            yield f"learns from {source} and has no switch in ProbesConfig"
        needed = {"batches": "head", "bank": "votes"}.get(use.learns)
        if needed is not None and getattr(probe, needed).__func__ is getattr(Probe, needed).__func__:
            yield f"learns from {source} and has no {needed}"
    if probe.frozen is not None:
        key = frozen_key(probe.name)
        if key not in ProbesConfig.model_fields:
            yield f"is fitted on frozen features, and ProbesConfig has no {key}"
        if key not in Probes.model_fields:
            yield f"is fitted on frozen features, and results.Probes has no {key}"
        if f"{key}_seconds" not in Cost.model_fields or f"{key}_memory_mb" not in Cost.model_fields:
            yield f"is fitted on frozen features, and results.Cost has no {key}_seconds and {key}_memory_mb"
    for method in ("_fit", "_figures"):
        if getattr(getattr(probe, method), "__isabstractmethod__", False):
            yield f"has no {method}"
    if probe.__init__ is Probe.__init__:
        yield "has no __init__ with its candidates"
    arguments = list(inspect.signature(probe).parameters.values())
    if "seed" not in {argument.name for argument in arguments}:
        yield "takes no seed"
    if any(argument.default is argument.empty for argument in arguments):
        yield "has an argument without a default"
