"""Keep ``results.json`` current while a run trains."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from torch import nn

from radial_vicreg.config import RunConfig
from radial_vicreg.config.stored import stored_config
from radial_vicreg.errors import UserError
from radial_vicreg.io.files import claim_output, point_link, remove_leftovers
from radial_vicreg.io.locks import HeldLock, LockedError
from radial_vicreg.io.notices import warn
from radial_vicreg.io.secrets import without_secrets
from radial_vicreg.names.probes import host_figures, is_offline, is_untrained, online_key
from radial_vicreg.runs.checkpoints import CHECKPOINTS
from radial_vicreg.runs.origin import images_of, origin_of
from radial_vicreg.runs.provenance import describe_run
from radial_vicreg.runs.results import FINISHED, RESULTS, Effective, RunResults, Status
from radial_vicreg.runs.stored import LATEST, RunsByIdentity, StoredRun, read_stored_run
from radial_vicreg.runtime.distributed import any_rank
from radial_vicreg.train.callbacks.checkpointing import settle_checkpoints, written_checkpoint
from radial_vicreg.train.callbacks.radius_monitor import RadiusMonitor
from radial_vicreg.train.callbacks.solo_checkpoints import solo_folder
from radial_vicreg.train.callbacks.stop_on_signal import stop_reason
from radial_vicreg.train.run_folder import TRAIN_ELSEWHERE
from radial_vicreg.train.same_run import resumes_other_figures, run_around

_LOCK = ".lock"


class ResultsWriter(pl.Callback):
    """Write ``results.json`` next to the checkpoint: after every epoch, at the end, and when a run is interrupted.

    ``status`` is ``running``, ``finished``, ``stopped`` (before ``max_epochs``), ``interrupted`` or ``failed``. The
    ``results()`` of other callbacks are included. Only the first process writes.

    After the last epoch the figures are written as ``running``, then the checkpoint is written, then ``finished`` with
    that checkpoint's name. A run that is killed in between is not finished, and is completed when it is resumed.

    The folder belongs to one run at a time: another process that tries to write there is refused.

    Args:
        config: the resolved configuration to record, in plain containers.
        host: ``"solo"`` or ``"standalone"``.
        folder: where to write. None: the folder of solo-learn's ``Checkpointer``, which is known once training
            starts, or ``<checkpoint.dir>/<method>/<name>`` without a ``Checkpointer``.
    """

    def __init__(self, config: Mapping[str, object], host: str, folder: str | Path | None = None) -> None:
        self.config = config
        self.host = host
        self.folder = Path(folder) if folder is not None else None
        self.history: list[dict[str, float]] = []
        self._seconds_before = 0.0
        self._started = time.monotonic()
        self._complete = False
        self._lock: HeldLock | None = None
        self._description: dict[str, object] = {}
        self._written: RunResults | None = None
        self._processes = 1
        self._precision: str | None = None
        self._validated: list[int] | None = None  # epoch and step of the weights at the last validation

    @cached_property
    def requested(self) -> RunConfig:
        """The configuration, typed."""
        return stored_config(self.config)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Find and claim the folder, write the first, empty results, and point the link ``latest`` to the folder.

        Raises:
            UserError: another process writes into the folder, its file system lacks an ability that a run needs, or
                solo-learn chose a folder that holds another run.
        """
        self._processes, self._precision = trainer.world_size, str(trainer.precision)
        before, of_this_command = self._predecessor(trainer), self.folder is not None
        if self.folder is None:
            self.folder = solo_folder(trainer) or self._folder_without_checkpoints()
            self._refuse_other_run(trainer)
        self._claim(trainer)
        self._description = {
            **describe_run(self.config, self.host, trainer.world_size),
            "started": self._start_of_run(),
            "effective": _effective(trainer, pl_module).plain(),
        }
        if before is not None:
            self._take_over(trainer, before)
        self._write(trainer, "running")
        if of_this_command and trainer.is_global_zero:
            point_link(Path(self.requested.runs_dir) / LATEST, self.folder)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Remember the weights on which the figures of the host's own probe were measured."""
        if not trainer.sanity_checking:
            self._validated = [trainer.current_epoch + 1, trainer.global_step]

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Add the epoch's metrics; the figures of the last epoch are final and are written before its checkpoint."""
        metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
        self.history.append({"epoch": trainer.current_epoch + 1, **_without_step_values(metrics)})
        self._complete = trainer.current_epoch + 1 == trainer.max_epochs
        if self._complete:
            self._draw(trainer)
        self._write(trainer, "running")

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Mark the run as finished, since its last checkpoint is written by now, or as stopped; release the folder."""
        if self._complete:
            self._finish(trainer, written_checkpoint(trainer))
        else:
            self._draw(trainer)
            self._write(trainer, "stopped")
        self._release()

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Finish the results of a run that was killed after its last checkpoint and has nothing left to train.

        Raises:
            LockedError: another process writes into the run's folder.
        """
        if self._description or not trainer.is_global_zero or trainer.current_epoch != trainer.max_epochs:
            return
        before = self._predecessor(trainer) if self.folder is None else read_stored_run(self.folder)
        if before is None or before.results.is_finished:
            return
        self.folder = before.folder
        self._acquire()
        try:
            self._written = before.results
            if before.results.epochs != trainer.max_epochs:
                self._description = before.results.plain()
                self._complete_figures(trainer, pl_module)
            settle_checkpoints(trainer)
            self._finish(trainer, trainer.ckpt_path)
        finally:
            self._release()

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        """Write the results so far, with the reason."""
        if self._description:
            reason = stop_reason(trainer, exception)
            error = f"{type(exception).__name__}: {exception}" if reason is None else reason
            self._write(trainer, "failed" if reason is None else "interrupted", error)
        self._release()

    def state_dict(self) -> dict[str, Any]:
        """Keep history and elapsed time for a resumed run, and the configuration, which identifies the run."""
        known = {"config": without_secrets(self.config), "processes": self._processes, "precision": self._precision}
        return {"history": self.history, "seconds": self._seconds(), "validated": self._validated, **known}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`, but no figure of other validation images than this run's."""
        self.history = state_dict["history"]
        self._seconds_before = state_dict["seconds"]
        self._validated = state_dict.get("validated")  # absent from checkpoints of earlier versions
        if resumes_other_figures(state_dict, self.requested):
            self._validated = None
            self.history = [
                {name: value for name, value in entry.items() if not name.startswith("val_")} for entry in self.history
            ]

    def _complete_figures(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write the figures of the last epoch from its checkpoint.

        An earlier version wrote its results after the checkpoint, so the file may hold those of an earlier epoch.
        """
        for callback in trainer.callbacks:  # type: ignore[attr-defined]
            if isinstance(callback, RadiusMonitor):
                callback.complete(trainer, pl_module)
        self._draw(trainer)
        self._complete = True
        self._write(trainer, "running")

    def _finish(self, trainer: pl.Trainer, checkpoint: str | Path | None) -> None:
        """Add to the figures in the file that the run is finished, and the name of its checkpoint."""
        if not trainer.is_global_zero or self.folder is None:
            return
        epoch, step = int(trainer.max_epochs or 0), trainer.global_step
        saved = None if checkpoint is None else {"name": Path(checkpoint).name, "epoch": epoch, "step": step}

        def finished(stored: RunResults | None) -> RunResults:
            figures = stored or self._written
            assert figures is not None
            content = {key: value for key, value in figures.plain().items() if key != "error"}  # of an earlier start
            return RunResults.model_validate({**content, "status": FINISHED, "checkpoint": saved})

        RunResults.update(self.folder / RESULTS, finished, owner=True)

    def _claim(self, trainer: pl.Trainer) -> None:
        refusal = None
        if trainer.is_global_zero and self.folder is not None:
            try:
                self._acquire()
            except UserError as error:
                refusal = error
        if any_rank(refusal is not None):
            raise refusal or LockedError(f"the first process could not claim {self.folder}")

    def _acquire(self) -> None:
        assert self.folder is not None
        claim_output(self.folder, "folder", TRAIN_ELSEWHERE)
        take = self.requested.lock == "take"
        lock = HeldLock(self.folder / _LOCK, f"training in {self.folder}", take)
        lock.acquire()
        self._lock = lock
        remove_leftovers(self.folder)
        remove_leftovers(self.folder / CHECKPOINTS)

    def _start_of_run(self) -> str:
        """Return the start time of the run; a run that resumes in its folder keeps the time of its first start."""
        before = None if self.folder is None else read_stored_run(self.folder)
        return before.started if before is not None else datetime.now(timezone.utc).isoformat(timespec="seconds")

    def _refuse_other_run(self, trainer: pl.Trainer) -> None:
        """Refuse a folder with the results of another run: solo-learn numbers its folders by the logger's version."""
        assert self.folder is not None
        found = read_stored_run(self.folder) if trainer.is_global_zero else None
        is_other = found is not None and not RunsByIdentity([found]).of(self.requested, trainer.world_size)
        if any_rank(is_other):
            raise UserError(
                f"{self.folder} contains the results of another run: solo-learn numbers its folders by those in "
                "lightning_logs of the working directory. Start in the directory of the other runs, or use a "
                "separate checkpoint.dir"
            )

    def _take_over(self, trainer: pl.Trainer, before: StoredRun) -> None:
        """Record in a killed run's results the folder in which it resumes: solo-learn makes a folder for each start."""
        if before.folder == self.folder or before.results.status != "running" or not trainer.is_global_zero:
            return
        reason = f"the process was killed; {self.folder} resumes from {Path(str(trainer.ckpt_path)).name}"

        def interrupted(stored: RunResults | None) -> RunResults:
            results = stored or before.results
            results.status, results.error = "interrupted", reason
            return results

        with suppress(LockedError), HeldLock(before.folder / _LOCK, f"training in {before.folder}"):
            RunResults.update(before.path, interrupted, owner=True)

    def _predecessor(self, trainer: pl.Trainer) -> StoredRun | None:
        """Find the unfinished run of solo-learn's script, with this configuration, whose checkpoint was loaded.

        There is none for ``radial-vicreg pretrain``, which resumes in the run's own folder.
        """
        run = None if trainer.ckpt_path is None else run_around(Path(trainer.ckpt_path))
        if run is None or not run.is_of_script or run.results.is_finished:
            return None
        return run if RunsByIdentity([run]).of(self.requested, trainer.world_size) else None

    def _origin(self) -> dict[str, object]:
        """Describe the origin of the figures of the last validation."""
        return {} if self._validated is None else {"origin": origin_of(images_of(self.requested), *self._validated)}

    def _folder_without_checkpoints(self) -> Path:
        return Path(self.requested.checkpoint.dir) / self.requested.method / self.requested.name

    def _draw(self, trainer: pl.Trainer) -> None:
        for callback in trainer.callbacks:  # type: ignore[attr-defined]
            if isinstance(callback, RadiusMonitor) and trainer.is_global_zero:
                try:
                    callback.draw(str(self.folder))
                except Exception as error:  # fonts, a full disk, anything: a figure never ends the work
                    warn(f"the figure of the radii was not plotted: {error!r}")

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _seconds(self) -> float:
        return self._seconds_before + time.monotonic() - self._started

    def _write(self, trainer: pl.Trainer, status: Status, error: str | None = None) -> None:
        if not trainer.is_global_zero or self.folder is None:
            return
        last = self.history[-1] if self.history else {}
        epochs = int(last.get("epoch", 0))
        if self._complete and epochs != trainer.max_epochs:  # the checkpoint is older than its epoch's figures
            last, epochs = {}, int(trainer.max_epochs or 0)
        content: dict[str, Any] = {
            **self._description,
            "status": status,
            "epochs": epochs,
            "max_epochs": trainer.max_epochs,
            "steps": trainer.global_step,
            "seconds": round(self._seconds(), 1),
            "processes": trainer.world_size,
            "probes": {online_key(): {**host_figures(last), **self._origin()}},
            "loss_terms": {name: value for name, value in last.items() if name.startswith("train_")},
            "history": self.history,
        }
        content.pop("error", None)  # of an earlier, unfinished start
        if error is not None:
            content["error"] = error
        for callback in trainer.callbacks:  # type: ignore[attr-defined]
            if hasattr(callback, "results"):
                _merge(content, callback.results())

        def with_additions(stored: RunResults | None) -> RunResults:
            if stored is not None:
                content["probes"].update(_offline_probes(stored, epochs))
            unknown = {} if stored is None else stored.model_extra or {}
            return RunResults.model_validate({**unknown, **content})

        # A probe command that keeps the file locked must not end a training.
        self._written = RunResults.update(self.folder / RESULTS, with_additions, owner=True)


def _effective(trainer: pl.Trainer, module: pl.LightningModule) -> Effective:
    """Return the effective settings: a CPU trains in float32 and has no synchronised BatchNorm."""
    return Effective(
        precision=str(trainer.precision),
        sync_batchnorm=any(isinstance(part, nn.SyncBatchNorm) for part in module.modules()),
        device=str(module.device.type),
    )


def _offline_probes(stored: RunResults, epochs: int) -> dict[str, object]:
    """Keep figures of ``radial-vicreg probe`` for this epoch or the untrained network."""
    probes = {} if stored.probes is None else stored.probes.plain()
    current = stored.epochs == epochs
    kept = [name for name in probes if is_offline(name) and (current or is_untrained(name))]
    return {name: probes[name] for name in kept}


def _without_step_values(metrics: dict[str, float]) -> dict[str, float]:
    """Keep the mean over the epoch if Lightning has ``x``, ``x_step`` and ``x_epoch`` of one metric."""
    kept = {name: value for name, value in metrics.items() if not name.endswith(("_step", "_epoch"))}
    means = {name.removesuffix("_epoch"): value for name, value in metrics.items() if name.endswith("_epoch")}
    return {**kept, **means}


def _merge(target: dict[str, Any], addition: Mapping[str, object]) -> None:
    for key, value in addition.items():
        if isinstance(value, dict) and isinstance(target.get(key), dict):
            target[key].update(value)
        else:
            target[key] = value
