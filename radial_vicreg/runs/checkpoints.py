"""Find checkpoint files, read them without running code, write them atomically, and prune them.

PyTorch is imported only to read or write one.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from radial_vicreg.errors import UserError
from radial_vicreg.io.file_systems import file_system_of
from radial_vicreg.io.files import atomic_file, atomic_link
from radial_vicreg.runs.stored import single_run

if TYPE_CHECKING:
    from torch import nn

CHECKPOINTS = "checkpoints"
"""Folder of the checkpoints in a run's folder."""

LAST_CHECKPOINT = "last.ckpt"
"""Leads to the furthest checkpoint: a link or, on a file system without links, a small file that holds its name."""

_NAME = re.compile(rb"([^/\\\0\r\n]+\.ckpt)\r?\n?")  # content of such a file; Git for Windows omits the line break
_LONGEST_NAME = 300  # bytes; a file system's names are shorter, a checkpoint is longer
_EPOCH = re.compile(r"epoch-(\d+)\.ckpt")
_KEPT = 2  # the furthest, and the one before in case the furthest cannot be read
_HASH_BLOCK = 1 << 20
_UNREADABLE = (-2, -2)
_ZIP = b"PK\x03\x04"
_RESUMED = ("epoch", "global_step", "loops", "optimizer_states", "lr_schedulers", "callbacks", "state_dict")


def epoch_checkpoints(folder: Path) -> list[Path]:
    """List the checkpoints ``epoch-<N>.ckpt`` of a folder, the furthest first.

    The number decides and not the file's time: the clocks of a cluster's nodes differ, and a copy has another time.
    """
    found = [path for path in folder.glob("epoch-*.ckpt") if _EPOCH.fullmatch(path.name)]
    return sorted(found, key=epoch_of, reverse=True)


def epoch_of(checkpoint: Path) -> int:
    """Read the number of epochs done from a checkpoint's name ``epoch-<N>.ckpt``.

    Raises:
        UserError: the name has another form.
    """
    match = _EPOCH.fullmatch(checkpoint.name)
    if match is None:
        raise UserError(f"{checkpoint} is not named epoch-<number>.ckpt")
    return int(match[1])


def folder_of_run(checkpoint: Path) -> Path:
    """Return the folder of a checkpoint's run; solo-learn's script writes checkpoints into that folder directly."""
    return checkpoint.parent.parent if checkpoint.parent.name == CHECKPOINTS else checkpoint.parent


def leads_to(path: Path) -> str | None:
    """Read the target of a path named ``last.ckpt``, which is a symbolic link or a file that holds a name.

    Args:
        path: any path.

    Returns:
        The target, whether or not it exists; None for any other path, also for a checkpoint that itself has this name.
    """
    if path.name != LAST_CHECKPOINT:
        return None
    if path.is_symlink():
        return os.readlink(path)
    try:
        if not path.is_file() or path.stat().st_size > _LONGEST_NAME:
            return None
        named = _NAME.fullmatch(path.read_bytes())
    except OSError:
        return None
    name = None if named is None else os.fsdecode(named[1])
    return None if name == LAST_CHECKPOINT else name


def followed(path: Path) -> Path:
    """Return the file to read for a checkpoint: the file that a small ``last.ckpt`` names, or the path itself."""
    name = leads_to(path)
    return path if name is None or path.is_symlink() else path.with_name(name)


def find_checkpoint(path: Path) -> Path:
    """Find the furthest checkpoint of a run folder; the path of a checkpoint is returned as it is.

    Raises:
        UserError: there is none.
    """
    if (file := followed(path)).is_file():
        return file
    if file != path or (path.is_symlink() and not path.exists()):
        return _newest_next_to(path)
    if not path.is_dir():
        raise UserError(f"{path} does not exist; give a run's folder or a checkpoint")
    last = path / CHECKPOINTS / LAST_CHECKPOINT
    if last.is_file() or last.is_symlink():
        return _not_before(find_checkpoint(last), epoch_checkpoints(last.parent))
    given = dict.fromkeys(map(followed, [*path.glob("*.ckpt"), *path.glob(f"{CHECKPOINTS}/*.ckpt")]))
    found = [file for file in given if file.is_file()]  # the target of a link may be gone
    if not found:
        raise UserError(f"{path} contains no checkpoint: expected checkpoints/last.ckpt, or *.ckpt next to args.json")
    return found[0] if len(found) == 1 else max(found, key=_progress)


def require_checkpoint(path: Path) -> None:
    """Check that ``ckpt`` names a file, without reading it.

    Raises:
        UserError: it does not.
    """
    if not path.is_file() and leads_to(path) is None:  # which may name a file that is gone
        raise UserError(f"ckpt={path} is not a file; give a checkpoint's path, ckpt=last or ckpt=auto")


