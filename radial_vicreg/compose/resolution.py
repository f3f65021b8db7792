"""Convert Hydra's containers to a :class:`radial_vicreg.config.RunConfig`; code after this takes no DictConfig."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any, TypeVar

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from radial_vicreg.compose.composition import compose
from radial_vicreg.compose.references import is_plain, keys_read, texts
from radial_vicreg.compose.yaml_guard import check_references
from radial_vicreg.config import RunConfig, read_config
from radial_vicreg.config.reading import Reader
from radial_vicreg.config.stored import stored_config
from radial_vicreg.errors import UserError
from radial_vicreg.io.secrets import refuse_short_secrets

T = TypeVar("T")

_LARGEST_EXACT = 2**53  # a whole float below it is certainly a whole number
_TEXTS = ("name", "method_tag")  # long, slow to resolve, and without effect on the training


def run_config(
    cfg: DictConfig,
    reader: Reader = "pretrain",
    rates: Mapping[str, Any] | None = None,
    ignored: Collection[str] = (),
) -> RunConfig:
    """Resolve and check a composed configuration.

    Args:
        cfg: composed; not changed.
        reader: see :func:`radial_vicreg.config.read_config`.
        rates: ``lr`` and ``classifier_lr`` as written, where ``cfg`` holds scaled ones.
        ignored: keys of ``method_kwargs`` that another base class reads.

    Returns:
        The configuration; the numbers in its name are in canonical form.

    Raises:
        UserError: as :func:`radial_vicreg.config.read_config`, or a value that cannot be resolved.
    """
    unresolved: Any = OmegaConf.to_container(cfg, resolve=False)
    if rates:
        unresolved["optimizer"] = {**unresolved["optimizer"], **rates}
    for _, text in texts(unresolved):
        refuse_short_secrets(text)
    content = _resolved(unresolved)
    if "${" in str(unresolved.get("name")):
        content["name"] = _resolved(canonical_numbers(unresolved))["name"]
    return read_config(content, reader, ignored, keys_read(unresolved))


def sweep_config(cfg: DictConfig) -> RunConfig:
    """Check the configuration of a sweep's run without its name, which takes longer to resolve than all the rest.

    Args:
        cfg: composed; not changed.

    Raises:
        UserError: as :func:`run_config`.
    """
    unresolved: Any = OmegaConf.to_container(cfg, resolve=False)
    hashed: dict[str, Any] = {}
    try:
        for key in (key for key in unresolved if key not in _TEXTS):
            value = cfg[key]
            hashed[key] = OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
    except OmegaConfBaseException as error:
        raise _unresolvable(error) from error
    return read_config({**hashed, "name": "sweep"}, helpers=keys_read(unresolved))


def arguments_config(content: Mapping[str, Any]) -> RunConfig:
    """Read the configuration in solo-learn's ``args.json``, which may be untrusted.

    Args:
        content: content of the file. Its ``${key}`` are resolved as far as possible; resolvers, such as
            ``${oc.env:...}``, are not called.

    Returns:
        The configuration, without values that can no longer be resolved.

    Raises:
        UserError: it is not the configuration of a run, or its ``${key}`` expand to too many values.
    """
    try:
        return stored_config(_resolved_alone(_without_resolvers(content)))
    except RecursionError as error:
        raise UserError("it is nested too deeply") from error


def _resolved_alone(content: Any) -> dict[str, Any]:
    """Resolve the values that can be resolved; :func:`read_config` reports missing ones."""
    check_references(content)
    resolved: dict[str, Any] = {}
    try:
        cfg = OmegaConf.create(content)
        for key in cfg:
            with suppress(OmegaConfBaseException):
                value = cfg[key]
                resolved[str(key)] = (
                    OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
                )
    except (OmegaConfBaseException, ValueError) as error:
        raise UserError(f"it cannot be read: {' '.join(str(error).split())}") from error
    return resolved


def _without_resolvers(node: Any) -> Any:
    """Remove the values whose ``${...}`` are more than keys; in a list, replace them by null."""
    if isinstance(node, Mapping):
        kept = {key: value for key, value in node.items() if not isinstance(value, str) or is_plain(value)}
        return {key: _without_resolvers(value) for key, value in kept.items()}
    if isinstance(node, list):
        return [_without_resolvers(value) for value in node]
    return None if isinstance(node, str) and not is_plain(node) else node


def declared_config(name: str, kind: type[T], overrides: Sequence[str], config_path: str | None = None) -> T:
    """Compose a configuration whose keys and defaults a dataclass declares.

    Hydra finds them by name, as it finds a YAML file.

    Args:
        name: under which Hydra finds the defaults.
        kind: the dataclass; every field has a default.
        overrides: Hydra overrides.
        config_path: folder to look in first.

    Returns:
        An instance.

    Raises:
        UserError: as :func:`radial_vicreg.compose.compose`, or a value of another type.
    """
    from hydra.core.config_store import ConfigStore

    ConfigStore.instance().store(name, asdict(kind()))  # type: ignore[call-overload]
    cfg = compose(name, overrides, config_path)
    try:
        found = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(kind), cfg))
    except OmegaConfBaseException as error:
        raise UserError(f"{error.full_key}: {str(error).splitlines()[0]}") from error
    assert isinstance(found, kind)
    return found


def canonical_numbers(value: Any) -> Any:
    """Convert numbers to their canonical form: ``100.0`` to ``100``.

    Args:
        value: plain containers.

    Returns:
        The same with whole floats as integers.
    """
    if isinstance(value, dict):
        return {key: canonical_numbers(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [canonical_numbers(item) for item in value]
    if isinstance(value, float) and math.isfinite(value) and value.is_integer() and abs(value) < _LARGEST_EXACT:
        return int(value)
    return value


def _resolved(content: Any) -> dict[str, Any]:
    try:
        plain: dict[str, Any] = OmegaConf.to_container(OmegaConf.create(content), resolve=True)  # type: ignore[assignment]
    except OmegaConfBaseException as error:
        raise _unresolvable(error) from error
    return plain


def _unresolvable(error: OmegaConfBaseException) -> UserError:
    return UserError(f"a value of the configuration cannot be resolved: {' '.join(str(error).split())}")
