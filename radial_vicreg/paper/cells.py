"""Cells of the paper's tables, with the paper's values and the runs that reproduce them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from radial_vicreg.errors import UserError
from radial_vicreg.names.choices import SELECTIONS
from radial_vicreg.names.probes import CLASS_METRICS, FEATURES, HEADLINES, HOST_PROBE, METRIC_LABELS, SOURCES
from radial_vicreg.names.terms import METHOD_LABELS, METHODS
from radial_vicreg.paper.choose import choose_best, choose_nearest
from radial_vicreg.paper.values import Deviation, matches, paper
from radial_vicreg.probes.registry import figures_key, probe_in_words
from radial_vicreg.report.collect import Experiment, probe_figure
from radial_vicreg.report.compare import by_seed
from radial_vicreg.report.statistics import Summary, summarise

_OPTIMISTIC = (
    "The same validation images select the experiment and give its value, so the value is optimistic; "
    "each cell uses its own probe."
)
_METHODS = {method: METHOD_LABELS[method] for method in METHODS}
_VICREG = METHOD_LABELS["vicreg"]
_VARIANTS = {
    "vicreg": _VICREG,
    "radial_ce": f"{_VICREG} + Radial CE",
    "radial_ent": f"{_VICREG} + Radial ENT",
    "radial_kl": f"{_VICREG} + Radial KL",
}
_OF_ATTRIBUTES = HEADLINES[1]
_OF_CLASSES = " / ".join(METRIC_LABELS[metric] for metric in CLASS_METRICS)
_DIMS = ("512", "2048")
_HEADINGS = [f"d {d}" for d in _DIMS]
ARCHITECTURES = {"resnet18": "ResNet-18", "vit_tiny": "ViT-Tiny"}


@dataclass
class Cell:
    """A cell of a table.

    Attributes:
        config: name of the configuration that fills it.
        probe: one of :data:`radial_vicreg.names.probes.PROBES`.
        features: one of :data:`radial_vicreg.names.probes.FEATURES`.
        metrics: keys of the probe's figures.
        paper: the paper's mean and standard deviation of each metric.
        experiment: the selected experiment, if any.
        values: its values, by metric.
        seeds: its values for each seed, by metric.
        deviations: its differences from the paper's cell.
        chosen: values of the swept keys that ``select="best"`` selected.
        candidates: number of experiments that were compared.
        remarks: why no experiment was selected, or which others were not used.
    """

    config: str
    probe: str
    features: str
    metrics: tuple[str, ...]
    paper: dict[str, tuple[float, float]]
    experiment: Experiment | None = None
    values: dict[str, Summary] = field(default_factory=dict)
    seeds: dict[str, dict[Hashable, float]] = field(default_factory=dict)
    deviations: list[Deviation] = field(default_factory=list)
    chosen: dict[str, object] = field(default_factory=dict)
    candidates: int = 0
    remarks: list[str] = field(default_factory=list)

    @property
    def command(self) -> str:
        """The command that fills the cell, for one seed."""
        extra = " data.format=image_folder" if self.config.startswith("imagenet10") else ""
        return f"radial-vicreg pretrain --config-name {self.config}{extra} seed=5"

    def differences(self, stated: bool) -> list[str]:
        """List deviations, ``name ours (wanted)``, from the paper's settings or, if not stated, from our choices."""
        return [str(deviation) for deviation in self.deviations if deviation.stated is stated]


@dataclass
class Table:
    """One of the paper's tables.

    Attributes:
        number: number of the table in the paper.
        caption: caption, including the source of our values.
        columns: column headings.
        rows: block (an architecture, or empty), label and cells of each row.
        swept: settings over which the paper selected the best.
        notes: notes on the whole table.
    """

    number: int
    caption: str
    columns: list[str]
    rows: list[tuple[str, str, list[Cell]]]
    swept: tuple[str, ...] = ("beta1", "beta2", "lr")
    notes: list[str] = field(default_factory=list)

    @property
    def cells(self) -> list[Cell]:
        """All cells, row by row."""
        return [cell for _, _, cells in self.rows for cell in cells]


