"""The list of all experiments: rows, notes, CSV."""

from __future__ import annotations

from collections.abc import Sequence

from radial_vicreg.names.terms import ADDED, RADIAL_TERMS
from radial_vicreg.report.collect import Experiment, apart
from radial_vicreg.report.columns import columns, filled_columns
from radial_vicreg.report.compare import BOLD_RULE, Lead, by_seed, lead
from radial_vicreg.report.formats import Text, text_of, to_csv
from radial_vicreg.report.statistics import summarise

_SETTINGS = {"lr": "lr", "max_epochs": "Epochs"}


def experiment_rows(experiments: Sequence[Experiment]) -> tuple[list[str], list[list[list[Text]]]]:
    """Return header and body; the best of comparable experiments is bold if clearly better than the runner-up."""
    shown = filled_columns(experiments)
    bold = {(best, name) for name, best, _, found in _leads(experiments) if found.bold}
    names, settings = setting_cells(experiments)
    header = [*names, "n", *shown, "Experiment"]
    body = []
    for index, experiment in enumerate(experiments):
        row = [[Text(text)] for text in (*settings[index], str(len(experiment.runs)))]
        for name, column in shown.items():
            value = summarise(experiment.values(column.figure))
            row.append([text_of(value, (index, name) in bold, column.decimals)])
        body.append([*row, [Text(experiment.experiment_hash)]])
    return header, body


def setting_cells(experiments: Sequence[Experiment]) -> tuple[list[str], list[list[str]]]:
    """Return column names and one row of settings per experiment.

    Rates and epochs always have a column; another setting has one if it differs within a family.
    """
    details = {**_SETTINGS, **{key: key for key in _differing(experiments) if key not in _SETTINGS}}
    tag = ["Tag"] * any(experiment.tags for experiment in experiments)
    rows = []
    for experiment in experiments:
        setting = experiment.setting
        row = [setting.images, setting.backbone, setting.dim, setting.label, *[experiment.tags] * len(tag)]
        rows.append([str(value) for value in (*row, *(setting.details.get(key, "") for key in details))])
    return ["Images", "Backbone", "d", "Method", *tag, *details.values()], rows


def experiment_notes(experiments: Sequence[Experiment]) -> list[str]:
    """Return notes on disagreeing hosts and versions, and on the lead of each family's best over its runner-up."""
    notes = [f"{found.experiment_hash}: {note}" for found in experiments for note in found.notes]
    notes += [
        f"{found.experiment_hash}: {name}: {reason}"
        for found in experiments
        for name, column in columns().items()
        if (reason := apart(found, column.figure)) is not None
    ]
    names = [f"{found.setting.label} ({found.experiment_hash})" for found in experiments]
    differences = [
        f"{figure}: {names[best]} minus {names[second]} {found.difference}"
        for figure, best, second, found in _leads(experiments)
    ]
    return [*notes, *([BOLD_RULE] if differences else []), *differences]


def experiment_csv(experiments: Sequence[Experiment]) -> str:
    """Write one line per experiment, in full precision: mean, standard deviation and seeds of every figure."""
    settings, added = ["images", "backbone", "dim", "objective"], [term.symbol for term in ADDED]
    radial = list(dict.fromkeys(term.symbol for term in RADIAL_TERMS))
    details = sorted({key for experiment in experiments for key in experiment.setting.details})
    header = ["experiment_hash", *settings, *radial, "center", *added, *details, "seeds", "tags", "notes"]
    figures = columns()
    for name in figures:
        header += [f"{name} {part}" for part in ("mean", "std", "n")]
    lines: list[list[object]] = []
    for experiment in experiments:
        setting = experiment.setting
        line = [experiment.experiment_hash, *(getattr(setting, key) for key in settings)]
        line += [*map(setting.weight, radial), setting.center, *map(setting.weight, added)]
        line += [setting.details.get(key) for key in details]
        seeds = " ".join(str(run.seed) for run in experiment.runs)
        line += [seeds, experiment.tags, "; ".join(experiment.notes)]
        for column in figures.values():
            value = summarise(experiment.values(column.figure))
            line += [value.mean, value.std, value.count] if value else [None, None, 0]
        lines.append(line)
    return to_csv(header, lines)


def _families(experiments: Sequence[Experiment]) -> list[list[int]]:
    found: dict[str, list[int]] = {}
    for index, experiment in enumerate(experiments):
        found.setdefault(experiment.setting.family, []).append(index)
    return list(found.values())


def _leads(experiments: Sequence[Experiment]) -> list[tuple[str, int, int, Lead]]:
    """List, by family and figure, the best and the runner-up (indices into ``experiments``) and their difference."""
    found = []
    for family in _families(experiments):
        for name, column in columns().items():
            if column.largest is None:
                continue
            result = lead([by_seed(experiments[index], column.figure) for index in family], column.largest)
            if result is not None:
                found.append((name, family[result.best], family[result.second], result))
    return found


def _differing(experiments: Sequence[Experiment]) -> list[str]:
    """List the details that have several values within a family, in display order."""
    found = []
    for family in _families(experiments):
        settings = [experiments[index].setting for index in family]
        for key in {key: None for setting in settings for key in setting.details}:
            if len({str(setting.details[key]) for setting in settings if key in setting.details}) > 1:
                found.append(key)
    return list(dict.fromkeys(found))
