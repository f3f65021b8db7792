"""Write files so that a reader never sees an incomplete one."""

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

# Error numbers of a file system that forbids an operation, does not support it, or is gone.
_REFUSALS = {
    *(errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP),
    *(errno.EFBIG, errno.EIO, errno.ESTALE, errno.ENOTCONN),
}
_LEFTOVER = re.compile(r"\..+\.\d+(-[0-9a-f]{8})?\.tmp")  # names from temporary_path, also without a random part


def write_json(path: str | Path, content: Any) -> Path:
    """Write JSON atomically: a reader finds the old file or the complete new one.

    Non-finite floats become ``null``, since ``NaN`` is not JSON and most readers refuse it.

    Args:
        path: target; its folder is created.
        content: dictionaries, lists, strings, numbers, booleans, ``None``.

    Returns:
        The path written.

    Raises:
        TypeError: ``content`` holds a type that JSON does not have.
        OSError: the folder cannot be written or the disk is full; the previous file stays as it was.
    """
    with atomic_file(path) as stream:
        stream.write(json_bytes(content))
    return Path(path)


def json_bytes(content: Any) -> bytes:
    """Encode content as :func:`write_json` writes it."""
    return (json.dumps(_finite(content), indent=2, allow_nan=False) + "\n").encode()


def claim_output(
    path: str | Path,
    kind: Literal["file", "folder"],
    remedy: str = "write to a local disk and copy the result there",
    setting: str = "",
) -> Path:
    """Check that an output can be written, before the work for it starts.

    Nothing is left behind, even if the command is then refused for another reason: the file system is tried with small
    files that are removed again (:func:`radial_vicreg.io.file_systems.file_system_of`).

    Args:
        path: path of the output; it and its parent folders need not exist yet.
        kind: ``"file"``, which may replace an older one, or ``"folder"``, which may already exist.
        remedy: advice for a file system that lacks an ability.
        setting: as for :func:`check_output`.

    Returns:
        ``path``.

    Raises:
        UserError: as for :func:`check_output`, or the file system cannot rename files or append to them.
        DiskFullError: there is no space left.
    """
    place = check_output(path, kind, setting)
    try:
        problem = file_system_of(place).problem
    except OSError as error:
        raise DiskFullError(f"no space left to write {path}: free some space, then repeat the command") from error
    if problem is not None:
        raise UserError(f"{path} cannot be written: {problem}; {remedy}")
    return Path(path)


def check_output(path: str | Path, kind: Literal["file", "folder"], setting: str = "") -> Path:
    """Check an output without writing anything.

    Args:
        path: as for :func:`claim_output`.
        kind: as for :func:`claim_output`.
        setting: how another place is chosen, such as ``runs_dir=DIR`` or ``--out DIR``; for the message.

    Returns:
        The nearest folder that exists: ``path``, or one above it.

    Raises:
        UserError: something of another kind has this path, or the existing folder cannot be written to.
    """
    path = Path(path)
    elsewhere = f"choose another place{f' with {setting}' if setting else ''}"
    wrong = path.is_dir() if kind == "file" else os.path.lexists(path) and not path.is_dir()
    if wrong:
        other = "folder" if kind == "file" else "file"
        raise UserError(f"{path} exists and is a {other}, expected a {kind}: move it away or {elsewhere}")
    place = path if kind == "folder" else path.parent
    while not os.path.lexists(place) and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise UserError(f"{path} cannot be written: {place} is not a folder; move it away or {elsewhere}")
    if not os.access(place, os.W_OK | os.X_OK):
        raise UserError(f"{path} cannot be written: no permission to write to {place}; {elsewhere}")
    return place


class DiskFullError(RunFailed, OSError):
    """There is no space left; existing files are unchanged."""


@contextmanager
def atomic_file(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a file for writing that gets its name only when it is complete and on the disk.

    It is first written to the folder of its target: a rename is atomic only within one file system, and the system's
    folder for temporary files is often on another.

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
            kept = "the previous file is unchanged" if path.exists() else "nothing was written"
            raise DiskFullError(
                f"no space left to write {path} ({kept}): free some space, then repeat the command"
            ) from error
        if isinstance(cause, OSError) and cause.filename is None:
            cause.filename = str(path)  # an error of write() has no file name
        if cause is not error:
            raise cause from error
        raise


def refusal(error: OSError) -> str | None:
    """Describe in one sentence what a disk or a file system has refused.

    Args:
        error: error of any system call.

    Returns:
        The sentence; None for an error of another kind.
    """
    if isinstance(error, DiskFullError):
        return str(error)
    if error.errno in FULL:
        place = "" if error.filename is None else f" to write {error.filename}"
        return f"no space left{place}: free some space, then repeat the command"
    if error.errno not in _REFUSALS or error.filename is None:  # such as an error of a process or a socket
        return None
    place = f"{error.filename}" if error.filename2 is None else f"{error.filename2}"
    return f"{place}: {error.strerror}; `radial-vicreg doctor --at DIR` prints what a folder allows"


def append_line(path: str | Path, line: str, sync: bool = False) -> None:
    """Append one line to a text file that no other process writes, and check that the whole line is there.

    A system call may write only a part of the line, and a killed process may have left an incomplete line at the end of
    the file. Such a line is first ended with a line break, so that the new line is not damaged.

    Args:
        path: the file, which is created if missing; its folder must exist.
        line: the text, without a line break.
        sync: return only once the line is on the disk.

    Raises:
        DiskFullError: there is no space left; the file is as it was before.
        OSError: the line cannot be written, or the file does not hold the written line; it is as it was before.
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
                raise OSError(errno.EIO, "the file does not contain the line that was written to it", str(path))
        except BaseException as error:
            with suppress(OSError):
                os.ftruncate(descriptor, end)
            if isinstance(error, OSError) and error.errno in FULL:
                raise DiskFullError(
                    f"no space left to add a line to {path} (earlier lines are unchanged): free some space, then "
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
    """Return whether ``inner`` is the folder ``outer`` or lies in it at any depth, with links resolved."""
    here, around = os.path.realpath(inner), os.path.realpath(outer)
    return os.path.commonpath([here, around]) == around


def point_link(name: Path, target: Path) -> bool:
    """Make ``name`` a symbolic link to a folder; replace an existing link in one step, but nothing else.

    Args:
        name: the link; its folder exists.
        target: an existing folder. If it lies below the link's folder, the link is relative, so that both can be moved.

    Returns:
        Whether ``name`` now leads to the folder. False if ``name`` is not a link, or if the file system has no links.
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
    """Remove unfinished files of killed processes from a folder; no other process may be writing there."""
    for file in folder.glob(".*.tmp"):
        if _LEFTOVER.fullmatch(file.name):  # keep hidden files of other programs
            file.unlink(missing_ok=True)


def _write_all(descriptor: int, content: bytes) -> None:
    """Write all of the content: a system call may write only a part of it."""
    while content:
        content = content[os.write(descriptor, content) :]


class _RememberingFile(io.FileIO):
    """A file that keeps the error of a failed write: libraries replace it by their own errors, without the reason."""

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
