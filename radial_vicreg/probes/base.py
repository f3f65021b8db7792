"""What every probe does: it chooses one number on held-out images, then learns from the whole training set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor

from radial_vicreg.probes.selection import Targets, check_features, headline, hold_out
from radial_vicreg.terminal import track

if TYPE_CHECKING:
    from typing_extensions import Self


class Probe(ABC):
    """A probe of frozen features with one number to choose.

    A fifth of the training set, stratified where possible, chooses among the candidates; the probe is then fitted on
    the whole training set. The test set has no part in the choice. A subclass says what the number is called
    (``choice``), how to fit with one candidate (:meth:`_fit`) and what came of it (:meth:`_figures`).

    Args:
        candidates: to choose from; the first of those that do equally well is taken.
        seed: of the held-out split, and of whatever the fit draws.

    Attributes:
        chosen_: the chosen candidate by its name, after :meth:`fit`.
        held_out_: each candidate with its figure on the held-out part.
    """

    choice: ClassVar[str]

    def __init__(self, candidates: Sequence[Any], seed: int) -> None:
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
        self.held_out_ = [{self.choice: candidate, "score": headline(figures)} for candidate, figures in tried]
        best = max(self.held_out_, key=lambda entry: entry["score"])
        self.chosen_ = {self.choice: best[self.choice]}
        self._fit(x, y, best[self.choice])
        return self

    def score(self, features: Tensor, labels: Tensor) -> dict[str, Any]:
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

    def _try(self, x: Tensor, y: Tensor, x_held: Tensor, y_held: Tensor) -> Iterator[tuple[float, dict[str, Any]]]:
        """Fit each candidate and list it with its figures on held-out images."""
        for candidate in self.candidates:
            self._fit(x, y, candidate)
            yield candidate, self._figures(x_held, y_held)

    @abstractmethod
    def _fit(self, features: Tensor, encoded: Tensor, candidate: Any) -> None:
        """Fit on features ``(N, F)`` and targets as :meth:`.Targets.encode` gives them."""

    @abstractmethod
    def _figures(self, features: Tensor, encoded: Tensor) -> dict[str, Any]:
        """Compute what :meth:`score` returns, of what was fitted last."""
