"""Base class of probes: choose one hyperparameter on held-out images, then fit on the whole training set."""

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
    """A metric of an online probe that has a column in the report.

    Attributes:
        metric: name of the metric; default: top-1.
        variant: variant of the probe, such as the k of the kNN.
    """

    metric: str = HEADLINES[0]
    variant: str = ""


@dataclass(frozen=True)
class Online:
    """Use of a probe during the training of a network.

    Attributes:
        name: its figures are stored as ``online_<name>`` in ``results.json`` and logged as ``val_<name>_acc1``.
        features: one of :data:`radial_vicreg.names.probes.FEATURES`.
        learns: ``"network"``: the host trains it together with the network; ``"batches"``: :meth:`Probe.head` is
            trained on every batch; ``"bank"``: :meth:`Probe.votes` uses features that were computed in the epoch.
        switch: key of section ``probes`` that switches it on; None: it is always on.
        settings: keys of section ``probes`` that change its figures.
        columns: its columns in the report, by heading.
    """

    name: str
    features: str
    learns: Literal["network", "batches", "bank"]
    switch: str | None = None
    settings: tuple[str, ...] = ()
    columns: Mapping[str, Shown] = field(default_factory=dict)


@dataclass(frozen=True)
class Frozen:
    """Use of a probe on frozen encoder features before and after training, with ``probes.frozen_<name>``.

    Attributes:
        columns: its columns in the report, by heading; the value is ``"trained"`` or ``"untrained"``.
    """

    columns: Mapping[str, Literal["trained", "untrained"]]


class Probe(ABC):
    """A probe of frozen features with one hyperparameter.

    The hyperparameter is chosen on a held-out fifth of the training set, stratified where possible; the probe is then
    fitted on the whole training set. The test set is not used for the choice. A subclass defines its names and uses as
    class attributes, the fit with one candidate (:meth:`_fit`) and its figures (:meth:`_figures`). Its constructor
    has a default for every argument.

    Args:
        candidates: values of the hyperparameter; in a tie, the first one is chosen.
        seed: seed of the held-out split and of all random numbers in the fit.

    Attributes:
        name: name of the probe and of its module.
        label: label of the probe in headings of the report.
        choice: name of the hyperparameter.
        online: its uses during training.
        frozen: its use before and after training; None without one.
        chosen_: the chosen candidate by the name of the hyperparameter, after :meth:`fit`.
        held_out_: figure of each candidate on the held-out part.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    choice: ClassVar[str]
    online: ClassVar[tuple[Online, ...]] = ()
    frozen: ClassVar[Frozen | None] = None

    def __init_subclass__(cls) -> None:
        """Refuse a class without the attributes that the command line, training and the report use."""
        super().__init_subclass__()
        if missing := next(_missing(cls), None):
            raise TypeError(f"{cls.__name__} {missing}; see radial_vicreg.probes.base.Probe")

    def __init__(self, candidates: Sequence[Any] = (), seed: int = 0) -> None:
        self.candidates = tuple(candidates)
        self.seed = seed

    def fit(self, features: Tensor, labels: Tensor, bar: str | None = None) -> Self:
        """Choose the hyperparameter and fit the probe.

        Args:
            features: shape ``(N, F)``, floating point.
            labels: classes ``(N,)``, integers, or attributes ``(N, A)`` of zeros and ones.
            bar: label of a progress bar over the candidates; None: no progress bar.

        Returns:
            The probe itself.

        Raises:
            UserError: shapes do not agree, there are fewer than two classes, or features are not finite.
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
        """Evaluate the probe on other images.

        Args:
            features: shape ``(N, F)``.
            labels: shape ``(N,)`` or ``(N, A)``.

        Returns:
            ``top1`` and ``top5`` in percent (100 with fewer than 6 classes), or the multi-label figures.

        Raises:
            UserError: shapes do not agree, features are not finite, or classes are unknown.
        """
        x = check_features(features, labels)
        return self._figures(x, self._targets.encode(labels))

    @classmethod
    def head(cls, width: int, outputs: int, settings: ProbesConfig) -> nn.Module:
        """Build the head that is trained on every batch.

        Args:
            width: number of features.
            outputs: number of classes or attributes.
            settings: section ``probes`` of the configuration.

        Returns:
            Module that maps features ``(N, width)`` to logits ``(N, outputs)``.
        """
        raise NotImplementedError

    @classmethod
    def votes(
        cls, bank: Tensor, targets: Tensor, queries: Tensor, outputs: int, settings: ProbesConfig
    ) -> dict[str, Tensor]:
        """Score images by a bank of features that were computed during training.

        Args:
            bank: features of training images, shape ``(M, F)``.
            targets: their classes ``(M,)`` or attributes ``(M, A)``.
            queries: features of the images to score, shape ``(Q, F)``.
            outputs: number of classes or attributes.
            settings: section ``probes`` of the configuration.

        Returns:
            Scores ``(Q, outputs)`` by variant, a suffix of the online probe's name.
        """
        raise NotImplementedError

    def _try(self, x: Tensor, y: Tensor, x_held: Tensor, y_held: Tensor) -> Iterator[tuple[float, dict[str, object]]]:
        """Fit each candidate and yield it with its figures on held-out images."""
        for candidate in self.candidates:
            self._fit(x, y, candidate)
            yield candidate, self._figures(x_held, y_held)

    @abstractmethod
    def _fit(self, features: Tensor, encoded: Tensor, candidate: Any) -> None:
        """Fit on features ``(N, F)`` and targets that :meth:`.Targets.encode` encoded."""

    @abstractmethod
    def _figures(self, features: Tensor, encoded: Tensor) -> dict[str, object]:
        """Compute the result of :meth:`score` for the last fit."""


def _missing(probe: type[Probe]) -> Iterator[str]:
    """List the defects of a probe class, such as missing attributes and methods."""
    for attribute in ("name", "label", "choice"):
        if not isinstance(getattr(probe, attribute, None), str):
            yield f"has no {attribute}"
    for use in probe.online:
        if use.features not in FEATURES:
            yield f"has features {use.features!r}, which must be one of {', '.join(FEATURES)}"
        for key in (use.switch, *use.settings):
            if key is not None and key not in ProbesConfig.model_fields:
                yield f"names a setting without a field: ProbesConfig has no {key}"
        source = "a bank" if use.learns == "bank" else use.learns
        if use.learns != "network" and use.switch is None:
            yield f"learns from {source}, but has no switch in ProbesConfig"
        needed = {"batches": "head", "bank": "votes"}.get(use.learns)
        if needed is not None and getattr(probe, needed).__func__ is getattr(Probe, needed).__func__:
            yield f"learns from {source}, but has no {needed}"
    if probe.frozen is not None:
        key = frozen_key(probe.name)
        if key not in ProbesConfig.model_fields:
            yield f"is fitted on frozen features, but ProbesConfig has no {key}"
        if key not in Probes.model_fields:
            yield f"is fitted on frozen features, but results.Probes has no {key}"
        if f"{key}_seconds" not in Cost.model_fields or f"{key}_memory_mb" not in Cost.model_fields:
            yield f"is fitted on frozen features, but results.Cost has no {key}_seconds and {key}_memory_mb"
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
