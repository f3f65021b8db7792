"""The identity of a run: its effective objective and all other requested settings.

Every key and every argument of Lightning's Trainer is part of it, unless the declaration in
:mod:`radial_vicreg.config` gives a reason against it (``Outside``). Helper values for ``${...}`` count in the keys that
read them.

An identity is computed from the requested configuration, never from the effective one (a CPU trains in float32 whatever
``precision`` says). Readers recompute it from the configuration in ``results.json`` and never compare stored hashes, so
that a later version of these rules finds earlier runs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from radial_vicreg.config import RunConfig
from radial_vicreg.config.schema import LONG_PRECISIONS
from radial_vicreg.config.stored import stored_config
from radial_vicreg.config.trainer_arguments import canonical_arguments
from radial_vicreg.config.types import Section, added, outside
from radial_vicreg.names.networks import OPTIMIZER_DEFAULTS
from radial_vicreg.names.terms import objective_of

_RELEASE_0_2 = "0.2"
# Prefixes of an identity's keys, and the settings from which they come.
_SETTINGS = {
    "objective.loss": "loss",
    "objective.": "method_kwargs.",
    "projector.0": "method_kwargs.proj_hidden_dim",
    "projector.1": "method_kwargs.proj_output_dim",
    "small_stem": "method_kwargs.small_image_stem",
    "trainer.": "",
}


@dataclass(frozen=True)
class Identity:
    """All settings of a configuration that can change the result; paths, logging and host cannot.

    Attributes:
        parts: see :func:`_identity_parts`.
    """

    parts: Mapping[str, Any]

    @classmethod
    def of(cls, config: RunConfig, processes: int | None = None) -> Identity:
        """Reduce a configuration to its identity.

        Args:
            config: the requested configuration, with rates as written.
            processes: number of training processes, if it is not that of the configuration; the batch size is that of
                each process.
        """
        return cls(_identity_parts(config, config.processes if processes is None else processes))

    @classmethod
    def of_release_0_2(cls, config: RunConfig, processes: int | None = None) -> Identity:
        """Return the identity according to release 0.2, which is the same for runs that differ only in later keys."""
        return cls(parts_of_release_0_2(config, config.processes if processes is None else processes))

    @cached_property
    def config_hash(self) -> str:
        """Hash of the run: twelve hexadecimal digits of a SHA-256."""
        return digest(self.parts)

    @cached_property
    def experiment_hash(self) -> str:
        """Hash without the seed; a table averages over runs with the same experiment hash."""
        return digest(self.experiment)

    @property
    def radial_objective(self) -> str | None:
        """The effective radial objective; None for a custom loss."""
        found: str | None = self.parts["objective"].get("radial_objective")
        return found

    @property
    def experiment(self) -> dict[str, Any]:
        """The parts without the seed."""
        return {name: value for name, value in self.parts.items() if name != "seed"}

    @property
    def hashes(self) -> dict[str, str]:
        """Both hashes, by their names in files."""
        return {"config_hash": self.config_hash, "experiment_hash": self.experiment_hash}

    def differences(self, other: Identity) -> list[tuple[str, Any, Any]]:
        """List the settings in which two identities differ.

        Args:
            other: identity of another run.

        Returns:
            Settings as a command line names them, each with both values; None if an identity has no such key.
        """
        one, two = (dict(leaves(found.parts, into_lists=True)) for found in (self, other))
        keys = sorted(one.keys() | two.keys())
        return [(_setting(key), one.get(key), two.get(key)) for key in keys if one.get(key) != two.get(key)]


def config_hash(config: Mapping[str, Any], processes: int = 1, with_seed: bool = True) -> str:
    """Hash a configuration in plain containers; see :class:`Identity`.

    Args:
        config: the requested configuration, resolved, with rates as written.
        processes: number of training processes.
        with_seed: False: compute the experiment's hash.
    """
    found = Identity.of(stored_config(config), processes)
    return found.config_hash if with_seed else found.experiment_hash


def _identity_parts(config: RunConfig, processes: int = 1) -> dict[str, Any]:
    """List the parts of a run's identity in canonical form: numbers are floats, defaults are written out.

    Keys that a later release has added are included only if they are not at their default, so that earlier runs keep
    their identities.

    Args:
        config: the requested configuration, with rates as written.
        processes: number of training processes.

    Returns:
        ``objective`` (see :func:`radial_vicreg.names.terms.objective_of`), ``projector``, ``small_stem``, ``backbone``,
        ``data``, ``augmentations``, ``optimizer``, ``scheduler``, ``max_epochs``, ``accumulate_grad_batches``,
        ``precision``, ``sync_batchnorm``, ``processes``, ``seed``, and ``trainer`` if arguments of Lightning's
        Trainer are not at their defaults.
    """
    parts = parts_of_release_0_2(config, processes)
    counted = config.optimizer.model_copy(update={"micro_batch_size": config.counted_micro_batch})
    _add(parts, config.model_copy(update={"optimizer": counted}))
    if arguments := canonical_arguments(config.plain()):
        parts["trainer"] = _canonical(arguments)
    return parts


def parts_of_release_0_2(config: RunConfig, processes: int = 1) -> dict[str, Any]:
    """List the parts of an identity according to release 0.2; see :func:`_identity_parts`.

    They are the same for runs that differ only in keys that were added later.
    """
    content = config.plain()
    parts: dict[str, Any] = {
        "objective": objective_of(content),
        "projector": [config.method_kwargs.proj_hidden_dim, config.method_kwargs.proj_output_dim],
        "max_epochs": config.max_epochs,
        "accumulate_grad_batches": config.accumulation,
        "precision": canonical_precision(config.precision),
        "sync_batchnorm": config.sync_batchnorm,
        "processes": processes,
        "seed": config.seed,
        "small_stem": config.has_small_stem if config.backbone.name.startswith("resnet") else None,
    }
    for name, section in _sections(config).items():
        parts[name] = {key: getattr(section, key) for key in _always_part(section)}
    parts["backbone"]["kwargs"] = content["backbone"].get("kwargs", {})
    defaults = OPTIMIZER_DEFAULTS.get(config.optimizer.name, {})
    parts["optimizer"]["kwargs"] = {**defaults, **config.optimizer.arguments()}
    _add(parts, config, until=_RELEASE_0_2)
    canonical: dict[str, Any] = _canonical(parts)
    return canonical


def digest(parts: Mapping[str, Any]) -> str:
    """Hash parts of an identity: twelve hexadecimal digits of a SHA-256."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def canonical_precision(precision: Any) -> str | None:
    """Return Lightning's long name of a precision: 16 is ``16-mixed``, 32 is ``32-true``."""
    return None if precision is None else LONG_PRECISIONS.get(str(precision), str(precision))


