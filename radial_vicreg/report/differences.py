"""Differences of all experiments to a reference experiment: rows, notes, CSV."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from radial_vicreg.errors import UserError
from radial_vicreg.names.counts import first_of
from radial_vicreg.report.collect import Experiment
from radial_vicreg.report.columns import Column, filled_columns
from radial_vicreg.report.compare import LEVEL, Difference, by_seed, compare
from radial_vicreg.report.experiments import setting_cells
from radial_vicreg.report.formats import MISSING, Text, number_text, to_csv
from radial_vicreg.report.naming import distinguish

_MOST_NAMED = 12
_NOTES = (
    f"Mean of the row's experiment minus that of the other, with the {100 * LEVEL:g} % interval of a t test: "
    "paired over the n seeds that both have if these are two or more, otherwise Welch's (n: seeds of each). A "
    "single seed has no interval.",
    "Bold: the interval excludes zero. The intervals are not corrected for multiple comparisons: of twenty "
    "without a difference, one excludes zero on average.",
)
_NOTHING = "Nothing to compare: every other experiment differs in more than method, loss weights, rates and batch size."


@dataclass(frozen=True)
class Differences:
    """Differences of experiments to the reference experiment of their family, for each family that has one.

    Attributes:
        pairs: experiments, each with its reference.
        bases: reference experiments, one per family.
        columns: figures that at least one of them has.
    """

    pairs: list[tuple[Experiment, Experiment]]
    bases: list[Experiment]
    columns: dict[str, Column]

    @property
    def caption(self) -> str:
        """Name the reference experiments."""
        names = dict.fromkeys(f"{base.setting.label} ({base.experiment_hash})" for base in self.bases)
        return f"Differences to {', '.join(names)}"


def differences(experiments: Sequence[Experiment], against: str) -> Differences:
    """Pair every experiment with the comparable reference experiment.

    Args:
        experiments: all experiments.
        against: reference: the beginning of an experiment's hash, or a method (its ``method``, or
            :attr:`~.setting.Setting.key`, which distinguishes Radial-VICReg's objectives).

    Returns:
        The pairs, in the order of the experiments.

    Raises:
        UserError: no experiment has this method or hash, or several possible references do.
    """
    bases = _find_bases(experiments, against)
    by_family = {base.setting.family: base for base in bases}
    pairs = [
        (found, by_family[found.setting.family])
        for found in experiments
        if by_family.get(found.setting.family, found) is not found
    ]
    compared = [experiment for pair in pairs for experiment in pair]
    columns = {name: column for name, column in filled_columns(compared).items() if column.compared}
    return Differences(pairs, bases, columns)


def difference_rows(found: Differences) -> tuple[list[str], list[list[list[Text]]]]:
    """Return header and body; a difference is bold if its interval excludes zero.

    Column n refers to the first figure of the row; a figure over other seeds is followed by its own n.
    """
    names, settings = setting_cells([*(experiment for experiment, _ in found.pairs), *found.bases])
    header = [*names, "n", *found.columns, "Experiment"]
    body = []
    for setting, (experiment, base) in zip(settings, found.pairs, strict=False):  # bases have no row
        results = [(_compare(experiment, base, column), column.decimals) for column in found.columns.values()]
        count = next((_count(result) for result, _ in results if result is not None), MISSING)
        cells = [[_text(result, decimals, count)] for result, decimals in results]
        body.append([*([Text(text)] for text in setting), [Text(count)], *cells, [Text(experiment.experiment_hash)]])
    return header, body


def difference_notes(found: Differences) -> list[str]:
    """Describe how the intervals are computed."""
    return list(_NOTES) if found.pairs else [_NOTHING]


def difference_csv(found: Differences) -> str:
    """Write one line per experiment and figure, in full precision."""
    columns = ["experiment_hash", "images", "backbone", "dim", "method", "against_hash", "against_method", "figure"]
    columns += ["difference", "se", "low", "high", "n", "against_n", "paired"]
    lines: list[list[object]] = []
    for experiment, base in found.pairs:
        setting = experiment.setting
        place = [experiment.experiment_hash, setting.images, setting.backbone, setting.dim, setting.label]
        place += [base.experiment_hash, base.setting.label]
        for name, column in found.columns.items():
            result = _compare(experiment, base, column)
            if result is not None:
                values = [result.value, result.error, result.low, result.high, *result.counts, result.paired]
                lines.append([*place, name, *values])
    return to_csv(columns, lines)


def _find_bases(experiments: Sequence[Experiment], against: str) -> list[Experiment]:
    if not experiments:
        raise UserError(f"nothing to compare with {against!r}: no run is finished")
    named = [found for found in experiments if against in _names(found)]
    begun = [found for found in experiments if against and found.experiment_hash.startswith(against.lower())]
    if not named and not begun:
        methods = ", ".join(sorted({name for found in experiments for name in _names(found)}))
        raise UserError(f"no experiment is {against!r}; methods: {methods}; experiments: {_listed(experiments)}")
    bases = named or begun
    hashes = {found.experiment_hash for found in bases}
    most = max(Counter(found.setting.family for found in bases).values())
    if most > 1 or (not named and len(hashes) > 1):
        raise UserError(f"{against!r} is more than one experiment; give the hash of one: {_listed(bases)}")
    return bases


def _names(experiment: Experiment) -> set[str]:
    """Return the names of an experiment's method; Radial-VICReg with zero weights counts as VICReg only."""
    setting = experiment.setting
    radial = setting.key.startswith("radial_")
    return {setting.key, "radialvicreg"} if radial else {setting.key}


def _listed(experiments: Sequence[Experiment]) -> str:
    names, _ = distinguish(experiments)
    listed = [f"{found.experiment_hash} ({name})" for found, name in zip(experiments, names, strict=True)]
    return first_of(listed, _MOST_NAMED)


def _compare(experiment: Experiment, base: Experiment, column: Column) -> Difference | None:
    first, second = (by_seed(side, column.figure) for side in (experiment, base))
    return compare(first, second) if first and second else None


def _count(found: Difference) -> str:
    return str(found.counts[0]) if found.paired else f"{found.counts[0]} and {found.counts[1]}"


def _text(found: Difference | None, decimals: int, count: str) -> Text:
    """Write ``+0.52 [−0.10, 1.14]``."""
    if found is None:
        return Text(MISSING)
    suffix = "" if _count(found) == count else f" (n {_count(found)})"
    value = number_text(found.value, decimals, sign="+")
    if found.low is None or found.high is None:
        return Text(value, suffix=suffix)
    interval = f"[{number_text(found.low, decimals)}, {number_text(found.high, decimals)}]"
    return Text(f"{value} {interval}", bold=found.low > 0 or found.high < 0, suffix=suffix)
