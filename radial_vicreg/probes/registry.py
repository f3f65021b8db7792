"""Registry of the probes, used by the command line, both hosts and the report."""

from __future__ import annotations

from importlib import import_module

from radial_vicreg.config import ProbesConfig
from radial_vicreg.names import probes as probe_names
from radial_vicreg.names.probes import HOST_PROBE, frozen_key, offline_key, online_key
from radial_vicreg.probes.base import Online, Probe


def probe_class(name: str) -> type[Probe]:
    """Find the class of a probe.

    Args:
        name: one of :data:`radial_vicreg.names.probes.PROBES`.

    Returns:
        The class in the module of this name.

    Raises:
        TypeError: the module has no probe, several probes or a probe with another name.
    """
    module = import_module(f"radial_vicreg.probes.{name}")
    own = [value for value in vars(module).values() if getattr(value, "__module__", None) == module.__name__]
    found: list[type[Probe]] = [value for value in own if isinstance(value, type) and issubclass(value, Probe)]
    if len(found) != 1:
        raise TypeError(f"{module.__name__} must define one subclass of Probe, found {len(found)}")
    if found[0].name != name:
        raise TypeError(f"{found[0].__name__} has the name {found[0].name!r}, but its module is {name}")
    return found[0]


def probe_classes() -> list[type[Probe]]:
    """List all probe classes, in the order of :data:`radial_vicreg.names.probes.PROBES`."""
    return [probe_class(name) for name in probe_names.PROBES]


def probe_in_words(name: str = HOST_PROBE) -> str:
    """Return the name of a probe in captions and sentences, such as ``linear probe``."""
    return f"{probe_class(name).label} probe"


def switched_on(settings: ProbesConfig) -> list[tuple[type[Probe], Online]]:
    """List the probes, with their uses, that a configuration trains together with the network."""
    return [
        (probe, use)
        for probe in probe_classes()
        for use in probe.online
        if use.switch is not None and getattr(settings, use.switch)
    ]


def frozen_probes(settings: ProbesConfig) -> list[type[Probe]]:
    """List the probes that a configuration fits before and after training."""
    return [probe for probe in probe_classes() if probe.frozen and getattr(settings, frozen_key(probe.name))]


def figures_key(source: str, probe: str, features: str) -> str:
    """Return the key of a probe's figures for given features in section ``probes`` of ``results.json``.

    Args:
        source: one of :data:`radial_vicreg.names.probes.SOURCES`; ``"online"`` requires exactly one such use.
        probe: one of :data:`radial_vicreg.names.probes.PROBES`.
        features: one of :data:`radial_vicreg.names.probes.FEATURES`.
    """
    if source == "offline":
        return offline_key(probe, features)
    (name,) = (use.name for use in probe_class(probe).online if use.features == features)
    return online_key(name)


def use_of(key: str) -> Online | None:
    """Find the online use for a key of ``results.json``, such as ``online_knn20``; None for other keys."""
    for probe in probe_classes():
        for use in probe.online:
            whole = online_key(use.name)
            if key == whole or (key.startswith(whole) and key.removeprefix(whole).isdigit()):
                return use
    return None
