"""Short, distinct names of experiments, for legends and titles."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from radial_vicreg.names.terms import ADDED, RADIAL_TERMS, terms_of
from radial_vicreg.report.collect import Experiment
from radial_vicreg.report.setting import Setting

_HASH_DIGITS = 7
_RADIAL = tuple(dict.fromkeys(term.symbol for term in RADIAL_TERMS))
_METHOD = ("method", *_RADIAL, "center", *(term.symbol for term in ADDED), "weights")


def distinguish(experiments: Sequence[Experiment]) -> tuple[list[str], str]:
    """Name every experiment by its differences in method and rate, and by as many details as make the names distinct.

    Args:
        experiments: experiments to name.

    Returns:
        A distinct name for each experiment (with the beginning of the hash if the settings are equal), and a text for
        the caption: method and rate if all experiments share them, and the differences that no name contains.
    """
    settings = [experiment.setting for experiment in experiments]
    described = [_parts(setting) for setting in settings]
    differing = _differing(described)
    needed = list(differing)
    for key in reversed(differing):  # every name contains the method and the rate
        rest = [other for other in needed if other != key]
        if key not in (*_METHOD, "lr") and len(set(_joined(described, rest))) == len(set(_joined(described, needed))):
            needed = rest
    names = _joined(described, needed) if needed else [setting.label for setting in settings]
    names = [
        name if names.count(name) == 1 else f"{name} [{experiment.experiment_hash[:_HASH_DIGITS]}]"
        for name, experiment in zip(names, experiments, strict=True)
    ]
    common = [described[0][key] for key in ("method", "lr") if key not in differing]
    others = [key for key in differing if key not in needed]
    return names, ", ".join([*common, *([f"different, but without a name: {', '.join(others)}"] if others else [])])


def differences(settings: Sequence[Setting], without: Collection[str] = ()) -> list[str]:
    """List for each setting the parts that differ among the settings that have them.

    Args:
        settings: settings to distinguish.
        without: parts to omit: ``method``, the symbol of a term's weight (``beta1``), ``center``, ``weights``, or a
            key of the details.

    Returns:
        Texts such as ``"Radial-VICReg, β1 1, lr 0.3"``; empty if nothing differs.
    """
    described = [_parts(setting) for setting in settings]
    return _joined(described, [key for key in _differing(described) if key not in without])


def _differing(described: Sequence[dict[str, str]]) -> list[str]:
    """List the parts that have several values, starting with those of the method."""
    details = [key for parts in described for key in parts if key not in _METHOD]
    keys = dict.fromkeys([*_METHOD, *details])
    return [key for key in keys if len({parts[key] for parts in described if key in parts}) > 1]


def _joined(described: Sequence[dict[str, str]], keys: Sequence[str]) -> list[str]:
    return [", ".join(parts[key] for key in keys if key in parts) for parts in described]


def _parts(setting: Setting) -> dict[str, str]:
    parts = {"method": setting.method}
    parts |= {term.symbol: f"{term.label} {setting.radial[term.symbol]:g}" for term in terms_of(setting.objective)}
    if setting.radial:
        parts |= {"center": "centred" if setting.center else "uncentred"}
    if setting.weights:
        parts |= {term.symbol: f"{term.label} {setting.weight(term.symbol):g}" for term in ADDED}
        parts |= {"weights": "λ " + "/".join(f"{x:g}" for x in setting.weights)}
    return parts | {key: f"{key} {value}" for key, value in setting.details.items()}
