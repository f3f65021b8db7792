"""Abilities of a folder's file system, determined by trials."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock, Timeout

FULL = (errno.ENOSPC, errno.EDQUOT)
"""Error numbers of a full disk and of an exceeded quota."""

_CONTENT = b"written by radial-vicreg to try this place\n"
_ELSEWHERE = "nothing can be written here: work on a local disk and copy the results"


class Ability(NamedTuple):
    """An ability that a file system may lack.

    Attributes:
        what: the ability, as a noun.
        without: what follows if the ability is missing.
        needed: whether every run needs the ability.
    """

    what: str
    without: str
    needed: bool = False


ABILITIES = {
    "write": Ability("writing files", _ELSEWHERE, needed=True),
    "rename": Ability("replacing a file", _ELSEWHERE, needed=True),
    "append": Ability("appending to a file", _ELSEWHERE, needed=True),
    "links": Ability(
        "symbolic links",
        "last.ckpt is a small file with the checkpoint's name, runs/latest is missing, and `radial-vicreg data` "
        "cannot prepare CelebA, ImageNet-10 and the study's images here, since they are links",
    ),
    "locks": Ability("locks", "a second process is not kept out of a run's folder"),
    "modes": Ability("changing permissions", "files have the file system's permissions"),
    "folders": Ability("renaming a folder", "`radial-vicreg data` cannot prepare images here"),
}
"""All abilities by name; :func:`try_folder` tries them in this order."""

_OF_A_RUN = ("write", "rename", "append", "links")


@dataclass(frozen=True)
class FileSystem:
    """The result of the trials in a folder.

    Attributes:
        folder: the folder of the trials.
        refused: the missing abilities, each with the system's reason.
    """

    folder: Path
    refused: Mapping[str, str]

    @property
    def has_links(self) -> bool:
        """Whether symbolic links can be made and read."""
        return "links" not in self.refused

    @property
    def problem(self) -> str | None:
        """The reason, as a sentence, why no run can be written here; None if runs can be written."""
        missing = next((name for name in self.refused if ABILITIES[name].needed), None)
        if missing is None:
            return None
        return f"the file system of {self.folder} does not allow {ABILITIES[missing].what} ({self.refused[missing]})"


_usable: dict[Path, FileSystem] = {}


def file_system_of(folder: Path) -> FileSystem:
    """Try the file system of a run's folder; a writable folder is tried once per process.

    Args:
        folder: an existing folder. Hidden files are written into it and removed again.

    Returns:
        Which of writing, renaming, appending and linking files the file system cannot do.

    Raises:
        OSError: the disk is full.
    """
    folder = folder.resolve()
    if (known := _usable.get(folder)) is not None:
        return known
    found = try_folder(folder, _OF_A_RUN)
    if found.problem is None:
        _usable[folder] = found
    return found


def try_folder(folder: Path, abilities: tuple[str, ...] = tuple(ABILITIES)) -> FileSystem:
    """Try abilities in a folder with small hidden files, which are removed again.

    Args:
        folder: an existing folder.
        abilities: names of :data:`ABILITIES`.

    Returns:
        The missing abilities. If no file can be written, nothing else is tried.

    Raises:
        OSError: the disk is full, which says nothing about its file system.
    """
    refused: dict[str, str] = {}
    for name in abilities:
        if (reason := _refusal(folder, _TRIALS[name])) is not None:
            refused[name] = reason
            if name == "write":
                break
    return FileSystem(folder, refused)


def temporary_path(path: Path) -> Path:
    """Choose a hidden name in the folder of a path, for the file that will replace the path.

    The module ``tempfile`` makes files for their owner alone, but results are for the group. The name is also unique
    among threads, and among nodes that share a file system, where process numbers repeat.
    """
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")


def _refusal(folder: Path, trial: Callable[[Path, Path], None]) -> str | None:
    # These names differ from those of unfinished files, which another process may be removing here.
    first, second = (folder / f".radial-vicreg-{secrets.token_hex(8)}" for _ in range(2))
    try:
        trial(first, second)
    except Timeout:
        return "no lock could be taken"
    except (OSError, NotImplementedError) as error:  # the latter from filelock, on a system without locks
        if isinstance(error, OSError) and error.errno in FULL:
            raise
        return getattr(error, "strerror", None) or str(error)
    finally:
        for path in (second, first):
            _remove(path)
    return None


def _remove(path: Path) -> None:
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            for file in path.iterdir():
                file.unlink()
            path.rmdir()
        else:
            path.unlink()


def _write(first: Path, _: Path) -> None:
    first.write_bytes(_CONTENT)
    _check(first.read_bytes() == _CONTENT, "a file does not contain what was written to it")


def _rename(first: Path, second: Path) -> None:
    second.write_bytes(b"")
    first.write_bytes(_CONTENT)
    os.replace(first, second)
    _check(second.read_bytes() == _CONTENT, "a renamed file does not replace the other")


def _append(first: Path, _: Path) -> None:
    for _part in range(2):
        descriptor = os.open(first, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)  # as files.append_line does
        try:
            os.write(descriptor, _CONTENT)
        finally:
            os.close(descriptor)
    _check(first.read_bytes() == 2 * _CONTENT, "a file does not contain what was appended to it")


def _link(first: Path, second: Path) -> None:
    first.write_bytes(_CONTENT)
    os.symlink(first.name, second)
    leads_there = second.is_symlink() and second.read_bytes() == _CONTENT
    _check(leads_there, "a link does not resolve to its file")


def _lock(first: Path, _: Path) -> None:
    with FileLock(first, timeout=0, fallback_to_soft=False):
        pass


def _mode(first: Path, _: Path) -> None:
    first.write_bytes(_CONTENT)
    for mode in (0o600, 0o640):
        os.chmod(first, mode)
        _check(first.stat().st_mode & 0o777 == mode, "a change has no effect")


def _rename_folder(first: Path, second: Path) -> None:
    first.mkdir()
    (first / "file").write_bytes(_CONTENT)
    os.rename(first, second)
    _check((second / "file").read_bytes() == _CONTENT, "a renamed folder does not contain its files")


def _check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise OSError(errno.EIO, otherwise)


_TRIALS: dict[str, Callable[[Path, Path], None]] = {
    "write": _write,
    "rename": _rename,
    "append": _append,
    "links": _link,
    "locks": _lock,
    "modes": _mode,
    "folders": _rename_folder,
}
