"""Read ``results.json`` files and sort the runs into experiments whose seeds may be averaged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Literal

from radial_vicreg.errors import UserError
from radial_vicreg.names.probes import HOST_PROBE, frozen_key
from radial_vicreg.probes.registry import use_of
from radial_vicreg.report.image_sets import ImageSet, image_sets
from radial_vicreg.report.setting import Setting
from radial_vicreg.runs.origin import Images, images_remark, other_images
from radial_vicreg.runs.results import ResultsError, RunResults, UnreadableResults
from radial_vicreg.runs.stored import StoredRun, find_results, open_stored_run

_VALIDATION = ("limit_val_batches",)
_RADII = (*_VALIDATION, "diagnostics.max_images")


@dataclass(frozen=True)
class Figure:
    """One number of a run's results.

    Attributes:
        read: function that reads the number; None for a run that does not have it.
        settings: configuration keys that affect the measurement; figures are averaged only where these agree.
    """

    read: Callable[[RunResults], float | None]
    settings: tuple[str, ...] = ()

    def __call__(self, results: RunResults) -> float | None:
        """Read the number."""
        return self.read(results)

    def measured_with(self, results: RunResults) -> dict[str, object]:
        """Return the settings with which the run measured the number, including defaults."""
        return {key: attrgetter(key)(results.requested) for key in self.settings}


def probe_figure(probe: str, metric: str) -> Figure:
    """Return a reader of a probe's figure, an attribute of :class:`radial_vicreg.runs.results.ProbeFigures`.

    Settings that change the scores of an online probe are not part of a run's identity.
    """
    use = use_of(probe)
    settings = () if use is None else (*_VALIDATION, *(f"probes.{key}" for key in use.settings))
    return Figure(lambda results: getattr(results.probe(probe), metric), settings)


def radius_figure(moment: Literal["initial", "final"], statistic: str) -> Figure:
    """Return a reader of a radius statistic (evaluation mode): :class:`radial_vicreg.runs.results.RadiusStatistics`."""

    def read(results: RunResults) -> float | None:
        entry = results.radii.initial if moment == "initial" else results.radii.final
        return None if entry is None or not results.owns(entry) else getattr(entry.eval, statistic)

    return Figure(read, _RADII)


def frozen_figure(moment: Literal["untrained", "trained"], metric: str, probe: str = HOST_PROBE) -> Figure:
    """Return a reader of a probe of frozen features, before or after training."""

    def read(results: RunResults) -> float | None:
        found = getattr(results.probes, frozen_key(probe), None)
        figures = None if found is None else getattr(found, moment)
        return getattr(figures, metric) if figures is not None and results.owns(figures) else None

    return Figure(read)


def cost_figure(name: Literal["step_seconds", "peak_memory_mb"]) -> Figure:
    """Return a reader of the cost of a training step, an attribute of :class:`radial_vicreg.runs.results.Cost`."""
    return Figure(lambda results: getattr(results.cost, name, None))


@dataclass(frozen=True)
class Problem:
    """A file that no table uses, and the reason.

    Attributes:
        path: path relative to the folder that was searched.
        kind: ``failed``, ``partial``, ``unrecognized``, ``unreadable`` or ``repeated``.
        reason: reason in one sentence.
    """

    path: str
    kind: str
    reason: str


@dataclass
class Run:
    """A finished run.

    Attributes:
        path: path of its ``results.json``, relative to the folder that was searched.
        stored: contents of the file, with the run's identity.
        setting: method and settings of the run.
        image_set: its images, shared by all runs that may be compared with it; determined from all runs.
    """

    path: str
    stored: StoredRun
    setting: Setting
    image_set: ImageSet | None = None

    @property
    def results(self) -> RunResults:
        """The results in the file."""
        return self.stored.results

    @property
    def seed(self) -> int | None:
        """The run's seed."""
        return self.results.seed

    def figure(self, figure: Figure) -> float | None:
        """Look up a number of the results, or None."""
        value = figure(self.results)
        return None if value is None else float(value)


