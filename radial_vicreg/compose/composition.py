"""Configurations from Hydra's compose API, with one-line errors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from radial_vicreg.compose.overrides import how_to_write, sweeping, with_present_groups
from radial_vicreg.compose.yaml_guard import check_anchors, check_references, children, yaml_text
from radial_vicreg.config.reading import is_setting
from radial_vicreg.errors import UserError
from radial_vicreg.io.secrets import HIDDEN, is_secret, without_secrets
from radial_vicreg.names.configurations import choices_of, configurations, full_name, groups, new_group, new_name
from radial_vicreg.names.counts import counted
from radial_vicreg.names.hints import meant

if TYPE_CHECKING:
    from hydra.errors import MissingConfigException

_LONGEST_SHOWN = 100
_MOST_LISTED = 12  # choices of a group in an error
_A_SWEEP = "; several runs are a sweep: `radial-vicreg sweep FILE`"
_LISTED = "`radial-vicreg configs` lists them"


def compose(config_name: str, overrides: Sequence[str], config_path: str | None = None) -> DictConfig:
    """Compose a configuration of the package, or of a folder whose defaults may use the package's groups.

    Args:
        config_name: name without ``.yaml``, with its folder; ``radialvicreg/`` may be omitted.
        overrides: Hydra overrides; groups may have the names of release 0.2, which one line reports.
        config_path: folder to look in first.

    Returns:
        The configuration.

    Raises:
        UserError: no such configuration or folder, an override that cannot be parsed (the quoted form is named), an
            unknown key (the nearest known one is named), a value that is missing, a file whose anchors expand too far.
    """
    from hydra import compose as hydra_compose
    from hydra import initialize, initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    if config_path is not None and not Path(config_path).is_dir():
        raise UserError(f"--config-path {config_path} is not a folder")
    if several := sweeping(overrides):
        shown = [override for override in several if not is_secret(override.partition("=")[0])]
        raise UserError(f"expected one value per key, got several: {' '.join(shown)}{how_to_write(shown) or _A_SWEEP}")
    if config_path is not None:
        check_anchors(config_path)
    config_name = full_name(config_name, config_path)
    overrides = with_present_groups(overrides, config_path)
    GlobalHydra.instance().clear()
    if config_path is None:
        # No folder is needed: the package's plug-in adds its configurations once this module is imported.
        context: Any = initialize(config_path=None, **_version_base())
    else:
        context = initialize_config_dir(str(Path(config_path).resolve()), **_version_base())
    with context:
        try:
            cfg = hydra_compose(config_name, overrides=overrides)
        except Exception as error:  # the errors of Hydra, OmegaConf and PyYAML share no base
            raise UserError(_explain(error, config_name, overrides, config_path)) from error
    unresolved = OmegaConf.to_container(cfg, resolve=False)
    check_references(unresolved)
    if missing := sorted(_missing(unresolved)):
        raise UserError(f"{', '.join(missing)} must be set, for example {missing[0]}=VALUE")
    try:
        OmegaConf.resolve(cfg.copy())
    except OmegaConfBaseException as error:
        key = f"{error.full_key} of {config_name}" if error.full_key else f"a value of {config_name}"
        raise UserError(f"{key} cannot be resolved: {_first_words(error)}") from error
    return cfg


def composed_text(config_name: str, overrides: Sequence[str], config_path: str | None = None) -> str:
    """Write a configuration as YAML, every ``${...}`` resolved and secrets hidden; see :func:`compose`."""
    resolved = OmegaConf.to_container(compose(config_name, overrides, config_path), resolve=True)
    return yaml_text(without_secrets(resolved))


def _missing(node: Any, prefix: str = "") -> Iterator[str]:
    """List the dotted keys whose value is ``???``; OmegaConf's own list fails where another value refers to one."""
    if node == "???":
        yield prefix
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in inner:
        yield from _missing(value, f"{prefix}.{key}" if prefix else str(key))


def _version_base() -> dict[str, Any]:
    """Return the arguments for the installed Hydra's own behaviour: 1.3 warns without one, 1.4 with one."""
    from hydra import __version__

    return {"version_base": None} if __version__.startswith("1.3.") else {}


