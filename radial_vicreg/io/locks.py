"""Locks with which a process reserves a folder or file, on local disks and on cluster file systems."""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from time import sleep

from filelock import FileLock, Timeout

from radial_vicreg.errors import UserError
from radial_vicreg.io.files import write_json
from radial_vicreg.io.notices import warn

# Error numbers of file systems without locks: NFS without a lock daemon, Lustre without -o flock, some FUSE ones.
_UNSUPPORTED = {errno.ENOSYS, errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP}
_TAKE_OVER = "wait for it; if it has ended but the file system still holds its lock, use lock=take"
_PATIENCE = 60.0  # seconds to wait for a change of a small file
_LOOK = 0.2  # seconds after which a process that only tests the lock has released it
SECONDS_BETWEEN_LOOKS = 5.0
"""Polling interval of a process that waits for a lock; a blocking call does not work on every file system."""


class LockedError(UserError):
    """Another process holds the lock; the message says which."""


class HeldLock:
    """A lock that is held from :meth:`acquire` to :meth:`release`, with a file next to it that names the holder.

    The system releases the lock when the process ends, for whatever reason; a lock file on the disk does not mean that
    the lock is held. On a file system without locks, a warning is issued and the work proceeds.

    Args:
        path: path of the lock file; its folder is created.
        what: what the lock is for, as the end of "another process is ...".
        take: replace a lock that another process holds, for example one that outlived its process on another node.
        remedy: advice at the end of the error message.
    """

    def __init__(self, path: str | Path, what: str, take: bool = False, remedy: str = _TAKE_OVER) -> None:
        self.path = Path(path)
        self.what = what
        self.take = take
        self.remedy = remedy
        self._lock: FileLock | None = None
        self._own_name: dict[str, object] = {}

    def acquire(self, on_wait: Callable[[str], object] | None = None) -> None:
        """Acquire the lock at once, or as soon as it is free.

        Args:
            on_wait: called once with a message if another process holds the lock. None: do not wait.

        Raises:
            LockedError: another process holds the lock; the message names its host, number and start.
            OSError: the folder cannot be written.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.take:
            self.path.unlink(missing_ok=True)  # the holder keeps a lock on a file that is no longer used
        lock = _file_lock(self.path)
        if not _lock_now(lock, self.path):
            if on_wait is None:
                raise LockedError(self.refusal())
            on_wait(f"waiting, since another process is {self.what}{self._holder()}")
            while not _lock_now(lock, self.path):
                sleep(SECONDS_BETWEEN_LOOKS)
        self._lock = lock
        began = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self._own_name = {"host": socket.gethostname(), "pid": os.getpid(), "since": began}
        write_json(self._holder_file, self._own_name)

    def release(self) -> None:
        """Release the lock; do nothing if it is not held."""
        if self._lock is not None:
            if self._named() in ({}, self._own_name):  # keep the file of a process that took the lock over
                self._holder_file.unlink(missing_ok=True)
            self._lock.release()
            self._lock = None

    def is_held(self) -> bool:
        """Return whether a process holds the lock at this moment; always False on a file system without locks."""
        if not self.path.exists():
            return False
        lock = _file_lock(self.path)
        if not _lock_now(lock, self.path):
            return True
        lock.release()
        return False

    def refusal(self) -> str:
        """Return the message for a refused process, with host, number and start of the process that holds the lock."""
        return f"another process is {self.what}{self._holder()}: {self.remedy}"

    def __enter__(self) -> HeldLock:
        self.acquire()
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()

    @property
    def _holder_file(self) -> Path:
        return self.path.with_name(f"{self.path.name}.json")

    def _holder(self) -> str:
        found = self._named()
        return f" (process {found['pid']} on {found['host']}, since {found['since']})" if found else ""

    def _named(self) -> dict[str, object]:
        """Read the holder of the lock; empty if the file does not name one."""
        try:
            found = json.loads(self._holder_file.read_text())
            return {name: found[name] for name in ("pid", "host", "since")}
        except (OSError, ValueError, KeyError, TypeError):
            return {}


@contextmanager
def changing(path: str | Path, patience: float | None = None) -> Iterator[None]:
    """Keep other processes from changing a file or folder while it is read, changed and written.

    Args:
        path: the file or folder.
        patience: seconds to wait for another process; None: a minute, enough for a small file.

    Raises:
        LockedError: another process has held the lock for longer.
        OSError: the folder cannot be written.
    """
    path, patience = Path(path), _PATIENCE if patience is None else patience
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
    # With filelock's fallback to marker files, a folder would stay locked for ever after its process was killed.
    return FileLock(path, fallback_to_soft=False)


def _lock_now(lock: FileLock, path: Path) -> bool:
    """Acquire a lock unless another process holds it; warn on a file system without locks."""
    try:
        lock.acquire(timeout=_LOOK)
    except Timeout:
        return False
    except OSError as error:
        _warn_unsupported(path, error)
    return True


def _warn_unsupported(path: Path, error: OSError) -> None:
    if error.errno not in _UNSUPPORTED:
        raise error
    warn(f"the file system of {path} has no locks ({os.strerror(error.errno)}): a second process is not kept out")
