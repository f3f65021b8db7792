"""Choose the folder of a run, and the checkpoint from which it resumes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lightning.pytorch.utilities import rank_zero_only

from radial_vicreg.config import RunConfig
from radial_vicreg.errors import UserError
from radial_vicreg.io.files import check_output, claim_output
from radial_vicreg.runs.checkpoints import folder_of_run, furthest_checkpoint, link_last, named_checkpoint
from radial_vicreg.runs.identity import Identity
from radial_vicreg.runs.origin import images_of, images_remark
from radial_vicreg.runs.stored import RunsByIdentity, StoredRun, stored_runs
from radial_vicreg.runs.summaries import differently_measured
from radial_vicreg.train.same_run import check_same_run, how_to_measure, run_around

TRAIN_ELSEWHERE = "train on a local disk and copy the finished run there"
"""Advice if a run's folder cannot be written."""

_SETTING = "runs_dir=DIR"


class RunFolder(NamedTuple):
    """The place of a run on the disk.

    Attributes:
        path: folder of the run that resumes; None for a new run.
        parent: folder in which a new folder is made.
        checkpoint: checkpoint to resume from.
    """

    path: Path | None
    parent: Path
    checkpoint: Path | None


def find_run_folder(config: RunConfig) -> RunFolder:
    """Find the folder and checkpoint that ``ckpt`` resumes, or the parent of a new run's folder.

    A run resumes in place only in a folder whose ``results.json`` has the same configuration and the same images. With
    a checkpoint of this configuration from any other place, a run starts in a new folder, and the folder of the
    checkpoint is not changed. This function writes nothing.

    Args:
        config: prepared configuration. ``ckpt``: null, ``last`` (of the newest run of this configuration), ``auto``
            (``last`` if there is one, else a new run), or a checkpoint's path.

    Returns:
        The place.

    Raises:
        UserError: no checkpoint of this configuration for ``last``; a path that is not a file, cannot be read or is a
            checkpoint of another run (:func:`radial_vicreg.train.same_run.check_same_run`).
    """
    parent = Path(config.runs_dir) / _folder_name(config)
    if config.ckpt is None:
        return RunFolder(None, parent, None)
    if config.ckpt not in ("auto", "last"):
        checkpoint = named_checkpoint(Path(config.ckpt), _say)
        check_same_run(checkpoint, config, "ckpt")
        run = run_around(checkpoint)
        if run is not None and RunsByIdentity([run]).of(config):
            return RunFolder(run.folder, parent, checkpoint)
        _say(f"{checkpoint} is not in a run folder of this configuration: its training resumes in a new folder")
        return RunFolder(None, parent, checkpoint)
    stored = RunsByIdentity(stored_runs(Path(config.runs_dir)))
    runs = stored.of(config)
    found = furthest_checkpoint((run.folder for run in runs), _say)
    if found is not None:
        folder = folder_of_run(found)
        _remark(runs, folder, config)
        return RunFolder(folder, parent, found)
    apart = [_why_not_taken(run, reason, config) for run, reason in stored.kept_apart(config)]
    if config.ckpt == "last":
        raise UserError(
            f"ckpt=last: no checkpoint of this configuration below {config.runs_dir}; omit ckpt to start a new "
            f"run, or use ckpt=auto, which starts one if none exists{''.join(f'. {text}' for text in apart[:1])}"
        )
    for text in apart[:1]:
        _say(f"ckpt=auto: {text}. A new run starts")
    return RunFolder(None, parent, None)


def choose_run_folder(config: RunConfig) -> tuple[Path, str | None]:
    """Make a new folder for a new run, or find the folder that resumes, see :func:`find_run_folder`.

    Args:
        config: prepared configuration.

    Returns:
        Folder and checkpoint (None for a new run).

    Raises:
        UserError: as for :func:`find_run_folder`.
    """
    found = find_run_folder(config)
    checkpoint = None if found.checkpoint is None else str(found.checkpoint)
    if found.path is None or found.checkpoint is None:
        return _new_folder(found.parent), checkpoint
    if config.ckpt in ("auto", "last") and rank_zero_only.rank == 0:  # type: ignore[attr-defined]
        link_last(found.checkpoint)  # its writer was killed before the link, or the old target is damaged
    return found.path, checkpoint


def claim_runs_dir(config: RunConfig, write: bool = True) -> None:
    """Make sure, before images are read, that :func:`choose_run_folder` can make its folder.

    Args:
        config: configuration of the run.
        write: try its file system, for which hidden files are written and removed.

    Raises:
        UserError: ``runs_dir`` is a file, cannot be written, or lies on a file system that lacks a needed ability.
    """
    if rank_zero_only.rank != 0:  # type: ignore[attr-defined]
        return
    if write:
        claim_output(Path(config.runs_dir), "folder", TRAIN_ELSEWHERE, _SETTING)
    else:
        check_output(Path(config.runs_dir), "folder", _SETTING)


@contextlib.contextmanager
def no_empty_folder(folder: Path) -> Iterator[None]:
    """Remove a run folder and its parent if an error leaves them empty.

    Args:
        folder: folder from :func:`choose_run_folder`.
    """
    try:
        yield
    except BaseException:
        if rank_zero_only.rank == 0:  # type: ignore[attr-defined]
            with contextlib.suppress(OSError):  # not empty: its content shows the progress of the run
                folder.rmdir()
                folder.parent.rmdir()
        raise


def _folder_name(config: RunConfig) -> str:
    identity = Identity.of(config).config_hash
    dim = config.method_kwargs.proj_output_dim
    backbone = config.backbone.name.replace(":", "-")  # allowed on every file system
    return f"{config.method}-{config.data.dataset}-{backbone}-d{dim}-{identity}"


def _new_folder(parent: Path) -> Path:
    if rank_zero_only.rank != 0:  # type: ignore[attr-defined]
        return parent  # only the first process makes a folder and writes into it
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for suffix in ("", *(f"-{count}" for count in range(2, 1000))):
        try:
            (parent / f"{stamp}{suffix}").mkdir(parents=True)
        except FileExistsError:  # another run started in the same second
            continue
        return parent / f"{stamp}{suffix}"
    raise UserError(f"could not create a new folder in {parent}")


def _why_not_taken(run: StoredRun, reason: str, config: RunConfig) -> str:
    """Describe why a run with these settings is not used, and what the user can do with it."""
    text = f"{run.folder} is not used: {reason}"
    return f"{text}; {how_to_measure(run.folder, config)}" if reason.startswith("validated") else text


def _remark(runs: list[StoredRun], folder: Path, config: RunConfig) -> None:
    """Print which images were compared by older fingerprints, and how the figures were measured differently."""
    images = images_of(config)
    chosen = [run for run in runs if run.folder == folder]
    if (remark := images_remark((run.results.images, images) for run in chosen)) is not None:
        _say(f"{folder}: {remark}")
    for run in chosen:
        if found := differently_measured(run.results.requested, config):
            _say(f"{folder}: its results were measured with {', '.join(found)}")


def _say(text: str) -> None:
    rank_zero_only(print)(text)
