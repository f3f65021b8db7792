"""What makes two runs the same experiment: their effective objective and everything else that was asked for.

An identity is computed from a configuration as it was requested, never from what a machine made of it (a CPU trains in
float32 whatever ``precision`` says). Readers compute it anew from the configuration in ``results.json`` and never
compare stored hashes, so that a later version of these rules finds earlier runs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from radial_vicreg.keys import OPTIMIZER_DEFAULTS, SMALL_IMAGE_DATASETS, objective_of

AS_REQUESTED_SINCE = 2
"""Schema version of ``results.json`` from which its configuration is the requested one on a CPU, too."""

# What solo-learn assumes for keys that a configuration leaves out, so that both forms have the same hash.
_ASSUMED: dict[str, dict[str, Any]] = {
    "backbone": {"name": None, "kwargs": {}},
    "data": {"dataset": None, "name": None, "no_labels": False, "fraction": -1},
    "optimizer": {
        "name": None,
        "batch_size": None,
        "lr": None,
        "classifier_lr": None,
        "weight_decay": None,
        "exclude_bias_n_norm_wd": False,
    },
    "scheduler": {
        "name": None,
        "warmup_epochs": 10,
        "warmup_start_lr": 3e-5,
        "min_lr": 0.0,
        "interval": "step",
        "lr_decay_steps": None,
    },
}
# Lightning's short names and what they stand for.
_PRECISIONS = {"16": "16-mixed", "bf16": "bf16-mixed", "32": "32-true", "64": "64-true"}
_HARDWARE = ("precision", "sync_batchnorm")


def config_hash(config: Mapping[str, Any], processes: int = 1, with_seed: bool = True) -> str:
    """Hash everything in a configuration that can change the result; paths, logging and host cannot.

    Args:
        config: the resolved configuration as it was requested, rates as written.
        processes: number of training processes; the batch size counts for each.
        with_seed: False gives the same value for the seeds of one experiment, which is what a table averages over.

    Returns:
        Twelve hexadecimal digits of a SHA-256.
    """
    parts = identity_parts(config, processes)
    if not with_seed:
        del parts["seed"]
    return digest(parts)


def identity_parts(config: Mapping[str, Any], processes: int = 1) -> dict[str, Any]:
    """List what a run's identity is made of, in canonical form: numbers are floats, defaults are written out.

    Args:
        config: the resolved configuration as it was requested, rates as written.
        processes: number of training processes.

    Returns:
        ``objective`` (see :func:`radial_vicreg.keys.objective_of`), ``projector``, ``small_stem``, ``backbone``,
        ``data``, ``augmentations``, ``optimizer``, ``scheduler``, ``max_epochs``, ``accumulate_grad_batches``,
        ``precision``, ``sync_batchnorm``, ``processes`` and ``seed``.
    """
    kwargs = config.get("method_kwargs") or {}
    parts: dict[str, Any] = {
        "objective": objective_of(config),
        "projector": [kwargs.get("proj_hidden_dim"), kwargs.get("proj_output_dim")],
        "augmentations": config.get("augmentations"),
        "max_epochs": config.get("max_epochs"),
        "accumulate_grad_batches": config.get("accumulate_grad_batches") or 1,
        "precision": canonical_precision(config.get("precision")),
        "sync_batchnorm": bool(config.get("sync_batchnorm")),
        "processes": processes,
        "seed": config.get("seed"),
    }
    for section, assumed in _ASSUMED.items():
        given = config.get(section) or {}
        parts[section] = {key: given.get(key, default) for key, default in assumed.items()}
    policy = (config.get("data") or {}).get("on_bad_image", "error")
    if policy != "error":
        parts["data"]["on_bad_image"] = policy
    optimizer = config.get("optimizer") or {}
    defaults = OPTIMIZER_DEFAULTS.get(str(optimizer.get("name")), {})
    parts["optimizer"]["kwargs"] = {**defaults, **(optimizer.get("kwargs") or {})}
    parts["small_stem"] = _small_stem(parts, kwargs)
    canonical: dict[str, Any] = _canonical(parts)
    return canonical


def digest(parts: Mapping[str, Any]) -> str:
    """Hash parts of an identity: twelve hexadecimal digits of a SHA-256."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def without_hardware(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out of an identity what a CPU does not follow: precision and synchronised BatchNorm."""
    return {name: value for name, value in parts.items() if name not in _HARDWARE}


def hardware_is_known(content: Mapping[str, Any]) -> bool:
    """Tell whether a ``results.json`` holds the requested precision and synchronisation of BatchNorm.

    Before schema version 2, what a CPU made of them stood there: 32 and false, whatever was asked for.

    Args:
        content: of a ``results.json``.
    """
    version = content.get("schema_version")
    recent = isinstance(version, int) and version >= AS_REQUESTED_SINCE
    return recent or bool(content["config"].get("accelerator") != "cpu")


def canonical_precision(precision: Any) -> str | None:
    """Write a precision by Lightning's long name: 16 is ``16-mixed``, 32 is ``32-true``."""
    return None if precision is None else _PRECISIONS.get(str(precision), str(precision))


def _small_stem(parts: Mapping[str, Any], kwargs: Mapping[str, Any]) -> bool | None:
    if not str(parts["backbone"]["name"]).startswith("resnet"):
        return None  # no other backbone has one
    choice = kwargs.get("small_image_stem", "auto")
    return parts["data"]["dataset"] in SMALL_IMAGE_DATASETS if choice == "auto" else str(choice).lower() == "true"


def _canonical(value: Any) -> Any:
    """Write 1 and 1.0 alike: they are one value to a configuration, but not to JSON."""
    if isinstance(value, Mapping):
        return {str(key): _canonical(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def differing_keys(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """List in what two identities differ.

    Args:
        first: of :func:`identity_parts`.
        second: the same of another run.

    Returns:
        Dotted keys, sorted, each with the values of both; None where one of them has no such key.
    """

    def leaves(node: Any, prefix: str) -> Iterator[tuple[str, Any]]:
        items = node.items() if isinstance(node, Mapping) else enumerate(node) if isinstance(node, list) else None
        if items is None or not node:
            yield prefix, node
        else:
            for key, value in items:
                yield from leaves(value, f"{prefix}.{key}" if prefix else str(key))

    one, other = dict(leaves(first, "")), dict(leaves(second, ""))
    return [
        (key, one.get(key), other.get(key))
        for key in sorted(one.keys() | other.keys())
        if one.get(key) != other.get(key)
    ]
