"""Figures of a probe, next to scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    balanced_accuracy_score,
    roc_auc_score,
    top_k_accuracy_score,
)

from radial_vicreg.names.probes import ATTRIBUTE_METRICS
from radial_vicreg.probes.metrics import BalancedAccuracy, ProbeMetrics


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