def require_run(path: str | Path) -> None:
    """Check that a path leads to a checkpoint, before PyTorch is imported and without reading one.

    Args:
        path: a run's folder, a folder above it, or a checkpoint.

    Raises:
        UserError: there is no checkpoint, or there are several runs.
    """
    place = single_run(path)
    if not place.is_file() and not any((*place.glob("*.ckpt"), *place.glob(f"{CHECKPOINTS}/*.ckpt"))):
        find_checkpoint(place)


def named_checkpoint(path: Path, say: Callable[[str], None] = print) -> Path:
    """Find the checkpoint that ``ckpt`` names, or, for a ``last.ckpt`` that cannot be read, the epoch before it.

    Args:
        path: as given in ``ckpt``.
        say: called with a line about each checkpoint that is skipped.

    Returns:
        A checkpoint that can be read, links resolved.

    Raises:
        UserError: no file, or one that cannot be read.
    """
    require_checkpoint(path)
    checkpoint = followed(path).resolve()
    problem = _problem(checkpoint)
    if problem is None:
        return checkpoint
    others = [other for other in epoch_checkpoints(path.parent.resolve()) if other != checkpoint]
    readable = next((other for other in others if _problem(other) is None), None)
    if readable is None or path.name != LAST_CHECKPOINT:
        hint = "" if readable is None else f"; {readable} can be read"
        raise UserError(f"ckpt: {problem}{hint}")
    say(f"{problem}; resuming from {readable}")
    return readable


def furthest_checkpoint(folders: Iterable[Path], say: Callable[[str], None] = print) -> Path | None:
    """Find the furthest checkpoint of the first run that has one; unreadable checkpoints are reported and skipped.

    Args:
        folders: folders of runs.
        say: called with a line about each checkpoint that is skipped.

    Returns:
        A checkpoint that can be read, or None if there is none at all.

    Raises:
        UserError: there are checkpoints, but none that can be read.
    """
    damaged: list[str] = []
    for folder in folders:
        for path in epoch_checkpoints(folder / CHECKPOINTS):
            problem = _problem(path)
            if problem is None:
                for further in damaged:
                    say(f"{further}; resuming from {path}")
                return path
            damaged.append(problem)
    if damaged:
        raise UserError(f"no checkpoint of this configuration can be read: {damaged[0]}")
    return None


def read_checkpoint(checkpoint: str | Path) -> dict[str, Any]:
    """Load a checkpoint of Lightning without running code that it may carry.

    Only tensors and plain containers are read (``weights_only``); no option changes this.

    Args:
        checkpoint: the file, or ``last.ckpt``, which is followed.

    Returns:
        Its content, on the CPU; ``state_dict`` maps names to tensors.

    Raises:
        UserError: the file is damaged, would run code, or is not a checkpoint.
    """
    content = read_tensors(followed(Path(checkpoint)))
    state = content.get("state_dict") if isinstance(content, dict) else None
    if not isinstance(state, dict):
        raise UserError(f"{checkpoint} is not a Lightning checkpoint: it has no state_dict")
    if not all(isinstance(name, str) for name in state):
        raise UserError(f"{checkpoint} is not a Lightning checkpoint: its state_dict does not map names to tensors")
    checked: dict[str, Any] = content
    return checked


def check_resumable(checkpoint: str | Path, model: nn.Module) -> None:
    """Check, before a training starts, that it can resume from a checkpoint.

    Args:
        checkpoint: the file.
        model: the model to train.

    Raises:
        UserError: the checkpoint cannot be read, holds no state of a training, or is of another network.
    """
    from radial_vicreg.losses import EXTRA_STATE

    content = read_checkpoint(checkpoint)
    absent = [key for key in _RESUMED if key not in content]
    if absent:
        raise UserError(f"{checkpoint} cannot be resumed from: it has no {', '.join(absent)}")
    wanted, found = model.state_dict(), content["state_dict"]
    names = {name for name in wanted.keys() | found.keys() if name.rpartition(".")[2] != EXTRA_STATE}
    for name in sorted(names):  # only parameters and buffers have shapes; a module checks the rest itself
        mine, other = (getattr(state.get(name), "shape", None) for state in (wanted, found))
        if mine != other:
            shapes = " and ".join("none" if shape is None else str(tuple(shape)) for shape in (other, mine))
            raise UserError(f"{checkpoint} is of another network: the shapes of {name} are {shapes} there and here")


