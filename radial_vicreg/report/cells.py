"""The cells of the paper's tables, the paper's values in them, and the runs that belong there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from radial_vicreg.report.collect import Experiment
from radial_vicreg.report.setting import Setting
from radial_vicreg.report.statistics import Summary, summarise

SOURCES = ("online", "offline")
_PROBES = {
    ("online", "linear", "encoder"): "online_linear",
    ("online", "linear", "projector"): "online_projector_linear",
    ("online", "mlp", "encoder"): "online_mlp",
}
_METHODS = {"radialvicreg": "Radial-VICReg", "vicreg": "VICReg"}
_VARIANTS = {
    "vicreg": "VICReg",
    "radial_ce": "VICReg + Radial CE",
    "radial_ent": "VICReg + Radial ENT",
    "radial_kl": "VICReg + Radial KL",
}
_DIMS = ("512", "2048")
_HEADINGS = [f"d {d}" for d in _DIMS]
_ARCHITECTURES = {"resnet18": "ResNet-18", "vit_tiny": "ViT-Tiny"}


@dataclass
class Cell:
    """One cell.

    Attributes:
        config: name of the configuration that fills it.
        probe: ``"linear"`` or ``"mlp"``.
        features: ``"encoder"`` or ``"projector"``.
        metrics: keys of the probe's figures.
        paper: the paper's mean and standard deviation of each metric.
        experiment: the one that was found, if any.
        values: ours, by metric.
        deviations: where that experiment differs from the paper, ``name ours (paper's)``.
        remarks: why there is none, or which others were not used.
    """

    config: str
    probe: str
    features: str
    metrics: tuple[str, ...]
    paper: dict[str, tuple[float, float]]
    experiment: Experiment | None = None
    values: dict[str, Summary] = field(default_factory=dict)
    deviations: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def command(self) -> str:
        """What fills the cell, for one seed."""
        extra = " data.format=image_folder" if self.config.startswith("imagenet10") else ""
        return f"radial-vicreg pretrain --config-name {self.config}{extra} seed=5"


@dataclass
class Table:
    """One of the paper's tables.

    Attributes:
        number: of the table in the paper.
        caption: what it shows, with what ours is.
        columns: their headings.
        rows: block (an architecture, or empty), label and cells of each.
    """

    number: int
    caption: str
    columns: list[str]
    rows: list[tuple[str, str, list[Cell]]]

    @property
    def cells(self) -> list[Cell]:
        """All cells, row by row."""
        return [cell for _, _, cells in self.rows for cell in cells]


@cache
def paper() -> dict[str, Any]:
    """The paper's settings and values, shipped with the package."""
    content: dict[str, Any] = json.loads((Path(__file__).parent / "paper.json").read_text(encoding="utf-8"))
    return content


def build_tables(experiments: Sequence[Experiment], source: str = "online") -> list[Table]:
    """Tables 1 to 4 with every cell that the experiments can fill.

    Args:
        experiments: grouped runs.
        source: ``"online"`` takes the probes that learned during pretraining (as solo-learn's do, last epoch);
            ``"offline"`` those that ``radial-vicreg probe --add-to-results`` added. They are never mixed.

    Returns:
        The four tables.

    Raises:
        ValueError: another source.
    """
    if source not in SOURCES:
        raise ValueError(f"the source of the tables must be one of {', '.join(SOURCES)}, got {source!r}")
    tables = [_table_1(), _table_2(), _table_3(), _table_4()]
    for table in tables:
        table.caption += f" Ours: {source} probes, mean ± standard deviation over n seeds."
        for cell in table.cells:
            _fill(cell, experiments, source)
    return tables


def matches(setting: Setting, name: str) -> bool:
    """Whether a run is the method of one of the paper's configurations: data set, backbone, d, objective, weights.

    Args:
        setting: of the run.
        name: key of ``configs`` in ``paper.json``, ``dataset/backbone/variant``.

    Returns:
        True also where rates, epochs or batch size differ: see :func:`deviations`.
    """
    dataset, backbone, _ = name.split("/")
    wanted = paper()["configs"][name]
    objective = "none" if wanted["method"] == "vicreg" else wanted.get("objective", "kl")
    return (
        (setting.dataset, setting.backbone, setting.dim) == (dataset, backbone, wanted["proj_output_dim"])
        and setting.objective == objective
        and (setting.beta1, setting.beta2) == (wanted.get("beta1", 0), wanted.get("beta2", 0))
        and setting.gamma == wanted.get("gamma", 0)
        and setting.weights == tuple(wanted[key] for key in ("sim", "var", "cov"))
        and not setting.center
        and not setting.e2mc
    )


def deviations(setting: Setting, name: str) -> list[str]:
    """Where a run of the right method differs from what the paper states, as ``name ours (paper's)``."""
    wanted = paper()["configs"][name]
    found = []
    for key, value in setting.details.items():
        if key in wanted and str(_number(value)) != str(_number(wanted[key])):
            found.append(f"{key} {value} ({wanted[key]})")
    return found


def _fill(cell: Cell, experiments: Sequence[Experiment], source: str) -> None:
    found = [experiment for experiment in experiments if matches(experiment.setting, cell.config)]
    if len(found) > 1:
        exact = [experiment for experiment in found if not deviations(experiment.setting, cell.config)]
        others = [experiment.experiment_hash for experiment in found if experiment not in exact]
        if len(exact) != 1:
            hashes = ", ".join(experiment.experiment_hash for experiment in found)
            cell.remarks.append(f"{len(found)} experiments fit ({hashes}): not averaged, see the list of experiments")
            return
        found = exact
        cell.remarks.append(f"not used, since the settings differ from the paper's: {', '.join(others)}")
    if not found:
        return
    experiment = found[0]
    probe = (
        _PROBES[source, cell.probe, cell.features] if source == "online" else f"offline_{cell.probe}_{cell.features}"
    )
    values = {metric: summarise(experiment.values("probes", probe, metric)) for metric in cell.metrics}
    if not any(values.values()):
        cell.remarks.append(f"{experiment.experiment_hash} has no probes.{probe}.{cell.metrics[0]}")
        return
    cell.experiment = experiment
    cell.values = {metric: value for metric, value in values.items() if value is not None}
    cell.deviations = deviations(experiment.setting, cell.config)
    if any(value.count < len(experiment.runs) for value in cell.values.values()):
        cell.remarks.append(f"some of its {len(experiment.runs)} seeds have no probes.{probe}")
    cell.remarks += experiment.notes


def _table_1() -> Table:
    values = paper()["tables"]["1"]
    rows = [
        (title, _METHODS[method], [_cell(f"cifar100/{name}/{method}_d{d}", values[name][method][d]) for d in _DIMS])
        for name, title in _ARCHITECTURES.items()
        for method in _METHODS
    ]
    return Table(1, "CIFAR-100, linear probes, top-1 / top-5 (%).", _HEADINGS, rows)


def _table_2() -> Table:
    values, dims = paper()["tables"]["2"], (*_DIMS, "8192")
    rows = [
        ("", label, [_cell(f"imagenet10/resnet18/{method}_d{d}", values[method][d]) for d in dims])
        for method, label in _METHODS.items()
    ]
    return Table(2, "ImageNet-10, linear probes, top-1 / top-5 (%).", [f"d {d}" for d in dims], rows)


def _table_3() -> Table:
    values = paper()["tables"]["3"]
    rows = [
        ("", label, [_cell(f"cifar100/resnet18/{method}_d{d}", values[method][d], probe="mlp") for d in _DIMS])
        for method, label in _METHODS.items()
    ]
    return Table(3, "CIFAR-100, MLP probes, top-1 / top-5 (%).", _HEADINGS, rows)


def _table_4() -> Table:
    values = paper()["tables"]["4"]
    kinds = [(features, d) for features in ("encoder", "projector") for d in _DIMS]
    rows = []
    for variant, label in _VARIANTS.items():
        cells = [
            _cell(
                f"celeba/resnet18/{variant}_d{d}",
                {"balanced_accuracy": values[variant][features][d]},
                features=features,
            )
            for features, d in kinds
        ]
        rows.append(("", label, cells))
    caption = (
        "CelebA, 40 attributes, linear probes, mean balanced accuracy (%; chance is 50, as in the paper's column; "
        "it names no metric)."
    )
    return Table(4, caption, [f"{features} d {d}" for features, d in kinds], rows)


def _cell(config: str, paper_values: dict[str, Any], probe: str = "linear", features: str = "encoder") -> Cell:
    values = {metric: (float(pair[0]), float(pair[1])) for metric, pair in paper_values.items()}
    return Cell(config, probe, features, tuple(values), values)


def _number(value: Any) -> Any:
    try:
        return float(value)
    except (TypeError, ValueError):
        return value