@dataclass
class Experiment:
    """Runs that differ only in their seed.

    Attributes:
        experiment_hash: hash of the configuration without the seed.
        setting: method and settings of the runs.
        runs: one run per seed, sorted by seed.
        notes: other disagreements (hosts, versions), and why other runs with these settings are kept apart.
    """

    experiment_hash: str
    setting: Setting
    runs: list[Run]
    notes: list[str] = field(default_factory=list)

    @property
    def tags(self) -> str:
        """The user-defined tags of its runs (``tag``)."""
        return ", ".join(sorted({tag for run in self.runs if (tag := run.results.requested.tag) is not None}))

    def comparable(self, figure: Figure) -> list[Run]:
        """List the runs whose figure was measured with equal settings.

        If several settings occur, those of the most runs are used; in a tie, those of the run that began last.
        """
        having = [(run, figure.measured_with(run.results)) for run in self.runs if run.figure(figure) is not None]
        alike = [[other for other, settings in having if settings == mine] for _, mine in having]
        return max(alike, key=lambda runs: (len(runs), max(run.stored.started for run in runs)), default=[])

    def values(self, figure: Figure) -> list[float]:
        """List the values of a figure over the runs that have it, see :meth:`comparable`."""
        found = (run.figure(figure) for run in self.comparable(figure))
        return [value for value in found if value is not None]


def collect(folder: str | Path) -> tuple[list[Run], list[Problem]]:
    """Find every ``results.json`` below a folder.

    Args:
        folder: folder that :func:`radial_vicreg.runs.stored.find_results` searches.

    Returns:
        The finished runs and all other files, both sorted by path.

    Raises:
        UserError: the folder does not exist.
    """
    root = Path(folder)
    if not root.is_dir():
        raise UserError(f"{root} is not a folder; give the folder that contains your runs")
    runs: list[Run] = []
    problems: list[Problem] = []
    for file in find_results(root):
        name = str(file.relative_to(root))
        try:
            found = _read(file, name)
        except ResultsError as error:
            found = Problem(
                name, "unreadable" if isinstance(error, UnreadableResults) else "unrecognized", error.reason
            )
        if isinstance(found, Run):
            runs.append(found)
        else:
            problems.append(found)
    return runs, problems


def group(runs: Iterable[Run]) -> tuple[list[Experiment], list[Problem]]:
    """Group runs that have the same identity except for the seed, and the same training and validation images.

    The identity is computed from each run's configuration. Of several runs with one seed, the one that began last is
    used. Runs with different identities or images (:mod:`radial_vicreg.report.image_sets`) are never averaged.

    Args:
        runs: finished runs.

    Returns:
        The experiments, sorted by their settings, and the runs that were excluded.
    """
    experiments, problems = [], []
    for identity, members in _by_identity(_with_image_sets(list(runs))).items():
        newest: dict[int | None, Run] = {}
        for run in sorted(members, key=lambda member: (member.stored.started, member.path)):
            if run.seed in newest:
                older = newest[run.seed].path
                problems.append(Problem(older, "repeated", f"seed {run.seed} was run again later: {run.path}"))
            newest[run.seed] = run
        kept = sorted(newest.values(), key=lambda member: str(member.seed))
        experiments.append(Experiment(identity[0], kept[0].setting, kept, _disagreements(kept)))
    for experiment in experiments:
        experiment.notes += _why_apart(experiment, experiments)
    return sorted(experiments, key=lambda found: (found.setting.order, found.experiment_hash)), problems


def _by_identity(runs: list[Run]) -> dict[tuple[str, str, bool], list[Run]]:
    """Group runs by the hash of their identity without the seed, and by their images."""
    groups: dict[tuple[str, str, bool], list[Run]] = defaultdict(list)
    for run in runs:
        groups[run.results.identity.experiment_hash, run.setting.images, _is_validated(run)].append(run)
    return groups


