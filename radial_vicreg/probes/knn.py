"""k nearest neighbours by cosine similarity, with similarity-weighted votes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from radial_vicreg.config import ProbesConfig
from radial_vicreg.errors import UserError
from radial_vicreg.probes.base import Online, Probe, Shown
from radial_vicreg.probes.metrics import are_attributes

_DEFAULTS = ProbesConfig()
_LARGEST_BLOCK = 1 << 24  # number of similarities computed at once: 64 MB in float32


def knn_scores(
    bank: Tensor,
    bank_targets: Tensor,
    queries: Tensor,
    neighbours: Sequence[int] = _DEFAULTS.knn_neighbours,
    classes: int | None = None,
    temperature: float = _DEFAULTS.knn_temperature,
) -> dict[int, Tensor]:
    r"""Compute votes of the k nearest neighbours, each weighted by :math:`\exp(\cos / \tau)`.

    Memory is bounded: similarities are computed for blocks of queries that fit into 64 MB.

    Args:
        bank: features of labelled images, shape ``(M, F)``.
        bank_targets: classes ``(M,)``, or attributes ``(M, A)`` of zeros and ones.
        queries: features of the images to classify, shape ``(Q, F)``.
        neighbours: values of k; a value larger than the bank means the whole bank.
        classes: number of classes; default: the largest class of the bank, plus one.
        temperature: :math:`\tau`.

    Returns:
        For each k: the share of the votes for each class, shape ``(Q, classes)``, float32; for attributes, the log odds
        of the weighted share of neighbours that have the attribute, ``(Q, A)``: above 0 means present.

    Raises:
        UserError: shapes do not agree, the bank is empty, a k is below 1 or the temperature is not positive.
    """
    if bank.ndim != 2 or queries.ndim != 2 or bank.shape[1] != queries.shape[1] or len(bank) != len(bank_targets):
        raise UserError(
            "kNN: expected a bank (M, F) with M targets and queries (Q, F), got "
            f"{tuple(bank.shape)}, {tuple(bank_targets.shape)} and {tuple(queries.shape)}"
        )
    if len(bank) == 0 or min(neighbours, default=0) < 1 or temperature <= 0:
        raise UserError(
            f"kNN: expected a bank of 1 or more, k of 1 or more and a positive temperature, got {len(bank)}, "
            f"{tuple(neighbours)} and {temperature}"
        )
    multi_label = are_attributes(bank_targets)
    width = bank_targets.shape[1] if multi_label else classes or int(bank_targets.max()) + 1
    bank = F.normalize(bank.float(), dim=1)
    rows = max(1, _LARGEST_BLOCK // len(bank))
    parts: dict[int, list[Tensor]] = {k: [] for k in neighbours}
    for block in queries.split(rows):
        similarity = F.normalize(block.float(), dim=1) @ bank.T
        nearest, where = similarity.topk(min(max(neighbours), len(bank)), dim=1)
        # Only ratios of the weights matter; relative to the nearest neighbour, they cannot overflow.
        weights = torch.exp((nearest - nearest[:, :1]) / temperature)
        for k in neighbours:
            parts[k].append(_vote(weights[:, :k], bank_targets[where[:, :k]], width, multi_label))
    return {k: torch.cat(blocks) if blocks else queries.new_zeros(0, width) for k, blocks in parts.items()}


class KNNProbe(Probe):
    """k nearest neighbours in the training set; one k is chosen, and every k is reported.

    Args:
        neighbours: candidates for k.
        temperature: temperature of the votes.
        seed: seed of the held-out split.
    """

    name = "knn"
    label = "kNN"
    choice = "k"
    online = (
        Online(
            "knn",
            "encoder",
            learns="bank",
            switch="encoder_knn",
            settings=("knn_temperature", "knn_bank"),
            columns={f"kNN {k} (%)": Shown(variant=str(k)) for k in _DEFAULTS.knn_neighbours[:1]},
        ),
    )

    def __init__(
        self,
        neighbours: Sequence[int] = _DEFAULTS.knn_neighbours,
        temperature: float = _DEFAULTS.knn_temperature,
        seed: int = 0,
    ) -> None:
        super().__init__(neighbours, seed)
        self.temperature = temperature

    @classmethod
    def votes(
        cls, bank: Tensor, targets: Tensor, queries: Tensor, outputs: int, settings: ProbesConfig
    ) -> dict[str, Tensor]:
        """Compute the votes for every k, see :meth:`.Probe.votes`; the variants are the values of k."""
        found = knn_scores(bank, targets, queries, settings.knn_neighbours, outputs, settings.knn_temperature)
        return {str(k): votes for k, votes in found.items()}

    def _try(self, x: Tensor, y: Tensor, x_held: Tensor, y_held: Tensor) -> Iterator[tuple[int, dict[str, object]]]:
        """Yield the figures of every k, from one search of the bank."""
        scores = knn_scores(x, y, x_held, self.candidates, self._targets.outputs, self.temperature)
        for k, votes in scores.items():
            yield k, self._targets.score(votes, y_held)

    def _fit(self, features: Tensor, encoded: Tensor, candidate: int) -> None:
        self._bank, self._k = (features, encoded), candidate

    def _figures(self, features: Tensor, encoded: Tensor) -> dict[str, object]:
        """Return the figures of the chosen k, and those of each k under ``k<number>``."""
        figures = dict(self._try(*self._bank, features, encoded))
        return {**figures[self._k], **{f"k{k}": found for k, found in figures.items()}}


def _vote(weights: Tensor, targets: Tensor, width: int, multi_label: bool) -> Tensor:
    share = weights / weights.sum(dim=1, keepdim=True)
    if multi_label:
        return torch.logit(torch.einsum("qk,qka->qa", share, targets.float()), eps=1e-6)
    return share.new_zeros(len(share), width).scatter_add_(1, targets, share)
