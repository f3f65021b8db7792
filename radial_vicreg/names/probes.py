"""Names of probes, of their input features and of their metrics, without PyTorch.

The command line, both hosts, ``results.json`` and the report share them. The class of a probe defines it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PROBES = ("linear", "mlp", "knn")
"""Probes in the order of the command line and of the report; the class of each is in ``probes/NAME.py``."""

FEATURES = {"encoder": "feats", "projector": "z"}
"""Features that a probe can use, with the names of the network's outputs."""

HOST_PROBE = "linear"
"""The linear probe of the encoder that a host trains together with the network."""

SOURCES = ("online", "offline")
"""Probes that are trained during a run, and those of ``radial-vicreg probe``."""

CLASS_METRICS = ("top1", "top5")
"""Metrics of a probe of classes."""

ATTRIBUTE_METRICS = ("accuracy", "balanced_accuracy", "auroc", "average_precision")
"""Metrics of a probe of attributes: means over the attributes."""

METRIC_LABELS = {
    "top1": "top-1",
    "top5": "top-5",
    "balanced_accuracy": "balanced accuracy",
    "accuracy": "accuracy",
    "auroc": "AUROC",
    "average_precision": "average precision",
}
"""Metrics in words, in the order in which they are printed."""

HEADLINES = (CLASS_METRICS[0], ATTRIBUTE_METRICS[1])
"""Metric for selection and for single values: of classes, and of attributes."""

_LOGGED = {"top1": "acc1", "top5": "acc5"}  # solo-learn's names, also for probes that it lacks
_LOGGED_BY_HOST = {**_LOGGED, "accuracy": "attribute_acc", "balanced_accuracy": "balanced_accuracy"}
HOST_STEP_METRICS = tuple(_LOGGED_BY_HOST[metric] for metric in ("top1", "top5", "accuracy"))
"""Metrics that the host's own probe logs for every batch, without ``train_`` or ``val_``."""


def logged_name(metric: str, probe: str | None = None) -> str:
    """Return the log name of an online probe's validation metric: ``val_acc1``, ``val_mlp_acc1``, ``val_knn20_auroc``.

    Args:
        metric: one of :data:`CLASS_METRICS` or :data:`ATTRIBUTE_METRICS`.
        probe: name of the online probe; None: the host's own probe.
    """
    return f"val_{_LOGGED_BY_HOST[metric]}" if probe is None else f"val_{probe}_{_LOGGED.get(metric, metric)}"


def host_figures(logged: Mapping[str, float]) -> dict[str, float | None]:
    """Return the metrics of the host's own probe from logged values; online probes add those that it does not log."""
    metrics = CLASS_METRICS
    if logged_name("balanced_accuracy") in logged:
        metrics = ("balanced_accuracy", "accuracy")
    return {metric: logged.get(logged_name(metric)) for metric in metrics}


def headline(figures: Any) -> float | None:
    """Return the main metric of a probe: top-1, or the mean balanced accuracy of attributes.

    Args:
        figures: a mapping, or an object with an attribute for each metric.
    """
    values = figures.get if isinstance(figures, Mapping) else lambda name: getattr(figures, name)
    return next((value for name in HEADLINES if (value := values(name)) is not None), None)


def online_key(name: str = HOST_PROBE) -> str:
    """Return the key of an online probe in ``probes`` of ``results.json``."""
    return f"online_{name}"


def frozen_key(probe: str = HOST_PROBE) -> str:
    """Return the key of a probe before and after the training in ``probes`` of ``results.json``."""
    return f"frozen_{probe}"


def offline_words(probe: str, features: str = "encoder", images: str = "", untrained: bool = False) -> list[str]:
    """List the words that name an offline probe, in a file's name and in a key.

    Args:
        probe: one of :data:`PROBES`.
        features: one of :data:`FEATURES`.
        images: digits of the fingerprints of other images than the run's own.
        untrained: whether the network is the one before the training.
    """
    return [probe, features, *(["images", images] if images else []), *["untrained"] * untrained]


def offline_key(probe: str, features: str = "encoder", images: str = "", untrained: bool = False) -> str:
    """Return the key of an offline probe in ``probes`` of ``results.json``, see :func:`offline_words`."""
    return "_".join(["offline", *offline_words(probe, features, images, untrained)])


def is_offline(key: str) -> bool:
    """Return whether a key is one of ``radial-vicreg probe``."""
    return key.startswith("offline_")


def is_of_own_images(key: str) -> bool:
    """Return whether the key of an offline probe stands for the run's own images."""
    return "_images_" not in key


def is_untrained(key: str) -> bool:
    """Return whether the key of an offline probe stands for the network before its training."""
    return key.endswith("_untrained")
