"""What makes two runs the same experiment: their effective objective and everything else that was asked for.

Every key is part of it, and every argument of Lightning's Trainer, unless its declaration in
:mod:`radial_vicreg.config` says why not (``Outside``). Helper values for ``${...}`` count where they arrive.

An identity is computed from a configuration as it was requested, never from what a machine made of it (a CPU trains in
float32 whatever ``precision`` says). Readers compute it anew from the configuration in ``results.json`` and never
compare stored hashes, so that a later version of these rules finds earlier runs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from radial_vicreg.config import BackboneConfig, DataConfig, OptimizerConfig, SchedulerConfig
from radial_vicreg.config.trainer_arguments import canonical_arguments
from radial_vicreg.config.types import Section, added, outside
from radial_vicreg.data_sets import facts_of
from radial_vicreg.keys import OPTIMIZER_DEFAULTS, objective_of

AS_REQUESTED_SINCE = 2
"""Schema version of ``results.json`` from which its configuration is the requested one on a CPU, too."""

# Lightning's short names and what they stand for.
_PRECISIONS = {"16": "16-mixed", "bf16": "bf16-mixed", "32": "32-true", "64": "64-true"}
_HARDWARE = ("precision", "sync_batchnorm")
_RELEASE_0_2 = "0.2"
# Beginnings of an identity's keys, and the settings that they come from.
_SETTINGS = {
    "objective.loss": "loss",
    "objective.": "method_kwargs.",
    "projector.0": "method_kwargs.proj_hidden_dim",
    "projector.1": "method_kwargs.proj_output_dim",
    "small_stem": "method_kwargs.small_image_stem",
    "trainer.": "",
}
# Sections whose keys are hashed one by one. The others are reduced to what they come to.
_SECTIONS: dict[str, type[Section]] = {
    "backbone": BackboneConfig,
    "data": DataConfig,
    "optimizer": OptimizerConfig,
    "scheduler": SchedulerConfig,
}


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

    Keys that a later release has added are there only where they are not at their default, so that earlier runs keep
    their identities.

    Args:
        config: the resolved configuration as it was requested, rates as written.
        processes: number of training processes.

    Returns:
        ``objective`` (see :func:`radial_vicreg.keys.objective_of`), ``projector``, ``small_stem``, ``backbone``,
        ``data``, ``augmentations``, ``optimizer``, ``scheduler``, ``max_epochs``, ``accumulate_grad_batches``,
        ``precision``, ``sync_batchnorm``, ``processes``, ``seed``, and ``trainer`` where arguments of Lightning's
        Trainer are not at their defaults.
    """
    parts = parts_of_release_0_2(config, processes)
    data: Mapping[str, Any] = config.get("data") or {}
    parts["data"] |= _canonical(_additions(DataConfig, data))
    if arguments := canonical_arguments(config):
        parts["trainer"] = _canonical(arguments)
    return parts


def parts_of_release_0_2(config: Mapping[str, Any], processes: int = 1) -> dict[str, Any]:
    """List what release 0.2 made an identity of; see :func:`identity_parts`.

    Runs that differ in later additions alone were one experiment to it.
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
    for name, section in _SECTIONS.items():
        given = config.get(name) or {}
        parts[name] = {key: given.get(key, default) for key, default in _defaults(section).items()}
    parts["data"] |= _additions(DataConfig, config.get("data") or {}, until=_RELEASE_0_2)
    parts["backbone"]["kwargs"] = (config.get("backbone") or {}).get("kwargs", {})
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


def _defaults(section: type[Section]) -> dict[str, Any]:
    """List a section's keys that are always part of an identity, with what stands for one that is absent."""
    fields = {key: field for key, field in section.model_fields.items() if not outside(field) and not added(field)}
    return {key: None if field.is_required() else field.get_default() for key, field in fields.items()}


def _additions(section: type[Section], given: Mapping[str, Any], until: str | None = None) -> dict[str, Any]:
    """List the keys of a section that a release has added and that are not at their defaults.

    Args:
        section: the declaration.
        given: the values.
        until: the last release whose additions count; None: the present one.
    """
    found = {}
    for key, field in section.model_fields.items():
        mark, default = added(field), field.get_default()
        if mark is not None and (until is None or mark.since <= until) and given.get(key, default) != default:
            found[key] = given[key]
    return found


def _small_stem(parts: Mapping[str, Any], kwargs: Mapping[str, Any]) -> bool | None:
    if not str(parts["backbone"]["name"]).startswith("resnet"):
        return None  # no other backbone has one
    choice = kwargs.get("small_image_stem", "auto")
    return facts_of(parts["data"]["dataset"]).has_small_stem if choice == "auto" else str(choice).lower() == "true"


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
        Settings as a command line names them, each with the values of both; None where one of them has no such key.
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
        (_setting(key), one.get(key), other.get(key))
        for key in sorted(one.keys() | other.keys())
        if one.get(key) != other.get(key)
    ]


def _setting(key: str) -> str:
    return next((f"{name}{key.removeprefix(part)}" for part, name in _SETTINGS.items() if key.startswith(part)), key)