def read_tensors(path: str | Path) -> Any:
    """Call ``torch.load`` without running code, and report whatever is wrong with the file in one line.

    Args:
        path: a file that ``torch.save`` has written.

    Returns:
        Tensors and plain containers, on the CPU.

    Raises:
        UserError: it cannot be read, or would run code.
    """
    import torch

    try:
        with open(path, "rb") as stream:
            start = stream.read(len(_ZIP))
    except OSError as error:
        raise UserError(f"{path} cannot be read as a checkpoint: {error.strerror or error}") from error
    is_whole = zipfile.is_zipfile(path)
    try:
        if not start or (start == _ZIP and not is_whole):
            raise EOFError
        # The file is mapped, since callers read its structure more often than its tensors. A file that is not a ZIP
        # archive may have torch.save's old format, which cannot be mapped.
        return torch.load(str(path), map_location="cpu", weights_only=True, mmap=is_whole)
    except Exception as error:  # with a damaged or malicious file, the unpickler may raise any error
        raise UserError(f"{path} cannot be read as a checkpoint: {_reason(error, start, is_whole)}") from error


def file_checksum(path: str | Path) -> str:
    """Compute the SHA-256 of a file, 64 hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while block := stream.read(_HASH_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def write_checkpoint(content: dict[str, Any], path: str | Path) -> None:
    """Write a checkpoint atomically: a reader finds the old file or the complete new one.

    One tensor after another is written, so that the file is not built in memory first.

    Args:
        content: content for ``torch.save``.
        path: target.

    Raises:
        OSError: for example, the disk is full; the previous file stays as it was.
    """
    import torch

    with atomic_file(path) as stream:  # keeps the reason of a failed write, which torch.save replaces by its own error
        torch.save(content, stream)


def link_last(checkpoint: Path) -> None:
    """Point ``last.ckpt`` in the folder of a checkpoint to it, as a link or as a file that holds its name."""
    last = checkpoint.with_name(LAST_CHECKPOINT)
    if followed(last).resolve() == checkpoint.resolve():
        return
    if file_system_of(checkpoint.parent.parent).has_links:
        atomic_link(checkpoint, last)
        return
    with atomic_file(last) as stream:
        stream.write(os.fsencode(checkpoint.name) + b"\n")


def prune(folder: Path) -> None:
    """Remove all checkpoints of a folder except the furthest two."""
    for old in epoch_checkpoints(folder)[_KEPT:]:
        old.unlink(missing_ok=True)


def set_aside(checkpoint: Path) -> Path:
    """Rename ``epoch-<N>.ckpt`` to a name that no search finds."""
    target = checkpoint.with_name(f"former-{checkpoint.name}")
    count = 2
    while target.exists():
        target = checkpoint.with_name(f"former-{count}-{checkpoint.name}")
        count += 1
    return checkpoint.rename(target)


def _problem(checkpoint: Path) -> str | None:
    """Describe why a run cannot resume from a file, with the file's name; None if it can."""
    try:
        read_checkpoint(checkpoint)
    except ValueError as error:
        return str(error)
    return None


def _not_before(last: Path, written: list[Path]) -> Path:
    """Choose the target of ``last.ckpt``, or a further checkpoint whose writer was killed before it made the link."""
    target = last.resolve().name
    named = _EPOCH.fullmatch(target)
    return written[0] if named and written and epoch_of(written[0]) > int(named[1]) else last


def _newest_next_to(last: Path) -> Path:
    """Find the furthest checkpoint in the folder of a link, or of a small ``last.ckpt``, whose target is gone."""
    gone = f"{last} is a link to {os.readlink(last)}" if last.is_symlink() else f"{last} names {leads_to(last)}"
    gone += ", which does not exist"
    others = [file for file in last.parent.glob("*.ckpt") if file.is_file() and leads_to(file) is None]
    best = max(others, key=_progress, default=None)
    if best is None or _progress(best) == _UNREADABLE:
        raise UserError(f"{gone}, and no other checkpoint next to it can be read")
    print(f"{gone}: using {best.name}")
    return best


def _progress(checkpoint: Path) -> tuple[int, int]:
    """Read the epochs and steps that a checkpoint has seen; a copy changes file times, but not these."""
    try:
        content = read_checkpoint(checkpoint)
    except ValueError:
        return _UNREADABLE
    epoch, step = content.get("epoch"), content.get("global_step")
    return epoch if isinstance(epoch, int) else -1, step if isinstance(step, int) else -1


def _reason(error: Exception, start: bytes, is_whole: bool) -> str:
    """Explain why ``torch.load`` has failed; PyTorch's message suggests loading the file without the safeguard."""
    if not start:
        return "it is empty, so writing it was interrupted"
    if start == _ZIP and not is_whole:
        return "its end is missing, so writing or copying it was interrupted"
    if not is_whole:
        return "it was not written by torch.save, is damaged, or would run code"
    if isinstance(error, pickle.UnpicklingError):
        return "it contains more than tensors and plain containers, and reading it would run code"
    return next(iter(str(error).splitlines()), "") or type(error).__name__
