"""Writing files so that a reader never meets half of one."""

from __future__ import annotations

import errno
import io
import json
import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Literal

from radial_vicreg.errors import RunFailed, UserError
from radial_vicreg.io.file_systems import FULL, file_system_of, temporary_path

# What a file system answers when it does not allow something, cannot do it, or is gone.
_REFUSALS = {
    *(errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP),
    *(errno.EFBIG, errno.EIO, errno.ESTALE, errno.ENOTCONN),
}
_LEFTOVER = re.compile(r"\..+\.\d+(-[0-9a-f]{8})?\.tmp")  # of temporary_path, and before it had a random part


def write_json(path: str | Path, content: Any) -> Path:
    """Write JSON atomically: the old file or the whole new one is there, never a part.

    Non-finite floats become ``null``, since ``NaN`` is not JSON and most readers refuse it.

    Args:
        path: target; its folder is created.
        content: dictionaries, lists, strings, numbers, booleans, ``None``.

    Returns:
        The path written.

    Raises:
        TypeError: ``content`` holds something that JSON cannot.
        OSError: the folder cannot be written or the disk is full; the previous file stays as it was.
    """
    with atomic_file(path) as stream:
        stream.write(json_bytes(content))
    return Path(path)


def json_bytes(content: Any) -> bytes:
    """Build what :func:`write_json` writes."""
    return (json.dumps(_finite(content), indent=2, allow_nan=False) + "\n").encode()


def claim_output(
    path: str | Path, kind: Literal["file", "folder"], remedy: str = "write to a local disk and copy the result there"
) -> Path:
    """Check that an output can be written, before the work for it starts.

    Nothing is left behind, also where a command is then refused for another reason: what the file system can do is
    tried with small files that are removed again (:func:`radial_vicreg.io.file_systems.file_system_of`).

    Args:
        path: where it is to be; it and the folders above it need not exist yet.
        kind: ``"file"``, which may replace an older one, or ``"folder"``, which may be there already.
        remedy: what to do where the file system cannot do what is needed.

    Returns:
        ``path``.

    Raises:
        UserError: as :func:`check_output`, or the file system does not rename files or add to them.
        DiskFullError: there is no space left.
    """
    place = check_output(path, kind)
    try:
        problem = file_system_of(place).problem
    except OSError as error:
        raise DiskFullError(f"no space left to write {path}: free some, then repeat the command") from error
    if problem is not None:
        raise UserError(f"{path} cannot be written: {problem}; {remedy}")
    return Path(path)


def check_output(path: str | Path, kind: Literal["file", "folder"]) -> Path:
    """Check what can be known of an output without writing anything.

    Args:
        path: as for :func:`claim_output`.
        kind: as for :func:`claim_output`.

    Returns:
        The nearest folder that exists: ``path``, or one above it.

    Raises:
        UserError: something of another kind is in the way, or the folder that is there cannot be written to.
    """
    path = Path(path)
    wrong = path.is_dir() if kind == "file" else os.path.lexists(path) and not path.is_dir()
    if wrong:
        other = "folder" if kind == "file" else "file"
        raise UserError(f"{path} is to be a {kind}, but there is a {other}: move it away or choose another place")
    place = path if kind == "folder" else path.parent
    while not os.path.lexists(place) and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise UserError(f"{path} cannot be written: {place} is no folder; move it away or choose another place")
    if not os.access(place, os.W_OK | os.X_OK):
        raise UserError(f"{path} cannot be written: no permission to write into {place}; choose another place")
    return place


class DiskFullError(RunFailed, OSError):
    """There is no space left; what was there before is unharmed."""