def build_tables(experiments: Sequence[Experiment], source: str = "online", select: str = "paper") -> list[Table]:
    """Build tables 1 to 4, filling every cell for which there is an experiment.

    Args:
        experiments: grouped runs.
        source: ``"online"`` uses the probes trained during pretraining (last epoch, as in solo-learn); ``"offline"``
            uses those that ``radial-vicreg probe --add-to-results`` added. They are never mixed.
        select: ``"paper"`` selects the experiment nearest to the paper's settings; ``"best"`` selects the best of the
            experiments that differ in the swept settings, by the mean of the cell's first metric over seeds.

    Returns:
        The four tables.

    Raises:
        UserError: the source or the selection is unknown.
    """
    if source not in SOURCES:
        raise UserError(f"the source of the tables must be one of {', '.join(SOURCES)}, got {source!r}")
    if select not in SELECTIONS:
        raise UserError(f"the selection must be one of {', '.join(SELECTIONS)}, got {select!r}")
    tables = [_table_1(), _table_2(), _table_3(), _table_4()]
    for table in tables:
        table.caption += f" Ours: {source} probes, mean ± standard deviation over n seeds"
        table.caption += f", best of the sweep over {', '.join(table.swept)}." if select == "best" else "."
        table.notes += [_OPTIMISTIC] if select == "best" else []
        for cell in table.cells:
            _fill(cell, experiments, source, table.swept if select == "best" else None)
    return tables


def _fill(cell: Cell, experiments: Sequence[Experiment], source: str, swept: tuple[str, ...] | None) -> None:
    fitting = [found for found in experiments if matches(found.setting, cell.config, swept or ())]
    probe = figures_key(source, cell.probe, cell.features)
    by = f"probes.{probe}.{cell.metrics[0]}"

    def score(experiment: Experiment) -> list[float]:
        return experiment.values(probe_figure(probe, cell.metrics[0]))

    usable = [found for found in fitting if score(found)]
    lacking = [found.experiment_hash for found in fitting if not score(found)]
    cell.remarks += [f"no {by} in {', '.join(lacking)}"] if lacking else []
    if not usable:
        return
    if swept is None:
        choice = choose_nearest(usable, cell.config, score)
    else:
        choice = choose_best(usable, cell.config, score, swept, by)
    experiment = cell.experiment = choice.experiment
    cell.deviations, cell.chosen, cell.candidates = choice.deviations, choice.chosen, choice.candidates
    for metric in cell.metrics:
        seeds = by_seed(experiment, probe_figure(probe, metric))
        value = summarise(list(seeds.values()))
        if value is not None:
            cell.seeds[metric], cell.values[metric] = seeds, value
    if any(value.count < len(experiment.runs) for value in cell.values.values()):
        cell.remarks.append(f"some of its {len(experiment.runs)} seeds have no probes.{probe}")
    cell.remarks = [*choice.remarks, *cell.remarks, *experiment.notes]


def _table_1() -> Table:
    values = paper()["tables"]["1"]
    rows = [
        (title, _METHODS[method], [_cell(f"cifar100/{name}/{method}_d{d}", values[name][method][d]) for d in _DIMS])
        for name, title in ARCHITECTURES.items()
        for method in _METHODS
    ]
    return Table(1, f"CIFAR-100, {probe_in_words()}s, {_OF_CLASSES} (%).", _HEADINGS, rows)


def _table_2() -> Table:
    values, dims = paper()["tables"]["2"], (*_DIMS, "8192")
    rows = [
        ("", label, [_cell(f"imagenet10/resnet18/{method}_d{d}", values[method][d]) for d in dims])
        for method, label in _METHODS.items()
    ]
    return Table(2, f"ImageNet-10, {probe_in_words()}s, {_OF_CLASSES} (%).", [f"d {d}" for d in dims], rows)


def _table_3() -> Table:
    values, probe = paper()["tables"]["3"], "mlp"
    rows = [
        ("", label, [_cell(f"cifar100/resnet18/{method}_d{d}", values[method][d], probe) for d in _DIMS])
        for method, label in _METHODS.items()
    ]
    return Table(3, f"CIFAR-100, {probe_in_words(probe)}s, {_OF_CLASSES} (%).", _HEADINGS, rows)


def _table_4() -> Table:
    values = paper()["tables"]["4"]
    kinds = [(features, d) for features in FEATURES for d in _DIMS]
    rows = []
    for variant, label in _VARIANTS.items():
        cells = [
            _cell(
                f"celeba/resnet18/{variant}_d{d}",
                {_OF_ATTRIBUTES: values[variant][features][d]},
                features=features,
            )
            for features, d in kinds
        ]
        rows.append(("", label, cells))
    caption = (
        f"CelebA, 40 attributes, {probe_in_words()}s, mean {METRIC_LABELS[_OF_ATTRIBUTES]} (%; chance is 50, as in the "
        "paper's column; it names no metric)."
    )
    return Table(4, caption, [f"{features} d {d}" for features, d in kinds], rows, swept=("lr", "classifier_lr"))


def _cell(
    config: str, paper_values: Mapping[str, Sequence[float]], probe: str = HOST_PROBE, features: str = "encoder"
) -> Cell:
    values = {metric: (float(pair[0]), float(pair[1])) for metric, pair in paper_values.items()}
    return Cell(config, probe, features, tuple(values), values)
