"""``epochs.csv`` and ``steps.csv`` in a run's folder: one row per epoch, and one row per logged step."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.loggers.logger import Logger
from lightning.pytorch.utilities import rank_zero_only

from radial_vicreg.io.files import append_line, atomic_file
from radial_vicreg.io.notices import warn
from radial_vicreg.names.counts import first_of
from radial_vicreg.train.callbacks.radius_monitor import RadiusMonitor, logged_radii
from radial_vicreg.train.callbacks.record import ResultsWriter

EPOCHS, STEPS = "epochs.csv", "steps.csv"

Row = Mapping[str, Any]


class EpochTable(pl.Callback):
    """Write ``epochs.csv``: the epochs of ``results.json`` with the radii that were measured after them.

    Epoch 0 is the untrained network, which has radii only. Epochs are counted from 1, and names are those of
    TensorBoard and W&B. The table is rewritten each time from the state that a checkpoint holds, so a resumed run has
    every epoch once.

    Args:
        folder: folder of the run.
    """

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder) / EPOCHS

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write the epochs up to the checkpoint; later ones will be trained again and are dropped from the table."""
        self._write(trainer)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Add the epoch, before its checkpoint."""
        self._write(trainer)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Add the radii of a run that ended before ``max_epochs``; nothing is written after a run is finished."""
        if trainer.current_epoch != trainer.max_epochs:
            self._write(trainer)

    def _write(self, trainer: pl.Trainer) -> None:
        if not trainer.is_global_zero:
            return
        rows: dict[int, dict[str, float]] = {}
        for callback in trainer.callbacks:  # type: ignore[attr-defined]
            if isinstance(callback, ResultsWriter):
                for entry in callback.history:
                    rows.setdefault(int(entry["epoch"]), {}).update(_as_logged(entry))
            elif isinstance(callback, RadiusMonitor):
                for measured in callback.history:
                    rows.setdefault(measured["epoch"], {}).update(logged_radii(measured))
        ordered = [{"epoch": epoch, **row} for epoch, row in sorted(rows.items())]
        _write_table(self.path, _columns(["epoch"], ordered), ordered)


class StepTable(Logger):
    """Append the values of single steps to ``steps.csv``, one row per logged step.

    ``step`` counts completed steps. Rows of steps that a run repeats, an incomplete last line, and damaged lines are
    dropped before the first new row; damaged lines are reported.

    Args:
        folder: folder of the run.
    """

    def __init__(self, folder: str | Path) -> None:
        super().__init__()
        self.path = Path(folder) / STEPS
        self._header: list[str] | None = None  # None: nothing was written by this process
        self._row: dict[str, float] = {}

    @property
    def name(self) -> str:
        """Name of the logger for Lightning."""
        return "steps"

    @property
    def version(self) -> str:
        """Empty: there is one table per run."""
        return ""

    def log_hyperparams(self, *_: Any, **__: Any) -> None:
        """Do nothing: ``results.json`` holds the hyperparameters."""

    @rank_zero_only
    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Add values of a step to its row; means of an epoch and measurements belong to the other table.

        Args:
            metrics: name to value.
            step: steps before this one, as Lightning counts.
        """
        values = {name: float(value) for name, value in metrics.items() if name.endswith("_step") or _is_rate(name)}
        if not values or step is None:
            return
        if self._row and self._row["step"] != step + 1:
            self.save()
        epoch = {"epoch": int(metrics["epoch"]) + 1} if "epoch" in metrics else {}
        self._row |= {"step": step + 1, **epoch, **values}

    @rank_zero_only
    def save(self) -> None:
        """Append the row, which is complete: Lightning calls this method after the values of a step."""
        if not self._row:
            return
        row, self._row = self._row, {}
        if self._header is None:
            self._rewrite([old for old in _read_table(self.path) if float(old["step"]) < row["step"]], row)
        elif set(row) - set(self._header):
            self._rewrite(_read_table(self.path), row)
        assert self._header is not None
        append_line(self.path, _text(self._header, [row], header=False).removesuffix("\n"))

    @rank_zero_only
    def finalize(self, status: str) -> None:
        """Append the last row."""
        self.save()

    def _rewrite(self, rows: list[dict[str, str]], new: Row) -> None:
        self._header = _columns(["step", "epoch"], [*rows, new])
        _write_table(self.path, self._header, rows)


def _as_logged(entry: Row) -> dict[str, float]:
    """Add to the means of an epoch the suffix that they have in loggers and not in ``results.json``."""
    return {
        f"{name}_epoch" if name.startswith("train_") else name: value
        for name, value in entry.items()
        if name != "epoch" and not _is_rate(name)
    }


def _is_rate(name: str) -> bool:
    return name.startswith("lr-")  # from Lightning's LearningRateMonitor


def _columns(first: list[str], rows: Iterable[Row]) -> list[str]:
    return [*first, *sorted({name for row in rows for name in row} - set(first))]


def _read_table(path: Path) -> list[dict[str, str]]:
    """Read the complete lines of a table of steps; none without a table. Damaged lines are reported."""
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    # Each line is parsed alone, so that a damaged one affects no other. A power failure may leave NUL bytes.
    lines = [next(csv.reader([line]), []) for line in text.replace("\0", "?").split("\n")[:-1]]
    header, values = lines[0] if lines else [], lines[1:]
    rows = [dict(zip(header, line, strict=False)) if len(line) == len(header) else {} for line in values]
    damaged = [str(number) for number, row in enumerate(rows, 2) if not _is_number(row.get("step"))]
    if damaged:
        warn(f"{path} has damaged lines, which are removed: {first_of(damaged)}")
    return [row for row in rows if _is_number(row.get("step"))]


def _write_table(path: Path, header: list[str], rows: Iterable[Row]) -> None:
    with atomic_file(path) as stream:
        stream.write(_text(header, rows).encode())


def _text(columns: list[str], rows: Iterable[Row], header: bool = True) -> str:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns, lineterminator="\n")
    if header:
        writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def _is_number(text: str | None) -> bool:
    try:
        return float(text or "nan") > 0
    except ValueError:
        return False
