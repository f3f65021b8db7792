"""Keeps ``results.json`` current while a run trains."""

from __future__ import annotations

import time
import warnings
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from torch import nn

from radial_vicreg.callbacks.radius_monitor import RadiusMonitor
from radial_vicreg.callbacks.stop_on_signal import stop_requested
from radial_vicreg.distributed import any_rank
from radial_vicreg.files import remove_leftovers, write_json
from radial_vicreg.locks import HeldLock, LockedError
from radial_vicreg.probes.metrics import BALANCED_ACCURACY
from radial_vicreg.results import RESULTS, describe_run, read_stored_run


class ResultsWriter(pl.Callback):
    """Writes ``results.json`` beside the checkpoint: after every epoch, at the end, and when a run breaks off.

    ``status`` is ``running``, ``finished``, ``stopped`` (before ``max_epochs``), ``interrupted`` or ``failed``. Other
    callbacks contribute what their ``results()`` returns. Only the first process writes.

    The folder belongs to one run at a time: another process that would write there is refused.

    Args:
        config: the resolved configuration, plain containers only.
        host: ``"solo"`` or ``"standalone"``.
        folder: where to write. None: the folder of solo-learn's ``Checkpointer``, which is known once training
            starts, or ``<checkpoint.dir>/<method>/<name>`` without one.
    """

    def __init__(self, config: dict[str, Any], host: str, folder: str | Path | None = None) -> None:
        self.config = config
        self.host = host
        self.folder = Path(folder) if folder is not None else None
        self.history: list[dict[str, float]] = []
        self._seconds_before = 0.0
        self._started = time.monotonic()
        self._finished = False
        self._lock: HeldLock | None = None
        self._description: dict[str, Any] = {}

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Finds and claims the folder and writes the first, empty results.

        Raises:
            ValueError: another process writes into the folder.
        """
        if self.folder is None:
            self.folder = _solo_folder(trainer, self.config)
        self._claim(trainer)
        self._description = {
            **describe_run(self.config, self.host, trainer.world_size),
            "started": self._start_of_run(),
            "effective": _effective(trainer, pl_module),
        }
        self._write(trainer, "running")

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Adds the epoch's metrics; the last epoch's results are final, and written before its checkpoint."""
        metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
        self.history.append({"epoch": trainer.current_epoch + 1, **_without_step_values(metrics)})
        self._finished = trainer.current_epoch + 1 == trainer.max_epochs
        if self._finished:
            self._draw(trainer)
        self._write(trainer, "finished" if self._finished else "running")

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Writes the results of a run that ended before ``max_epochs``, and lets go of the folder."""
        if not self._finished:
            self._draw(trainer)
            self._write(trainer, "stopped")
        self._release()

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        """Keeps what there is, with the reason."""
        if self._description:
            stopped = isinstance(exception, KeyboardInterrupt) or stop_requested(trainer)
            status = "interrupted" if stopped else "failed"
            self._write(trainer, status, error=f"{type(exception).__name__}: {exception}")
        self._release()

    def state_dict(self) -> dict[str, Any]:
        """History and time spent, for a resumed run."""
        return {"history": self.history, "seconds": self._seconds()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores :meth:`state_dict`."""
        self.history = state_dict["history"]
        self._seconds_before = state_dict["seconds"]

    def _claim(self, trainer: pl.Trainer) -> None:
        refusal = None
        if trainer.is_global_zero and self.folder is not None:
            take = self.config.get("lock") == "take"
            lock = HeldLock(self.folder / ".lock", f"training in {self.folder}", take)
            try:
                lock.acquire()
            except LockedError as error:
                refusal = error
            else:
                self._lock = lock
                remove_leftovers(self.folder)
                remove_leftovers(self.folder / "checkpoints")
        if any_rank(refusal is not None):
            raise refusal or LockedError(f"another process is training in {self.folder}")

    def _start_of_run(self) -> str:
        """When the run began; one that goes on in its folder keeps the time of its first start."""
        before = None if self.folder is None else read_stored_run(self.folder / RESULTS)
        return before.started if before is not None else datetime.now(timezone.utc).isoformat(timespec="seconds")

    def _draw(self, trainer: pl.Trainer) -> None:
        for callback in trainer.callbacks:  # type: ignore[attr-defined]
            if isinstance(callback, RadiusMonitor) and trainer.is_global_zero:
                try:
                    callback.draw(str(self.folder))
                except Exception as error:  # fonts, a full disk, anything: a figure never ends the work
                    warnings.warn(f"the figure of the radii was not drawn: {error!r}", stacklevel=2)

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _seconds(self) -> float:
        return self._seconds_before + time.monotonic() - self._started

    def _write(self, trainer: pl.Trainer, status: str, error: str | None = None) -> None:
        if not trainer.is_global_zero or self.folder is None:
            return
        last = self.history[-1] if self.history else {}
        content: dict[str, Any] = {
            **self._description,
            "status": status,
            "epochs": len(self.history),
            "max_epochs": trainer.max_epochs,
            "steps": trainer.global_step,
            "seconds": round(self._seconds(), 1),
            "processes": trainer.world_size,
            "probes": {"online_linear": _host_probe(last)},
            "loss_terms": {name: value for name, value in last.items() if name.startswith("train_")},
            "history": self.history,
        }
        if error is not None:
            content["error"] = error
        for callback in trainer.callbacks:  # type: ignore[attr-defined]
            if hasattr(callback, "results"):
                _merge(content, callback.results())
        write_json(self.folder / RESULTS, content)


def _effective(trainer: pl.Trainer, module: pl.LightningModule) -> dict[str, Any]:
    """What the machine made of the request: a CPU trains in float32 and has no synchronised BatchNorm."""
    return {
        "precision": str(trainer.precision),
        "sync_batchnorm": any(isinstance(part, nn.SyncBatchNorm) for part in module.modules()),
        "device": str(module.device.type),
    }


def _without_step_values(metrics: dict[str, float]) -> dict[str, float]:
    """Lightning keeps ``x``, ``x_step`` and ``x_epoch`` of one metric; the mean over the epoch is the one to keep."""
    kept = {name: value for name, value in metrics.items() if not name.endswith(("_step", "_epoch"))}
    for name in kept:
        kept[name] = metrics.get(f"{name}_epoch", kept[name])
    return kept


def _host_probe(last: dict[str, float]) -> dict[str, float | None]:
    """Figures of the host's own linear probe; the online probes add what it does not log."""
    if BALANCED_ACCURACY in last:
        return {"balanced_accuracy": last[BALANCED_ACCURACY], "accuracy": last.get("val_attribute_acc")}
    return {"top1": last.get("val_acc1"), "top5": last.get("val_acc5")}


def _merge(target: dict[str, Any], addition: dict[str, Any]) -> None:
    for key, value in addition.items():
        if isinstance(value, dict) and isinstance(target.get(key), dict):
            target[key].update(value)
        else:
            target[key] = value


def _solo_folder(trainer: pl.Trainer, config: dict[str, Any]) -> Path:
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        if type(callback).__name__ == "Checkpointer" and hasattr(callback, "path"):
            return Path(callback.path)
    folder = (config.get("checkpoint") or {}).get("dir", "trained_models")
    return Path(folder) / str(config["method"]) / str(config["name"])