def _explain(error: Exception, config_name: str, overrides: Sequence[str], config_path: str | None) -> str:
    from hydra.errors import (
        ConfigCompositionException,
        HydraException,
        MissingConfigException,
        OverrideParseException,
    )

    text = _first_words(error)
    if isinstance(error, MissingConfigException) and error.missing_cfg_file == config_name:
        return _no_such_configuration(config_name, config_path)
    if isinstance(error, MissingConfigException) and (new := new_name(str(error.missing_cfg_file))) is not None:
        return f"{text.removesuffix('.')}; did you mean /{new}?"
    if isinstance(error, MissingConfigException) and "/" in str(error.missing_cfg_file):
        return _no_such_choice(error, overrides, config_path)
    if isinstance(error.__cause__ or error, (IndexError, TypeError)):
        wrong = _wrong_index(config_name, overrides)
        if wrong is not None:
            return wrong
    if isinstance(error, OverrideParseException):
        key, sign, value = error.override.partition("=")
        shown = value if len(value) <= _LONGEST_SHOWN else f"{value[:_LONGEST_SHOWN]}..."
        hidden = HIDDEN if is_secret(key) else shown
        if hidden != shown:
            return f"cannot read the override {key}{sign}{hidden}: its syntax is invalid"
        return f"cannot read the override {key}{sign}{shown}: {text}{how_to_write([error.override])}"
    if isinstance(error, RecursionError):
        return f"{config_name} is nested too deeply, or its defaults include itself"
    if not isinstance(error, (HydraException, OmegaConfBaseException)):
        return f"{config_name} cannot be read: {text}"
    if isinstance(error, ConfigCompositionException) and error.__cause__ is not None:
        text = f"{text}: {_first_words(error.__cause__)}"
    found = re.search(r"[Cc]ould not override '([^']+)'", text) or re.search(r"Key '([^']+)' is not in struct", text)
    if found and found.group(1).startswith(("shared/", "radialvicreg/")):
        known = {group.partition("/")[2]: group for group in groups()}
        near = new_group(found.group(1)) or known.get(meant(found.group(1).partition("/")[2], known) or "")
        hint = f"the groups are {', '.join(known.values())}" if near is None else f"did you mean {near}?"
        return f"{text.partition('. ')[0]}; {hint}"
    if found:
        key = found.group(1)
        inner = re.search(r"Key '([^']+)' is not in struct", text)
        if inner and inner.group(1) not in key.split("."):
            key = f"{key}.{inner.group(1)}"  # key={inner: ...}
        return f"unknown key {key!r}; {_hint(key, list(_known_keys(config_name)))}"
    return text if config_name in text else f"{config_name}: {text}"


def _no_such_configuration(name: str, own: str | None) -> str:
    near = meant(name, (found.name for found in configurations(own)))
    hint = "" if near is None else f"did you mean {near}? "
    return (
        f"there is no configuration {name!r}{'' if own is None else f' in {own} or in radial-vicreg'}; {hint}{_LISTED}"
    )


def _no_such_choice(error: MissingConfigException, overrides: Sequence[str], own: str | None) -> str:
    """Describe a choice that a group does not have, in an override or in the defaults of a file."""
    file = str(error.missing_cfg_file)
    given = (override.lstrip("+").partition("=")[::2] for override in overrides)
    chosen = [(key.partition("@")[0], value) for key, value in given]
    group, value = next((pair for pair in chosen if "/".join(pair) == file), ("", ""))
    said = f"there is no {group}={value}"
    if not group:
        group, _, value = file.rpartition("/")
        said = _first_words(error).partition(" Available options")[0].removesuffix(".")
    known = choices_of(group, own)
    if (near := meant(value, known)) is not None:
        return f"{said}; did you mean {near}?"
    listed = _LISTED if len(known) > _MOST_LISTED else f"there are {', '.join(known)}"
    return f"{said}; {listed}" if known else said


def _wrong_index(config_name: str, overrides: Sequence[str]) -> str | None:
    """Describe the first override that asks for an entry that a list of the files does not have."""
    from hydra import compose as hydra_compose

    base: Any = OmegaConf.to_container(hydra_compose(config_name), resolve=False)
    for override in overrides:
        key = override.partition("=")[0].lstrip("+")
        node, parts = base, key.split(".")
        for place, part in enumerate(parts):
            if isinstance(node, list):
                name, last = ".".join(parts[:place]), len(node) - 1
                which = f"index is {last}" if last == 0 else f"indices are 0 to {last}"
                if not part.isdecimal():
                    return f"{key}: {name} is a list; its {which}"
                if int(part) > last:
                    return f"{key}: {name} has {counted(len(node), 'entry', 'entries')}, whose {which}"
            node = dict(children(node)).get(part)
    return None


def _hint(key: str, known: list[str]) -> str:
    of_a_run = "method_kwargs" in known
    if of_a_run and is_setting(key):
        return f"the configuration does not have this key; add it with +{key}=..."
    if (near := meant(key, known)) is not None:
        return f"did you mean {near}?"
    addition = f" (+{key}=... defines a value for ${{{key}}})" if of_a_run and "." not in key else ""
    return f"see `--cfg` for the known keys{addition}"


def _first_words(error: BaseException) -> str:
    """Cut off the parts of a message that repeat Hydra's search path and OmegaConf's object types."""
    text = re.split(r"\n\s*(?:Config search path|full_key|object_type)\b", str(error))[0].strip()
    return " ".join(text.split()) or type(error).__name__


def _known_keys(config_name: str) -> Iterator[str]:
    """List the dotted keys of the configuration without overrides."""

    def walk(node: Any, prefix: str) -> Iterator[str]:
        for key, child in children(node):
            yield f"{prefix}{key}"
            yield from walk(child, f"{prefix}{key}.")

    from hydra import compose as hydra_compose
    from hydra.errors import HydraException

    try:
        yield from walk(OmegaConf.to_container(hydra_compose(config_name), resolve=False), "")
    except (HydraException, OmegaConfBaseException):
        return