def apart(experiment: Experiment, figure: Figure) -> str | None:
    """Describe which seeds are excluded from a figure because they were measured with other settings; None without any.

    Args:
        experiment: runs that differ in their seed.
        figure: one of their figures.
    """
    counted = experiment.comparable(figure)
    others = [run for run in experiment.runs if run not in counted and run.figure(figure) is not None]
    if not others:
        return None
    mine = figure.measured_with(counted[0].results)
    differing = [
        f"{key} is {value}, not {mine[key]}"
        for key, value in figure.measured_with(others[0].results).items()
        if value != mine[key]
    ]
    seeds = ", ".join(str(run.seed) for run in others)
    return f"seed {seeds} is excluded: {'; '.join(differing)}"


def _with_image_sets(runs: list[Run]) -> list[Run]:
    """Assign image sets to runs; if one name stands for several sets, label the settings with the set."""
    by_name: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        by_name[run.setting.images].append(run)
    labelled: dict[str, Run] = {}
    for name, members in by_name.items():
        sets: list[ImageSet] = []
        for validated in (True, False):
            part = [_images(run) for run in members if _is_validated(run) is validated]
            sets += image_sets(part, name, validated)
        for run in members:
            own = next(s for s in sets if s.validated is _is_validated(run) and _images(run) in s.members)
            label = own.label([found for found in sets if found is not own])
            setting = run.setting.on(label) if label else run.setting
            labelled[run.path] = replace(run, setting=setting, image_set=own)
    return [labelled[run.path] for run in runs]


def _is_validated(run: Run) -> bool:
    return run.results.images.val != ()


def _images(run: Run) -> Images:
    """Return the images of a run; None for its validation images matches those of any offline probe."""
    images = run.results.measured_images()
    return images if _is_validated(run) else images._replace(val=images.val or None)


def _why_apart(experiment: Experiment, others: Iterable[Experiment]) -> list[str]:
    """Describe how the images differ from those of other experiments with the same settings."""
    own = experiment.runs[0].image_set
    found: dict[str, None] = {}
    for other in others:
        theirs = other.runs[0].image_set
        if other is experiment or other.experiment_hash != experiment.experiment_hash or not own or not theirs:
            continue
        if (reason := other_images(own.shown(own.best), theirs.shown(theirs.best))) is not None:
            found[f"kept apart from runs of the same settings that were {reason}"] = None
        elif own is not theirs and own.name == theirs.name:
            found["kept apart from runs of the same settings: it is unknown which images they share"] = None
    return list(found)


def _read(file: Path, name: str) -> Run | Problem:
    stored = open_stored_run(file.parent)
    results = stored.results
    if results.probes is None:
        return Problem(name, "unrecognized", "no probes: the file was not written by radial-vicreg")
    if not results.is_finished:
        epochs = f"{results.epochs} of {results.max_epochs} epoch{'' if results.max_epochs == 1 else 's'}"
        error = f": {results.error}" if results.error else ""
        kind = "failed" if results.status == "failed" else "partial"
        return Problem(name, kind, f"{results.status} after {epochs}{error}")
    return Run(name, stored, Setting.of(results))


def _disagreements(runs: list[Run]) -> list[str]:
    notes = []
    hosts = sorted({str(run.results.host) for run in runs})
    if len(hosts) > 1:
        notes.append(f"seeds ran on different hosts ({', '.join(hosts)})")
    precisions = sorted({str(run.setting.details["precision"]) for run in runs})
    if len(precisions) > 1:
        notes.append(f"seeds ran in different precisions ({', '.join(precisions)})")
    remark = images_remark(
        (known.shown(known.best), known.shown(_images(run)))
        for run in runs
        if (known := run.image_set) is not None and len(known.members) > 1
    )
    notes += [remark] if remark is not None else []
    versions: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        for package, version in (run.results.versions or {}).items():
            versions[package].add(str(version))
    notes += [
        f"seeds ran with different versions of {package} ({', '.join(sorted(found))})"
        for package, found in sorted(versions.items())
        if len(found) > 1
    ]
    return notes
