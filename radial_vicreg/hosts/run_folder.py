"""Where a run writes, and from which checkpoint it goes on."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from lightning.pytorch.utilities import rank_zero_only
from omegaconf import DictConfig, OmegaConf

from radial_vicreg.callbacks.run_checkpoint import LAST_CHECKPOINT, epoch_checkpoints
from radial_vicreg.files import atomic_link, claim_output
from radial_vicreg.hosts.standalone.optim import process_count
from radial_vicreg.probes.checkpoint import read_checkpoint
from radial_vicreg.results import config_hash


def choose_run_folder(cfg: DictConfig) -> tuple[Path, str | None]:
    """A new folder for a new run, or the folder and checkpoint that ``ckpt`` asks to continue.

    Args:
        cfg: normalised configuration. ``ckpt``: null, ``last`` (of the newest run of this configuration), ``auto``
            (``last`` if there is one, else a new run), or a checkpoint's path.

    Returns:
        Folder and checkpoint (None for a new run).

    Raises:
        ValueError: no checkpoint of this configuration for ``last``; a path that is no file or cannot be read.
    """
    parent = Path(cfg.runs_dir) / _folder_name(cfg)
    if cfg.ckpt not in (None, "auto", "last"):
        checkpoint = _given(Path(str(cfg.ckpt)))
        return checkpoint.parent.parent, str(checkpoint)
    if cfg.ckpt is not None:
        found = _newest_readable(parent)
        if found is not None:
            return found.parent.parent, str(found)
        if cfg.ckpt == "last":
            raise ValueError(
                f"ckpt=last: no checkpoint of this configuration in {parent}; leave ckpt out to start anew, or use "
                "ckpt=auto, which does so where there is none"
            )
    if rank_zero_only.rank != 0:  # type: ignore[attr-defined]
        return parent, None  # only the first process writes, into a folder of its making
    return _new_folder(parent), None


def claim_runs_dir(cfg: DictConfig) -> None:
    """Make sure, before images are read, that :func:`choose_run_folder` can make its folder.

    Args:
        cfg: normalised configuration.

    Raises:
        ValueError: ``runs_dir`` is a file or cannot be written.
    """
    continued_elsewhere = cfg.ckpt not in (None, "auto", "last")
    if not continued_elsewhere and rank_zero_only.rank == 0:  # type: ignore[attr-defined]
        claim_output(cfg.runs_dir, "folder")


def _folder_name(cfg: DictConfig) -> str:
    plain: dict[str, Any] = OmegaConf.to_container(cfg, resolve=True)  # type: ignore[assignment]
    identity = config_hash(plain, process_count(cfg))
    return f"{cfg.method}-{cfg.data.dataset}-{cfg.backbone.name}-d{cfg.method_kwargs.proj_output_dim}-{identity}"


def _new_folder(parent: Path) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for suffix in ("", *(f"-{count}" for count in range(2, 1000))):
        try:
            (parent / f"{stamp}{suffix}").mkdir(parents=True)
        except FileExistsError:  # another run of this second
            continue
        return parent / f"{stamp}{suffix}"
    raise ValueError(f"could not make a new folder in {parent}")


def _given(checkpoint: Path) -> Path:
    """The file that the user named, or, for a ``last.ckpt`` that cannot be read, the epoch before."""
    if not checkpoint.is_file():
        raise ValueError(f"ckpt={checkpoint} is not a file; give a checkpoint's path, ckpt=last or ckpt=auto")
    problem = _problem(checkpoint)
    if problem is None:
        return checkpoint
    others = [path for path in epoch_checkpoints(checkpoint.parent) if path.resolve() != checkpoint.resolve()]
    readable = next((path for path in others if _problem(path) is None), None)
    if readable is None or checkpoint.name != LAST_CHECKPOINT:
        hint = "" if readable is None else f"; {readable} can be read"
        raise ValueError(f"ckpt: {problem}{hint}")
    _say(problem, readable)
    return readable


def _newest_readable(parent: Path) -> Path | None:
    """The newest checkpoint of all runs in ``parent``; one that cannot be read is named and passed over."""
    # Links would name a file twice.
    files = [path for path in parent.glob("*/checkpoints/*.ckpt") if not path.is_symlink()]
    damaged: list[str] = []
    for path in sorted(files, key=lambda file: file.stat().st_mtime_ns, reverse=True):
        problem = _problem(path)
        if problem is None:
            for newer in damaged:
                _say(newer, path)
            last = path.with_name(LAST_CHECKPOINT)
            if last.resolve() != path.resolve() and rank_zero_only.rank == 0:  # type: ignore[attr-defined]
                atomic_link(path, last)  # its writer was killed in between, or what it named is damaged
            return path
        damaged.append(problem)
    if damaged:
        raise ValueError(f"no checkpoint in {parent} can be read: {damaged[0]}")
    return None


def _problem(checkpoint: Path) -> str | None:
    """Why a file is no checkpoint to go on from, with its name; None when it is one."""
    try:
        read_checkpoint(checkpoint)
    except ValueError as error:
        return str(error)
    return None


def _say(problem: str, chosen: Path) -> None:
    rank_zero_only(print)(f"{problem}; continuing from {chosen}")
