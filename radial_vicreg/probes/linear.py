"""Linear probe: logistic regression on frozen features."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

_HELD_OUT = 0.2
_MAX_ITERATIONS = 1000


class LinearProbe:
    """scikit-learn's logistic regression on standardised features; the regularisation is chosen on held-out data.

    A fifth of the training set, stratified where possible, chooses among ``strengths``; the probe is then fitted
    on the whole training set. The test set has no part in the choice.

    Args:
        strengths: candidates for the inverse regularisation ``C``.
        seed: of the held-out split.

    Attributes:
        C_: the chosen inverse regularisation, after :meth:`fit`.
    """

    def __init__(self, strengths: Sequence[float] = (0.01, 0.1, 1.0), seed: int = 0) -> None:
        self.strengths = tuple(strengths)
        self.seed = seed

    def fit(self, features: Tensor, labels: Tensor) -> LinearProbe:
        """Chooses the regularisation and fits.

        Args:
            features: shape ``(N, F)``, floating point.
            labels: shape ``(N,)``, integers.

        Returns:
            The probe itself.

        Raises:
            ValueError: shapes that do not agree, fewer than two classes, or non-finite features.
        """
        from sklearn.model_selection import train_test_split

        x, y = _as_arrays(features, labels)
        classes, counts = np.unique(y, return_counts=True)
        if len(classes) < 2:
            raise ValueError(f"a linear probe needs at least 2 classes, got {len(classes)} (labels {classes})")
        held_out = max(int(len(y) * _HELD_OUT), len(classes))
        stratify = y if counts.min() > 1 and len(y) - held_out >= len(classes) else None
        x_fit, x_held, y_fit, y_held = train_test_split(
            x, y, test_size=held_out, random_state=self.seed, stratify=stratify
        )
        scores = [_regression(strength).fit(x_fit, y_fit).score(x_held, y_held) for strength in self.strengths]
        self.C_ = self.strengths[int(np.argmax(scores))]
        self._model = _regression(self.C_).fit(x, y)
        return self

    def score(self, features: Tensor, labels: Tensor) -> dict[str, float]:
        """Accuracy on other images.

        Args:
            features: shape ``(N, F)``.
            labels: shape ``(N,)``.

        Returns:
            ``top1`` and ``top5`` in percent; with fewer than 6 classes ``top5`` is 100.

        Raises:
            ValueError: shapes that do not agree, or non-finite features.
        """
        x, y = _as_arrays(features, labels)
        scores = self._model.decision_function(x)
        if scores.ndim == 1:  # two classes: one column
            scores = np.stack([-scores, scores], axis=1)
        ranked = self._model.classes_[np.argsort(-scores, axis=1)]
        hits = ranked == y[:, None]
        return {"top1": 100.0 * float(hits[:, 0].mean()), "top5": 100.0 * float(hits[:, :5].any(axis=1).mean())}


def _regression(strength: float):  # type: ignore[no-untyped-def]  # a scikit-learn pipeline, imported here
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=_MAX_ITERATIONS))


def _as_arrays(features: Tensor, labels: Tensor) -> tuple[np.ndarray, np.ndarray]:
    if features.ndim != 2 or labels.shape != features.shape[:1]:
        raise ValueError(
            f"a probe takes features (N, F) and labels (N,), got {tuple(features.shape)} and {tuple(labels.shape)}"
        )
    x = features.float().cpu().numpy()
    bad = int((~np.isfinite(x).all(axis=1)).sum())
    if bad:
        raise ValueError(f"{bad} of {len(x)} feature vectors are not finite; the encoder has diverged")
    return x, labels.cpu().numpy()
