"""Where a run writes, and from which checkpoint it goes on."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lightning.pytorch.utilities import rank_zero_only
from omegaconf import DictConfig, OmegaConf

from radial_vicreg.checkpoints import read_checkpoint
from radial_vicreg.errors import UserError
from radial_vicreg.files import atomic_link, claim_output
from radial_vicreg.identity import config_hash
from radial_vicreg.optim import process_count
from radial_vicreg.results import RESULTS
from radial_vicreg.stored_runs import RunsByIdentity, StoredRun, read_stored_run, stored_runs
from radial_vicreg.train.checkpointing import LAST_CHECKPOINT, epoch_checkpoints


def choose_run_folder(cfg: DictConfig) -> tuple[Path, str | None]:
    """Make a new folder for a new run, or find the folder and checkpoint that ``ckpt`` asks to continue.

    A run goes on in place only in a folder whose ``results.json`` is of this very configuration. A checkpoint from
    anywhere else is the start of a new run folder, and nothing beside it is touched.

    Args:
        cfg: normalised configuration. ``ckpt``: null, ``last`` (of the newest run of this configuration), ``auto``
            (``last`` if there is one, else a new run), or a checkpoint's path.

    Returns:
        Folder and checkpoint (None for a new run).

    Raises:
        UserError: no checkpoint of this configuration for ``last``; a path that is no file or cannot be read.
    """
    plain: dict[str, Any] = OmegaConf.to_container(cfg, resolve=True)  # type: ignore[assignment]
    processes = process_count(cfg)
    parent = Path(cfg.runs_dir).expanduser() / _folder_name(cfg, plain, processes)
    if cfg.ckpt not in (None, "auto", "last"):
        checkpoint = _given(Path(str(cfg.ckpt)).expanduser())
        run = _run_around(checkpoint)
        if run is not None and RunsByIdentity([run]).of(plain, processes):
            return run.folder, str(checkpoint)
        _say(f"{checkpoint} is not in a run folder of this configuration: its training goes on in a new folder")
        return _new_folder(parent), str(checkpoint)
    if cfg.ckpt is not None:
        runs = RunsByIdentity(stored_runs(Path(cfg.runs_dir).expanduser())).of(plain, processes)
        found = _newest_readable(runs)
        if found is not None:
            return found.parent.parent, str(found)
        if cfg.ckpt == "last":
            raise UserError(
                f"ckpt=last: no checkpoint of this configuration below {cfg.runs_dir}; leave ckpt out to start anew, or"
                " use ckpt=auto, which does so where there is none"
            )
    return _new_folder(parent), None


def claim_runs_dir(cfg: DictConfig) -> None:
    """Make sure, before images are read, that :func:`choose_run_folder` can make its folder.

    Args:
        cfg: normalised configuration.

    Raises:
        UserError: ``runs_dir`` is a file or cannot be written.
    """
    if rank_zero_only.rank == 0:  # type: ignore[attr-defined]
        claim_output(Path(cfg.runs_dir).expanduser(), "folder")


@contextlib.contextmanager
def no_empty_folder(folder: Path) -> Iterator[None]:
    """Remove a run folder, and the one around it, when an error leaves nothing in them.

    Args:
        folder: of :func:`choose_run_folder`.
    """
    try:
        yield
    except BaseException:
        if rank_zero_only.rank == 0:  # type: ignore[attr-defined]
            with contextlib.suppress(OSError):  # not empty: what is in it says how far the run came
                folder.rmdir()
                folder.parent.rmdir()
        raise


def _folder_name(cfg: DictConfig, plain: dict[str, Any], processes: int) -> str:
    dim = cfg.method_kwargs.proj_output_dim
    return f"{cfg.method}-{cfg.data.dataset}-{cfg.backbone.name}-d{dim}-{config_hash(plain, processes)}"


def _new_folder(parent: Path) -> Path:
    if rank_zero_only.rank != 0:  # type: ignore[attr-defined]
        return parent  # only the first process writes, into a folder of its making
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for suffix in ("", *(f"-{count}" for count in range(2, 1000))):
        try:
            (parent / f"{stamp}{suffix}").mkdir(parents=True)
        except FileExistsError:  # another run of this second
            continue
        return parent / f"{stamp}{suffix}"
    raise UserError(f"could not make a new folder in {parent}")


def _run_around(checkpoint: Path) -> StoredRun | None:
    """The run in whose folder a checkpoint lies, if it is one of this program."""
    folder = checkpoint.parent.parent
    return read_stored_run(folder / RESULTS) if checkpoint.parent.name == "checkpoints" else None


def _given(path: Path) -> Path:
    """The file that the user named, or, for a ``last.ckpt`` that cannot be read, the epoch before; links resolved."""
    is_link = path.name == LAST_CHECKPOINT and path.is_symlink()  # it may name a file that is gone
    if not path.is_file() and not is_link:
        raise UserError(f"ckpt={path} is not a file; give a checkpoint's path, ckpt=last or ckpt=auto")
    checkpoint = path.resolve()
    problem = _problem(checkpoint)
    if problem is None:
        return checkpoint
    others = [other for other in epoch_checkpoints(path.parent.resolve()) if other != checkpoint]
    readable = next((other for other in others if _problem(other) is None), None)
    if readable is None or path.name != LAST_CHECKPOINT:
        hint = "" if readable is None else f"; {readable} can be read"
        raise UserError(f"ckpt: {problem}{hint}")
    _say(f"{problem}; continuing from {readable}")
    return readable


def _newest_readable(runs: list[StoredRun]) -> Path | None:
    """The furthest checkpoint of the newest run that has one; one that cannot be read is named and passed over."""
    damaged: list[str] = []
    for run in runs:
        for path in epoch_checkpoints(run.folder / "checkpoints"):
            problem = _problem(path)
            if problem is None:
                for further in damaged:
                    _say(f"{further}; continuing from {path}")
                last = path.with_name(LAST_CHECKPOINT)
                if last.resolve() != path.resolve() and rank_zero_only.rank == 0:  # type: ignore[attr-defined]
                    atomic_link(path, last)  # its writer was killed in between, or what it named is damaged
                return path
            damaged.append(problem)
    if damaged:
        raise UserError(f"no checkpoint of this configuration can be read: {damaged[0]}")
    return None


def _problem(checkpoint: Path) -> str | None:
    """Why a file is no checkpoint to go on from, with its name; None when it is one."""
    try:
        read_checkpoint(checkpoint)
    except ValueError as error:
        return str(error)
    return None


def _say(text: str) -> None:
    rank_zero_only(print)(text)
