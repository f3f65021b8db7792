"""Common parts of all probes: input checks, the held-out split, the selection metric, standardisation."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from radial_vicreg.errors import UserError
from radial_vicreg.names.probes import headline
from radial_vicreg.probes.metrics import ProbeMetrics, are_attributes

_HELD_OUT = 0.2


class Targets:
    """Encoding of class labels as indices of the sorted classes; attributes are unchanged.

    Args:
        labels: classes ``(N,)``, any integers, or attributes ``(N, A)`` of zeros and ones.

    Raises:
        UserError: there are fewer than two classes.

    Attributes:
        multi_label: whether the labels are attributes.
        classes: the sorted classes; None for attributes.
        outputs: number of classes or attributes.
    """

    def __init__(self, labels: Tensor) -> None:
        self.multi_label = are_attributes(labels)
        self.classes = None if self.multi_label else torch.unique(labels)
        self.outputs = labels.shape[1] if self.classes is None else len(self.classes)
        if self.classes is not None and self.outputs < 2:
            raise UserError(f"a probe needs at least 2 classes, got {self.outputs} (labels {self.classes.tolist()})")

    def encode(self, labels: Tensor) -> Tensor:
        """Encode targets as class indices ``(N,)`` int64, or attributes ``(N, A)`` int64.

        Raises:
            UserError: a class does not occur in the training set.
        """
        if self.classes is None:
            return labels.long()
        classes = self.classes.to(labels.device)
        position = torch.searchsorted(classes, labels).clamp_max(len(classes) - 1)
        unknown = labels[classes[position] != labels]
        if len(unknown):
            raise UserError(f"labels {torch.unique(unknown).tolist()[:5]} are missing from the training set")
        return position

    def score(self, scores: Tensor, encoded: Tensor) -> dict[str, object]:
        """Compute metrics in percent, see :class:`radial_vicreg.probes.metrics.ProbeMetrics`."""
        metrics = ProbeMetrics(self.outputs, self.multi_label, over_processes=False).to(scores.device)
        metrics.update(scores, encoded)
        return metrics.compute()


def check_features(features: Tensor, labels: Tensor) -> Tensor:
    """Check features and return them as float32.

    Args:
        features: shape ``(N, F)``.
        labels: shape ``(N,)``, or ``(N, A)`` for attributes.

    Returns:
        The features.

    Raises:
        UserError: shapes do not agree, or features are not finite.
    """
    if features.ndim != 2 or labels.ndim not in (1, 2) or labels.shape[:1] != features.shape[:1]:
        raise UserError(
            f"a probe expects features (N, F) and labels (N,), got {tuple(features.shape)} and {tuple(labels.shape)}; "
            "attributes are (N, A)"
        )
    bad = int((~torch.isfinite(features).all(dim=1)).sum())
    if bad:
        raise UserError(f"{bad} of {len(features)} feature vectors are not finite; the encoder has diverged")
    return features.float()


def hold_out(encoded: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Hold out a fifth of the images, stratified by class if every class has at least two images.

    Args:
        encoded: targets encoded by :meth:`Targets.encode`.
        seed: seed of the split.

    Returns:
        Indices of the part to fit on and of the held-out part, int64.

    Raises:
        UserError: there are no more images than classes.
    """
    from sklearn.model_selection import train_test_split

    labels = encoded.cpu().numpy()
    classes = int(labels.max()) + 1 if labels.ndim == 1 else 1
    held_out = max(int(len(labels) * _HELD_OUT), classes)
    if held_out >= len(labels):
        raise UserError(
            f"a probe holds out {held_out} training images, one or more per class, and is fitted on the others: "
            f"expected {held_out + 1} or more, got {len(labels)}"
        )
    counts = encoded.bincount() if encoded.ndim == 1 else torch.zeros(1)
    stratify = labels if int(counts.min()) > 1 else None
    fit, held = train_test_split(range(len(labels)), test_size=held_out, random_state=seed, stratify=stratify)
    return torch.as_tensor(fit, device=encoded.device), torch.as_tensor(held, device=encoded.device)


def chosen_by(figures: Mapping[str, object]) -> float:
    """Return the metric used for selection, see :func:`radial_vicreg.names.probes.headline`."""
    value = headline(figures)
    assert value is not None  # a probe always computes top-1 or balanced accuracy
    return value


class Standardiser:
    """Standardisation of features to zero mean and unit variance on the training set; constant features become 0.

    Args:
        features: features of the training set, shape ``(N, F)``.
    """

    def __init__(self, features: Tensor) -> None:
        self.mean = features.mean(dim=0)
        deviation = features.std(dim=0, correction=0)
        self.scale = torch.where(deviation > 10 * torch.finfo(features.dtype).eps * self.mean.abs(), deviation, 1.0)

    def __call__(self, features: Tensor) -> Tensor:
        """Standardise features ``(M, F)``."""
        return (features - self.mean) / self.scale
