"""k nearest neighbours, next to brute force and scikit-learn."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from radial_vicreg.probes import KNNProbe, knn
from radial_vicreg.probes.knn import knn_scores


def brute_force(bank, targets, query, k, classes, temperature):  # type: ignore[no-untyped-def]
    unit = bank / np.linalg.norm(bank, axis=1, keepdims=True)
    similarity = unit @ (query / np.linalg.norm(query))
    votes = np.zeros(classes)
    for index in np.argsort(-similarity)[:k]:
        votes[targets[index]] += np.exp(similarity[index] / temperature)
    return votes / votes.sum()


@pytest.mark.parametrize("block", [1, 40, 1 << 24], ids=["a query at a time", "in between", "all at once"])
def test_votes_equal_a_loop_over_the_bank(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(knn, "_LARGEST_BLOCK", block)
    bank, targets, queries = torch.randn(30, 5), torch.arange(30) % 3, torch.randn(7, 5)
    found = knn_scores(bank, targets, queries, neighbours=(4, 9), classes=3, temperature=0.2)
    for k in (4, 9):
        for query, votes in zip(queries.numpy(), found[k].numpy(), strict=True):
            assert votes == pytest.approx(brute_force(bank.numpy(), targets.numpy(), query, k, 3, 0.2), abs=1e-5)


def test_predictions_equal_scikit_learns_with_the_same_weights() -> None:
    bank, targets, queries = torch.randn(120, 6), torch.arange(120) % 4, torch.randn(50, 6)
    reference = KNeighborsClassifier(
        n_neighbors=20, metric="cosine", weights=lambda distance: np.exp((1 - distance) / 0.07)
    ).fit(bank, targets)
    found = knn_scores(bank, targets, queries, neighbours=(20,))[20]
    assert found.argmax(dim=1).tolist() == reference.predict(queries).tolist()


def test_attributes_get_the_log_odds_of_their_weighted_share() -> None:
    bank, queries = torch.randn(30, 5), torch.randn(4, 5)
    targets = (torch.rand(30, 2) > 0.5).long()
    found = knn_scores(bank, targets, queries, neighbours=(9,), temperature=0.2)[9].sigmoid()
    for attribute in range(2):
        votes = knn_scores(bank, targets[:, attribute], queries, neighbours=(9,), classes=2, temperature=0.2)[9]
        assert torch.allclose(found[:, attribute], votes[:, 1], atol=1e-5)


def test_k_beyond_the_bank_means_the_whole_bank() -> None:
    bank, targets, queries = torch.randn(6, 3), torch.arange(6) % 2, torch.randn(2, 3)
    found = knn_scores(bank, targets, queries, neighbours=(6, 200))
    assert torch.equal(found[6], found[200])


def test_every_k_is_reported_and_the_chosen_one_leads(clusters: Callable) -> None:
    x, y = clusters()
    found = (probe := KNNProbe(neighbours=(1, 15)).fit(x, y)).score(*clusters(seed=1))
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
