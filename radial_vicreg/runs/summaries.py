"""Summaries of runs and differences between two runs, for any method."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, NamedTuple

from radial_vicreg.config import RunConfig
from radial_vicreg.config.trainer_arguments import TRAINER_ARGUMENTS
from radial_vicreg.config.types import outside, plain
from radial_vicreg.config.words import field_of
from radial_vicreg.names.counts import counted
from radial_vicreg.names.probes import HOST_PROBE, frozen_key, headline, online_key
from radial_vicreg.names.terms import METHODS
from radial_vicreg.runs.identity import leaves
from radial_vicreg.runs.origin import images_remark, other_images
from radial_vicreg.runs.results import RunResults
from radial_vicreg.runs.stored import StoredRun

_SETTINGS_LEFT_OUT = re.compile(r"(name|data\.fingerprints\.seconds)$")
_RESULTS_LEFT_OUT = re.compile(
    r"(name|method|seed|max_epochs|config|config_hash|experiment_hash|schema_version|started|history|checkpoint"
    r"|radii\.(history|initial|final\.histogram))(\.|$)"
)
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"))


class RunSummary(NamedTuple):
    """The entry of a run in a list.

    Attributes:
        run: folder of the run.
        status: status in ``results.json``.
        method: method of the configuration.
        objective: the effective radial objective; ``none`` also for VICReg, None for methods that have none.
        dim: dimension d of the embeddings.
        epochs: completed epochs.
        max_epochs: requested epochs.
        w1: W1 of the radii to chi(d), evaluation mode, as last measured.
        probe: online linear probe in percent: top-1, or balanced accuracy.
        tag: the user's tag.
        started: start of the run, ISO 8601.
    """

    run: str
    status: str
    method: str | None
    objective: str | None
    dim: int | None
    epochs: int | None
    max_epochs: int | None
    w1: float | None
    probe: float | None
    tag: str | None
    started: str

    @classmethod
    def of(cls, stored: StoredRun) -> RunSummary:
        """Summarise a run."""
        results, requested = stored.results, stored.results.requested
        measured = results.radii.final or next(iter(results.radii.history[::-1]), None) or results.radii.initial
        return cls(
            run=str(stored.folder),
            status=results.status,
            method=results.method,
            objective=results.identity.radial_objective if results.method in METHODS else None,
            dim=(measured.dim if measured is not None else None) or requested.method_kwargs.proj_output_dim,
            epochs=results.epochs,
            max_epochs=results.max_epochs,
            w1=None if measured is None else measured.eval.w1_chi,
            probe=headline(results.probe(online_key())),
            tag=requested.tag,
            started=stored.started,
        )


def closing_lines(stored: StoredRun, probes: Mapping[str, str]) -> list[str]:
    """Describe a run that has just ended: progress, radii before and after, probes, files.

    Args:
        stored: the run; figures that were not finite are ``nan``.
        probes: label of each probe that may be frozen, by name.
    """
    results, folder = stored.results, stored.folder
    progress = f"{counted(results.epochs or 0, 'epoch')}, {counted(results.steps or 0, 'step')}"
    lines = [f"{results.status}: {progress}, {results.seconds or 0:.0f} s"]
    if results.cost is not None and results.cost.image_wait_share is not None:
        lines.append(f"waiting for images: {100 * results.cost.image_wait_share:.0f} % of the steps' time")
    first, last = results.radii.initial, results.radii.final
    if first is not None and last is not None and last.dim is not None:
        images = f"{_number(last.eval.count, '.0f')} {results.radii.images} images"
        lines += [
            f"radii of {images} in evaluation mode, d = {last.dim}:",
            f"  W1 to chi  {_number(first.eval.w1_chi)} -> {_number(last.eval.w1_chi)}",
            f"  mean       {_number(first.eval.radius_mean)} -> {_number(last.eval.radius_mean)}"
            f"  (sqrt(d - 1) = {(last.dim - 1) ** 0.5:.2f})",
        ]
    for name, words in probes.items():
        frozen = getattr(results.probes, frozen_key(name), None)
        if frozen is not None and frozen.untrained is not None and frozen.trained is not None:
            before, after = (f"{_number(figures.top1, '.1f')} %" for figures in (frozen.untrained, frozen.trained))
            lines.append(f"{words} of frozen features: untrained {before}, trained {after}")
    online = headline(results.probe(online_key()))
    if online is not None:
        lines.append(f"online {probes[HOST_PROBE]}: {online:.1f} %")
    files = [file.relative_to(folder) for file in folder.rglob("*") if file.suffix in (".ckpt", ".png", ".json")]
    return [*lines, f"in {folder}: {', '.join(sorted(map(str, files)))}"]


def _number(value: float | None, form: str = "6.2f") -> str:
    """Format a figure as text; one that was not finite is None in the file."""
    return format(math.nan if value is None else value, form)


def age(started: str, now: datetime | None = None) -> str:
    """Format how long ago a run began: ``3 d``, ``5 h``, ``12 min``; empty for a time that cannot be read.

    Args:
        started: start in a :class:`RunSummary`.
        now: default: the current time.
    """
    try:
        began = datetime.fromisoformat(started.split()[0]).astimezone(timezone.utc)
    except (ValueError, IndexError, OverflowError):
        return ""
    seconds = ((now or datetime.now(timezone.utc)) - began).total_seconds()
    for length, unit in _UNITS:
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return "now"


class Difference(NamedTuple):
    """A key that differs between two runs.

    Attributes:
        part: ``configuration``, ``results``, or ``no settings`` for keys of a configuration that only ``${...}`` read,
            if anything.
        key: dotted.
        first: its value in the first run; None if it is missing.
        second: its value in the second run; None if it is missing.
    """

    part: str
    key: str
    first: Any
    second: Any


def differences(first: RunResults, second: RunResults) -> list[Difference]:
    """List the differences between two runs in configuration and results.

    Omitted are the name and the hashes, which follow from the settings; the checkpoint, whose epochs and steps are
    those of the run; long entries (histories, histograms); and defaults that only one of the two has written out.

    Args:
        first: results of a run.
        second: results of another.

    Returns:
        The differing keys; 100 and 100.0 are equal.
    """
    found: list[Difference] = []
    for part, one, other, left_out in (
        ("configuration", dict(leaves(first.config)), dict(leaves(second.config)), _SETTINGS_LEFT_OUT),
        ("results", dict(leaves(first.plain())), dict(leaves(second.plain())), _RESULTS_LEFT_OUT),
    ):
        for key in dict.fromkeys([*one, *other]):
            default = _default(key) if part == "configuration" else None
            values = one.get(key, default), other.get(key, default)
            if values[0] != values[1] and not left_out.match(key):
                found.append(Difference(_part(part, key), key, *values))
    return found


def _part(part: str, key: str) -> str:
    name = key.partition(".")[0]
    is_read = part != "configuration" or name in RunConfig.model_fields or name in TRAINER_ARGUMENTS
    return part if is_read else "no settings"


def images_note(first: RunResults, second: RunResults) -> str | None:
    """Describe why the images of two runs forbid a comparison of figures; None if the images are known and agree.

    Args:
        first: results of a run.
        second: results of another.
    """
    if (reason := other_images(first.images, second.images)) is not None:
        return f"{reason}: their results are not comparable"
    return images_remark([(first.images, second.images)])


def differently_measured(stored: RunConfig, asked: RunConfig) -> list[str]:
    """List the settings in which the figures of a stored run were measured differently than requested.

    Such settings are not part of an identity: the weights are the same, but the figures are not.

    Args:
        stored: configuration of the run.
        asked: requested configuration of the same identity.

    Returns:
        For example ``probes.mlp_hidden_dim=512, not 1024``.
    """
    figures = outside(RunConfig.model_fields["probes"])
    sections = {name for name, field in RunConfig.model_fields.items() if outside(field) == figures}
    one, other = (dict(leaves(plain(config.model_dump(include=sections)))) for config in (stored, asked))
    return [f"{key}={value}, not {other[key]}" for key, value in one.items() if value != other[key]]


def _default(key: str) -> Any:
    """Look up the default of a configuration key; None for unknown keys."""
    try:
        field = field_of(key, RunConfig)
    except KeyError:
        return None
    return None if field.is_required() else plain(field.get_default())