@contextmanager
def atomic_file(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a file for writing that takes its name only once it is complete and on the disk.

    It is written beside its target: a rename is atomic only within one file system, and the system's folder for
    temporary files often lies on another.

    Args:
        path: target; its folder is created.

    Yields:
        A binary stream.

    Raises:
        OSError: the folder cannot be written or the disk is full; the previous file stays as it was.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_path(path)
    raw: _RememberingFile | None = None
    try:
        raw = _RememberingFile(temporary, "wb")
        with io.BufferedWriter(raw) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        cause = error if raw is None or raw.problem is None else raw.problem
        if isinstance(cause, OSError) and cause.errno in FULL:
            kept = "the previous file is unharmed" if path.exists() else "nothing was left there"
            raise DiskFullError(
                f"no space left to write {path} ({kept}): free some, then repeat the command"
            ) from error
        if isinstance(cause, OSError) and cause.filename is None:
            cause.filename = str(path)  # a call of write knows none
        if cause is not error:
            raise cause from error
        raise


def refusal(error: OSError) -> str | None:
    """Say in one sentence what a disk or a file system has refused.

    Args:
        error: of any call.

    Returns:
        The sentence; None where the error is of another kind.
    """
    if isinstance(error, DiskFullError):
        return str(error)
    if error.errno in FULL:
        place = "" if error.filename is None else f" to write {error.filename}"
        return f"no space left{place}: free some, then repeat the command"
    if error.errno not in _REFUSALS or error.filename is None:  # such as an error of a process or a socket
        return None
    place = f"{error.filename}" if error.filename2 is None else f"{error.filename2}"
    return f"{place}: {error.strerror}; `radial-vicreg doctor --at DIR` prints what a folder allows"


def append_line(path: str | Path, line: str, sync: bool = False) -> None:
    """Append one line to a text file that no other process writes, and check that all of it is there.

    A system may take a part of what it is given, and a kill may have left a part of a line at the end of the file. That
    part is closed with a line break first, so that it damages no line but itself.

    Args:
        path: the file, which is created if there is none; its folder exists.
        line: the text, without a line break.
        sync: return only once the line is on the disk.

    Raises:
        DiskFullError: there is no space left; the file is as it was before.
        OSError: the line cannot be written, or the file does not hold what was written; it is as it was before.
    """
    content = line.encode() + b"\n"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        end = os.fstat(descriptor).st_size
        if end and os.pread(descriptor, 1, end - 1) != b"\n":
            content = b"\n" + content
        try:
            _write_all(descriptor, content)
            if sync:
                os.fsync(descriptor)
            if os.pread(descriptor, len(content) + 1, end) != content:
                raise OSError(errno.EIO, "the file does not hold the line that was written to it", str(path))
        except BaseException as error:
            with suppress(OSError):
                os.ftruncate(descriptor, end)
            if isinstance(error, OSError) and error.errno in FULL:
                raise DiskFullError(
                    f"no space left to add a line to {path} (the lines before are unharmed): free some, then "
                    "repeat the command"
                ) from error
            if isinstance(error, OSError) and error.filename is None:
                error.filename = str(path)
            raise
    finally:
        os.close(descriptor)


def atomic_link(target: Path, name: Path) -> None:
    """Make ``name`` a relative symbolic link to its neighbour ``target``; replace a link of that name in one step.

    Args:
        target: an existing file.
        name: the link, in the same folder.

    Raises:
        OSError: the folder cannot be written.
    """
    temporary = temporary_path(name)
    try:
        os.symlink(target.name, temporary)
        os.replace(temporary, name)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def lies_in(inner: str | Path, outer: str | Path) -> bool:
    """Tell whether a folder is another one or lies in it, at any depth, links resolved."""
    here, around = os.path.realpath(inner), os.path.realpath(outer)
    return os.path.commonpath([here, around]) == around


def point_link(name: Path, target: Path) -> bool:
    """Make ``name`` a symbolic link to a folder; replace a link of that name in one step, and nothing else.

    Args:
        name: the link; its folder exists.
        target: an existing folder. Below the link's own folder it is named from there, so that both can be moved.

    Returns:
        Whether it leads there now: not where something that is no link has the name, nor on a file system without
        links.
    """
    if os.path.lexists(name) and not name.is_symlink():
        return False
    inside = target.is_relative_to(name.parent)
    temporary = temporary_path(name)
    try:
        temporary.symlink_to(target.relative_to(name.parent) if inside else target.absolute())
        os.replace(temporary, name)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        return False
    return True


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes had begun to write into a folder; nobody else may be writing there."""
    for file in folder.glob(".*.tmp"):
        if _LEFTOVER.fullmatch(file.name):  # others may have hidden files of their own there
            file.unlink(missing_ok=True)


def _write_all(descriptor: int, content: bytes) -> None:
    """Write again what the system has not taken, until it has taken all or says why not."""
    while content:
        content = content[os.write(descriptor, content) :]


class _RememberingFile(io.FileIO):
    """A file that keeps what ended a write: libraries turn it into errors of their own, without its reason."""

    problem: BaseException | None = None

    def write(self, content: Any) -> int:
        try:
            return super().write(content)
        except BaseException as error:
            self.problem = error
            raise


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
