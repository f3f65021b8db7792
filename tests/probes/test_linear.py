"""Linear probe."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from radial_vicreg.probes import LinearProbe


def clusters(classes: int, per_class: int, spread: float = 1.0, seed: int = 0) -> tuple[Tensor, Tensor]:
    centres = torch.randn(classes, 8, generator=torch.Generator().manual_seed(7))
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(classes).repeat(per_class)
    return centres[labels] + spread * torch.randn(len(labels), 8, generator=generator), labels


@pytest.mark.parametrize("classes", [2, 4, 10])
def test_scores_equal_those_of_scikit_learn(classes: int) -> None:
    x, y = clusters(classes, 30)
    x_test, y_test = clusters(classes, 20, seed=1)
    probe = LinearProbe().fit(x, y)
    scaler = StandardScaler().fit(x.numpy())
    reference = LogisticRegression(C=probe.C_, max_iter=1000).fit(scaler.transform(x.numpy()), y.numpy())
    probabilities = reference.predict_proba(scaler.transform(x_test.numpy()))
    top5 = np.argsort(-probabilities, axis=1)[:, :5]
    found = probe.score(x_test, y_test)
    assert found["top1"] == pytest.approx(100 * np.mean(top5[:, 0] == y_test.numpy()))
    assert found["top5"] == pytest.approx(100 * np.mean((top5 == y_test.numpy()[:, None]).any(axis=1)))


def test_shuffled_labels_give_chance() -> None:
    x, y = clusters(4, 200)
    x_test, y_test = clusters(4, 200, seed=1)
    shuffled = y[torch.randperm(len(y), generator=torch.Generator().manual_seed(3))]
    top1 = LinearProbe().fit(x, shuffled).score(x_test, y_test[torch.randperm(len(y_test))])["top1"]
    standard_error = 100 * np.sqrt(0.25 * 0.75 / len(y_test))
    assert abs(top1 - 25.0) < 3 * standard_error


def test_labels_need_not_be_consecutive() -> None:
    x, y = clusters(3, 20, spread=0.1)
    assert LinearProbe().fit(x, y * 7 + 2).score(x, y * 7 + 2)["top1"] == 100.0


@pytest.mark.parametrize(
    ("features", "labels", "message"),
    [
        (torch.zeros(4, 2), torch.zeros(3), r"features \(N, F\) and labels \(N,\), got \(4, 2\) and \(3,\)"),
        (torch.zeros(4), torch.zeros(4), "features"),
        (torch.zeros(4, 2), torch.zeros(4), "at least 2 classes, got 1"),
        (torch.full((4, 2), torch.nan), torch.arange(4), "4 of 4 feature vectors are not finite"),
    ],
)
def test_wrong_input_is_named(features: Tensor, labels: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LinearProbe().fit(features, labels)
