"""Locks that a process holds while a folder or file is its own, on local disks and on a cluster's file systems."""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

from filelock import FileLock, Timeout

from radial_vicreg.errors import UserError
from radial_vicreg.files import write_json
from radial_vicreg.notices import warn

# What file systems without locks answer: NFS without a lock daemon, Lustre without -o flock, some FUSE ones.
_UNSUPPORTED = {errno.ENOSYS, errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP}
_TAKE_OVER = "wait for it, or, if it is gone and its file system has not noticed, give lock=take"
_PATIENCE = 60.0  # seconds to wait for a change of a small file


class LockedError(UserError):
    """Another process holds the lock; the message says which."""


class HeldLock:
    """A lock that is held from :meth:`acquire` to :meth:`release`, with a file beside it that says by whom.

    The system drops the lock with the process, however it ends; what is left on the disk means nothing by itself.
    A file system without locks gives one warning, and the work goes on.

    Args:
        path: of the lock file; its folder is created.
        what: what the lock is for, as the end of "another process is ...".
        take: replace a lock that another process holds: for one that outlived its process on another node.
        remedy: what to do about a refusal.
    """

    def __init__(self, path: str | Path, what: str, take: bool = False, remedy: str = _TAKE_OVER) -> None:
        self.path = Path(path)
        self.what = what
        self.take = take
        self.remedy = remedy
        self._lock: FileLock | None = None

    def acquire(self) -> None:
        """Take the lock at once.

        Raises:
            LockedError: another process holds it; host, process and start are named.
            OSError: the folder cannot be written.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.take:
            self.path.unlink(missing_ok=True)  # whoever holds it goes on holding a file that nobody looks at
        lock = _file_lock(self.path)
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise LockedError(f"another process is {self.what}{self._holder()}: {self.remedy}") from error
        except OSError as error:
            _warn_unsupported(self.path, error)
        self._lock = lock
        began = datetime.now(timezone.utc).isoformat(timespec="seconds")
        write_json(self._holder_file, {"host": socket.gethostname(), "pid": os.getpid(), "since": began})

    def release(self) -> None:
        """Let go of the lock; does nothing when it is not held."""
        if self._lock is not None:
            self._holder_file.unlink(missing_ok=True)
            self._lock.release()
            self._lock = None

    def __enter__(self) -> HeldLock:
        self.acquire()
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()

    @property
    def _holder_file(self) -> Path:
        return self.path.with_name(f"{self.path.name}.json")

    def _holder(self) -> str:
        try:
            found = json.loads(self._holder_file.read_text())
            return f" (process {found['pid']} on {found['host']}, since {found['since']})"
        except (OSError, ValueError, KeyError, TypeError):
            return ""


@contextmanager
def changing(path: str | Path, patience: float = _PATIENCE) -> Iterator[None]:
    """Keep other processes from changing a file or folder while it is read, changed and written.

    Args:
        path: the file or folder.
        patience: seconds to wait for another process.

    Raises:
        LockedError: another process has held the lock for longer.
        OSError: the folder cannot be written.
    """
    path = Path(path)
    lock = _file_lock(path.with_name(f".{path.name}.lock"))
    try:
        lock.acquire(timeout=patience)
    except Timeout as error:
        raise LockedError(f"another process has been changing {path} for {patience:g} s: try again later") from error
    except OSError as error:
        _warn_unsupported(path, error)
    try:
        yield
    finally:
        lock.release()


def _file_lock(path: Path) -> FileLock:
    # Its fall-back to marker files would refuse a folder for ever after a kill.
    return FileLock(path, fallback_to_soft=False)


def _warn_unsupported(path: Path, error: OSError) -> None:
    if error.errno not in _UNSUPPORTED:
        raise error
    warn(f"the file system of {path} has no locks ({os.strerror(error.errno)}): nothing keeps a second process out")
