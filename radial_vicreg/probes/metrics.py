"""Metrics of a probe: top-1 and top-5 for classes; four per-attribute metrics for multi-label data."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.classification import (
    MulticlassAccuracy,
    MultilabelAUROC,
    MultilabelAveragePrecision,
    MultilabelStatScores,
)

from radial_vicreg.names.data_sets import UNLABELLED
from radial_vicreg.names.probes import ATTRIBUTE_METRICS, CLASS_METRICS


class BalancedAccuracy(MultilabelStatScores):
    """Mean balanced accuracy of attributes in percent, from counts over all batches and processes.

    A mean of per-batch values would be wrong, since recall is undefined in a batch without images of an attribute.

    Args:
        outputs: number of attributes.
    """

    def __init__(self, outputs: int) -> None:
        super().__init__(num_labels=outputs, average=None, validate_args=False)

    def update(self, scores: Tensor, targets: Tensor) -> None:
        """Add a batch.

        Args:
            scores: logits, shape ``(N, attributes)``; above 0 means present.
            targets: zeros and ones, same shape.
        """
        super().update((scores > 0).long(), (targets > 0.5).long())

    def compute(self) -> Tensor:
        """Compute the mean (0-d) over attributes that some images have and others lack; NaN without any."""
        return 100.0 * balanced_accuracies(super().compute()).nanmean().float()


class ProbeMetrics:
    """Accumulate scores batch by batch; torchmetrics handles the smaller last batch and several processes.

    Args:
        outputs: number of classes, or of attributes.
        multi_label: whether targets are independent attributes instead of mutually exclusive classes.
        over_processes: compute from the scores of all processes, in every process; otherwise from this process alone.
    """

    def __init__(self, outputs: int, multi_label: bool, over_processes: bool = True) -> None:
        self.multi_label = multi_label
        self._metrics: dict[str, Metric]
        common: dict[str, Any] = {"validate_args": False, "sync_on_compute": over_processes}
        if multi_label:
            settings: dict[str, Any] = {"num_labels": outputs, "average": None, **common}
            self._metrics = {
                "counts": MultilabelStatScores(**settings),
                "auroc": MultilabelAUROC(**settings),
                "average_precision": MultilabelAveragePrecision(**settings),
            }
        else:
            self._metrics = {
                name: MulticlassAccuracy(
                    max(outputs, 2),
                    top_k=min(k, outputs),
                    average="micro",
                    ignore_index=UNLABELLED,
                    **common,
                )
                for name, k in zip(CLASS_METRICS, (1, 5), strict=True)
            }

    def to(self, device: torch.device) -> ProbeMetrics:
        """Move the accumulated values to a device."""
        self._metrics = {name: metric.to(device) for name, metric in self._metrics.items()}
        return self

    def update(self, scores: Tensor, targets: Tensor) -> None:
        """Add a batch.

        Args:
            scores: logits or votes, shape ``(N, outputs)``; for attributes, above 0 means present.
            targets: classes ``(N,)``, or attributes ``(N, outputs)`` of zeros and ones.
        """
        for name, metric in self._metrics.items():
            if name == "counts":
                metric.update((scores > 0).long(), targets.long())
            elif self.multi_label:
                metric.update(scores.float().sigmoid(), targets.long())
            else:
                metric.update(scores.float(), targets)

    def compute(self) -> dict[str, object]:
        """Compute all metrics in percent and reset the accumulated values.

        Returns:
            Classes: ``top1`` and ``top5`` (100 with fewer than 6 classes). Attributes: means over the attributes of
            ``accuracy``, ``balanced_accuracy`` (mean recall of present and absent; chance is 50), ``auroc`` (chance
            is 50) and ``average_precision`` (chance is the share of images with the attribute), and the single values
            under ``per_attribute``. If all images agree in an attribute, only its accuracy is defined; the other
            metrics are None and excluded from the means.
        """
        found = {name: metric.compute() for name, metric in self._metrics.items()}
        for metric in self._metrics.values():
            metric.reset()
        if not self.multi_label:
            return {name: 100.0 * float(value) for name, value in found.items()}
        return _multi_label_figures(found)


def are_attributes(targets: Tensor) -> bool:
    """Return True for attributes, zeros and ones ``(N, attributes)``, and False for classes ``(N,)``."""
    return targets.ndim == 2


def balanced_accuracies(counts: Tensor) -> Tensor:
    """Compute the mean recall of present and absent for each attribute.

    Args:
        counts: true positives, false positives, true negatives, false negatives and support, shape ``(A, 5)``, as
            torchmetrics counts them.

    Returns:
        Shares from 0 to 1, float64, shape ``(A,)``; NaN for an attribute that all images have or lack.
    """
    true_positive, false_positive, true_negative, false_negative, _ = counts.double().unbind(dim=-1)
    recalls = true_positive / (true_positive + false_negative) + true_negative / (true_negative + false_positive)
    return recalls / 2


def _multi_label_figures(found: dict[str, Tensor]) -> dict[str, object]:
    true_positive, false_positive, true_negative, false_negative, _ = found["counts"].double().unbind(dim=-1)
    positive, negative = true_positive + false_negative, true_negative + false_positive
    values = {
        "accuracy": (true_positive + true_negative) / (positive + negative),
        "balanced_accuracy": balanced_accuracies(found["counts"]),
        "auroc": found["auroc"].double(),
        "average_precision": found["average_precision"].double(),
    }
    undefined = (positive == 0) | (negative == 0)
    for name in ATTRIBUTE_METRICS[1:]:
        values[name] = values[name].masked_fill(undefined, torch.nan)
    per_attribute = {
        name: [None if x != x else 100.0 * x for x in value.flatten().tolist()] for name, value in values.items()
    }
    means = {name: 100.0 * float(value.nanmean()) for name, value in values.items()}
    return {**means, "per_attribute": per_attribute}
