"""k nearest neighbours, next to scikit-learn."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from radial_vicreg.probes import KNNProbe, knn
from radial_vicreg.probes.knn import knn_scores


@pytest.mark.parametrize("block", [1, 40, 1 << 24], ids=["a query at a time", "in between", "all at once"])
def test_votes_equal_scikit_learns_with_the_same_weights(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(knn, "_LARGEST_BLOCK", block)
    bank, targets, queries = torch.randn(30, 5), torch.arange(30) % 3, torch.randn(7, 5)
    found = knn_scores(bank, targets, queries, neighbours=(4, 9, 30, 200), classes=3, temperature=0.2)
    for k in (4, 9):
        weights = {"metric": "cosine", "weights": lambda distance: np.exp((1 - distance) / 0.2)}
        reference = KNeighborsClassifier(n_neighbors=k, **weights).fit(bank, targets)
        assert found[k].numpy() == pytest.approx(reference.predict_proba(queries), abs=1e-5)
    assert torch.equal(found[30], found[200])  # beyond the bank, k means the whole bank


def test_attributes_get_the_log_odds_of_their_weighted_share() -> None:
    bank, queries = torch.randn(30, 5), torch.randn(4, 5)
    targets = (torch.rand(30, 2) > 0.5).long()
    found = knn_scores(bank, targets, queries, neighbours=(9,), temperature=0.2)[9].sigmoid()
    for attribute in range(2):
        votes = knn_scores(bank, targets[:, attribute], queries, neighbours=(9,), classes=2, temperature=0.2)[9]
        assert torch.allclose(found[:, attribute], votes[:, 1], atol=1e-5)


def test_every_k_is_reported_and_the_chosen_one_leads(clusters: Callable) -> None:
    found = (probe := KNNProbe(neighbours=(1, 15)).fit(*clusters())).score(*clusters(seed=1))
    assert {"k1", "k15"} < found.keys()
    assert found["top1"] == found[f"k{probe.chosen_['k']}"]["top1"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"neighbours": (0,)}, "k of 1 or more"),
        ({"neighbours": ()}, "k of 1 or more"),
        ({"temperature": 0.0}, "positive temperature"),
        ({"bank": torch.zeros(0, 3), "bank_targets": torch.zeros(0)}, "bank of 1 or more"),
        ({"queries": torch.zeros(2, 4)}, r"queries \(Q, F\), got \(3, 3\), \(3,\) and \(2, 4\)"),
    ],
)
def test_wrong_input_is_named(settings: dict, message: str) -> None:
    given = {"bank": torch.randn(3, 3), "bank_targets": torch.arange(3), "queries": torch.randn(2, 3), **settings}
    with pytest.raises(ValueError, match=message):
        knn_scores(**given)
