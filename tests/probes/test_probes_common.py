"""What holds for every probe, each probe next to scikit-learn's, and so its figures."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    balanced_accuracy_score,
    roc_auc_score,
    top_k_accuracy_score,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from radial_vicreg.errors import UserError
from radial_vicreg.names.probes import ATTRIBUTE_METRICS, PROBES
from radial_vicreg.probes import KNNProbe, LinearProbe, MLPProbe, knn, mlp
from radial_vicreg.probes.features import extract
from radial_vicreg.probes.knn import knn_scores
from radial_vicreg.probes.metrics import BalancedAccuracy, ProbeMetrics
from radial_vicreg.probes.registry import probe_class
from radial_vicreg.probes.selection import Standardiser, hold_out

QUICK = {"mlp": {"rates": (3e-3,), "hidden_dim": 32}}


@pytest.fixture(params=PROBES)
def make_probe(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable:
    monkeypatch.setattr(mlp, "_FEWEST_STEPS", 100)
    return partial(probe_class(request.param), **QUICK.get(request.param, {}))


def shuffled(labels: Tensor) -> Tensor:
    return labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(3))]


def test_structure_is_found_and_shuffled_labels_give_chance(make_probe: Callable, clusters: Callable) -> None:
    (x, y), (x_test, y_test) = clusters(per_class=100, spread=0.5), clusters(per_class=100, spread=0.5, seed=1)
    state = torch.get_rng_state()
    probe = make_probe().fit(x, 7 * y + 2)  # labels need not be consecutive
    assert probe.score(x_test, 7 * y_test + 2)["top1"] > 95
    with pytest.raises(ValueError, match=r"labels \[30\] are missing from the training set"):
        probe.score(x_test, 7 * y_test + 9)
    assert torch.equal(torch.get_rng_state(), state)
    top1 = make_probe().fit(x, shuffled(y)).score(x_test, shuffled(y_test))["top1"]
    assert abs(top1 - 25.0) < 3 * 100 * np.sqrt(0.25 * 0.75 / len(y_test))


def test_attributes_are_found_and_shuffled_ones_give_chance(make_probe: Callable, attributes: Callable) -> None:
    (x, y), (x_test, y_test) = attributes(500), attributes(500, seed=1)
    found = make_probe().fit(x, y).score(x_test, y_test)
    assert all(auroc > 75 for auroc in found["per_attribute"]["auroc"])
    by_chance = make_probe().fit(x, shuffled(y)).score(x_test, shuffled(y_test))
    for attribute, auroc in enumerate(by_chance["per_attribute"]["auroc"]):
        positive = int(y_test[:, attribute].sum())
        # Mann-Whitney: variance of the area under random ranks.
        assert abs(auroc - 50.0) < 3 * 100 * np.sqrt(501 / (12 * positive * (500 - positive)))


@pytest.mark.parametrize("classes", [2, 10])
def test_the_linear_probe_scores_as_scikit_learns(classes: int, clusters: Callable) -> None:
    (x, y), (x_test, y_test) = clusters(classes, 30), clusters(classes, 20, seed=1)
    probe = LinearProbe().fit(x, y)
    scaler = StandardScaler().fit(x.numpy())
    reference = LogisticRegression(C=probe.C_, max_iter=1000).fit(scaler.transform(x.numpy()), y.numpy())
    probabilities = reference.predict_proba(scaler.transform(x_test.numpy()))
    top5 = np.argsort(-probabilities, axis=1)[:, :5]
    found = probe.score(x_test, y_test)
    assert found["top1"] == pytest.approx(100 * np.mean(top5[:, 0] == y_test.numpy()))
    assert found["top5"] == pytest.approx(100 * np.mean((top5 == y_test.numpy()[:, None]).any(axis=1)))


def test_multi_label_regression_is_scikit_learns_for_each_attribute(attributes: Callable) -> None:
    (x, y), (x_test, _) = attributes(), attributes(seed=1)
    scaler = StandardScaler().fit(x.numpy())
    found = LinearProbe(strengths=(0.1,)).fit(x, y)._scores(x_test)
    for attribute in range(3):
        reference = LogisticRegression(C=0.1, tol=1e-8, max_iter=1000)
        reference.fit(scaler.transform(x.numpy()), y[:, attribute].numpy())
        expected = reference.decision_function(scaler.transform(x_test.numpy()))
        assert found[:, attribute].numpy() == pytest.approx(expected, abs=2e-3)


def test_the_mlp_solves_what_no_line_can_as_scikit_learns_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlp, "_FEWEST_STEPS", 400)

    def rings(seed: int) -> tuple[Tensor, Tensor]:
        x = torch.randn(600, 2, generator=torch.Generator().manual_seed(seed))
        return x, (x.norm(dim=1) > 1.18).long()

    (x, y), (x_test, y_test) = rings(0), rings(1)
    found = MLPProbe(rates=(3e-3,), hidden_dim=32).fit(x, y).score(x_test, y_test)["top1"]
    reference = MLPClassifier((32,), learning_rate_init=3e-3, max_iter=100, random_state=0).fit(x, y)
    assert found == pytest.approx(100 * reference.score(x_test, y_test), abs=4)
    assert LinearProbe().fit(x, y).score(x_test, y_test)["top1"] < 65 < 90 < found


def test_the_choice_is_made_on_held_out_images_of_the_training_set(
    clusters: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mlp, "_FEWEST_STEPS", 100)
    probe = MLPProbe(rates=(1e-6, 1e-2), hidden_dim=16).fit(*clusters(spread=2.0))
    assert probe.chosen_ == {"lr": 1e-2}
    assert [entry["lr"] for entry in probe.held_out_] == [1e-6, 1e-2]
    assert probe.held_out_[1]["score"] > probe.held_out_[0]["score"]


def test_a_stratified_fifth_by_the_seed_is_held_out_and_one_per_class_or_more() -> None:
    for images, held_out in ((100, 20), (104, 20), (105, 21), (10, 4)):
        fit, held = hold_out(torch.arange(images) % 4, seed=0)
        assert len(held) == held_out
        assert sorted([*fit.tolist(), *held.tolist()]) == list(range(images))
    pairs = torch.arange(6).repeat_interleave(2)
    for seed in range(5):  # without stratification, one in 900 splits has each class once
        fit, held = hold_out(pairs, seed)
        assert sorted(pairs[held].tolist()) == sorted(pairs[fit].tolist()) == list(range(6))
    alone = torch.cat([torch.zeros(30, dtype=torch.long), torch.tensor([1])])
    assert [len(part) for part in hold_out(alone, seed=0)] == [25, 6]
    first, again, other = (hold_out(torch.arange(40) % 4, seed)[1] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(
    ("features", "labels", "message"),
    [
        (torch.zeros(4, 2), torch.zeros(3), r"features \(N, F\) and labels \(N,\), got \(4, 2\) and \(3,\)"),
        (torch.zeros(4), torch.zeros(4), "features"),
        (torch.zeros(4, 2), torch.zeros(4), "at least 2 classes, got 1"),
        (torch.full((4, 2), torch.nan), torch.arange(4), "4 of 4 feature vectors are not finite"),
        (torch.randn(3, 4), torch.arange(3), "expected 4 or more, got 3$"),
        (torch.randn(1, 4), torch.tensor([[0, 1]]), "expected 2 or more, got 1$"),
    ],
)
def test_wrong_features_are_named(features: Tensor, labels: Tensor, message: str) -> None:
    with pytest.raises(UserError, match=message):
        LinearProbe().fit(features, labels)


def test_constant_features_stay_zero_when_they_are_standardised() -> None:
    features = torch.stack([torch.full((7,), 0.1), torch.arange(7.0)], dim=1)
    standardised = Standardiser(features)(features)
    assert standardised[:, 0].abs().max() < 1e-5
    assert float(standardised[:, 1].std(correction=0)) == pytest.approx(1)


def test_features_are_those_of_evaluation_and_the_mode_is_left_alone() -> None:
    norm = torch.nn.BatchNorm1d(3)
    model = torch.nn.Sequential(norm)
    model.forward = lambda images: {"feats": norm(images)}  # type: ignore[method-assign]
    images = torch.randn(8, 3) + 5
    found, _ = extract(model, [(images, torch.arange(8))], ["feats"])
    assert torch.allclose(found["feats"], images, atol=1e-4)
    assert model.training
    assert norm.training


# ---- nearest neighbours ----


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


# ---- figures ----


@pytest.mark.parametrize("classes", [3, 5, 12])
def test_top_1_and_top_5_over_unequal_batches_equal_scikit_learns(classes: int) -> None:
    metrics = ProbeMetrics(classes, multi_label=False)
    for _ in range(2):  # computing clears what was collected
        scores, targets = torch.randn(53, classes), torch.arange(53) % classes
        for part, target in zip(scores.split(20), targets.split(20), strict=True):
            metrics.update(part, target)
        found = metrics.compute()
        assert found["top1"] == pytest.approx(100 * accuracy_score(targets, scores.argmax(dim=1)))
        expected = top_k_accuracy_score(targets, scores, k=5) if classes > 5 else 1.0
        assert found["top5"] == pytest.approx(100 * expected)


def test_multi_label_figures_over_unequal_batches_equal_scikit_learns() -> None:
    scores, targets = torch.randn(53, 4), (torch.rand(53, 4) > torch.tensor([0.5, 0.8, 0.2, 0.6])).long()
    metrics, during_training, means = ProbeMetrics(4, multi_label=True), BalancedAccuracy(4), []
    for part, target in zip(scores.split(20), targets.split(20), strict=True):
        metrics.update(part, target)
        means.append(float(during_training(part, target.float())))
    found = metrics.compute()
    reference = {
        "accuracy": [accuracy_score(targets[:, a], scores[:, a] > 0) for a in range(4)],
        "balanced_accuracy": [balanced_accuracy_score(targets[:, a], scores[:, a] > 0) for a in range(4)],
        "auroc": [roc_auc_score(targets[:, a], scores[:, a]) for a in range(4)],
        "average_precision": [average_precision_score(targets[:, a], scores[:, a]) for a in range(4)],
    }
    for name in ATTRIBUTE_METRICS:
        assert found["per_attribute"][name] == pytest.approx([100 * value for value in reference[name]], abs=1e-4)
        assert found[name] == pytest.approx(100 * np.mean(reference[name]), abs=1e-4)
    assert float(during_training.compute()) == pytest.approx(found["balanced_accuracy"], abs=1e-4)
    assert abs(np.average(means, weights=[20, 20, 13]) - found["balanced_accuracy"]) > 0.1  # no mean of batches
    assert during_training.state_dict() == {}  # of a checkpoint


def test_an_attribute_that_every_image_has_is_left_out_of_all_means_but_accuracy() -> None:
    targets = torch.tensor([[1, 1], [1, 0], [1, 1], [1, 0]])
    scores = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [1.0, -1.0]])
    metrics = ProbeMetrics(2, multi_label=True)
    metrics.update(scores, targets)
    found = metrics.compute()
    assert found["per_attribute"]["accuracy"] == [75.0, 100.0]
    for name in ATTRIBUTE_METRICS[1:]:
        assert found["per_attribute"][name] == [None, 100.0]
        assert found[name] == 100.0


def test_both_counts_take_every_logit_above_zero_for_there() -> None:
    scores, targets = torch.tensor([[1e-9], [0.5], [-1e-9], [0.9]]), torch.tensor([[1.0], [1.0], [0.0], [0.0]])
    metric, probe = BalancedAccuracy(1), ProbeMetrics(1, multi_label=True)
    metric.update(scores, targets)
    probe.update(scores, targets)
    assert float(metric.compute()) == probe.compute()["balanced_accuracy"] == 75.0  # sigmoid(1e-9) is 0.5 in float32