def _always_part(section: Section) -> list[str]:
    """List a section's keys that are always part of an identity."""
    return [key for key, field in type(section).model_fields.items() if not outside(field) and not added(field)]


def _sections(config: RunConfig) -> dict[str, Section]:
    """List the sections whose keys have the same names in an identity."""
    return {
        "backbone": config.backbone,
        "data": config.data,
        "scheduler": config.scheduler,
        "optimizer": config.optimizer,
    }


def _add(parts: dict[str, Any], config: RunConfig, until: str | None = None) -> None:
    """Add to an identity the keys that releases have added, see :func:`_additions`."""
    for name, section in {**_sections(config), "method_kwargs": config.method_kwargs}.items():
        if found := _additions(section, until):
            parts[name] = {**parts.get(name, {}), **_canonical(found)}
    parts |= _canonical(_additions(config, until))
    written = zip(config.augmentations, config.plain()["augmentations"], strict=True)  # without defaults
    parts["augmentations"] = _canonical([_without_additions(section, given, until) for section, given in written])


def _without_additions(section: Section, given: Mapping[str, Any], until: str | None) -> dict[str, object]:
    """Omit from the written keys the additions that :func:`_additions` does not list."""
    additions, kept = _additions(section, until), {}
    for key, value in given.items():
        field, inner = type(section).model_fields.get(key), getattr(section, key, None)
        if field is None or not added(field) or key in additions:
            kept[key] = _without_additions(inner, value, until) if isinstance(inner, Section) else value
    return kept


def _additions(section: Section, until: str | None = None) -> dict[str, object]:
    """List the keys of a section that a release has added and that are not at their defaults.

    Args:
        section: the values.
        until: the last release whose additions count; None: the current one.
    """
    found = {}
    for key, field in type(section).model_fields.items():
        mark, value = added(field), getattr(section, key)
        is_counted = mark is not None and (until is None or _order(mark.since) <= _order(until))
        if is_counted and value != field.get_default():
            found[key] = value
    return found


def _order(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def _canonical(value: Any) -> Any:
    """Convert 1 and 1.0 to the same value: they are equal in a configuration, but not in JSON."""
    if isinstance(value, Mapping):
        return {str(key): _canonical(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def leaves(node: Any, prefix: str = "", into_lists: bool = False) -> Iterator[tuple[str, Any]]:
    """Flatten nested plain containers to dotted keys.

    Args:
        node: the containers.
        prefix: prefix of the keys.
        into_lists: flatten lists of plain values, too; otherwise such a list is a value.

    Yields:
        A key and a value; an empty container is a value.
    """
    items: Iterable[tuple[Any, Any]] | None = None
    if isinstance(node, Mapping):
        items = node.items()
    elif isinstance(node, list) and (into_lists or any(isinstance(item, (Mapping, list)) for item in node)):
        items = enumerate(node)
    if items is None or not node:
        yield prefix, node
        return
    for key, value in items:
        yield from leaves(value, f"{prefix}.{key}" if prefix else str(key), into_lists)


def _setting(key: str) -> str:
    return next((f"{name}{key.removeprefix(part)}" for part, name in _SETTINGS.items() if key.startswith(part)), key)
