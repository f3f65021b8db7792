"""Data folders that are either complete or absent: built next to their place, then renamed into it.

Nothing in an existing folder is deleted or replaced. A complete folder stays unchanged, with all other files that its
user keeps in it. Any other folder is refused, or moved aside on request.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from radial_vicreg.errors import UserError
from radial_vicreg.io.file_systems import ABILITIES, try_folder
from radial_vicreg.io.files import check_output, claim_output, lies_in
from radial_vicreg.io.locks import changing

MARKER = "radial_vicreg_data.json"
"""File in a finished folder that describes its content, including ``num_images``."""

Files = Mapping[str, Path | None]
"""Content of a complete folder: names below it, each with the target of its link, or None for a regular file."""

_PATIENCE = 24 * 3600.0  # seconds to wait for another job: CelebA's download takes hours on a slow line
_SETTING = "--out DIR"
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST)
_REMEDY = "choose another --out, or add --replace to move the folder aside"


def claim_folder(folder: str | Path, replace: bool = False, links: bool = False) -> Path:
    """Make sure, before a long download or reading, that a data folder can be prepared in its place.

    Args:
        folder: path of the future folder.
        replace: a folder that is in the way will be moved aside.
        links: its images will be links.

    Returns:
        ``folder``.

    Raises:
        UserError: it holds something that no command of ours wrote, it cannot be written, or its file system does not
            support renaming folders or links.
    """
    folder = Path(folder)
    if _has_marker(folder) and not replace:
        return folder  # it may be complete, and then nothing is written into it
    claim_output(folder, "folder", setting=_SETTING)
    place = check_output(folder.resolve().parent, "folder", _SETTING)
    for name, reason in try_folder(place, ("folders", "links") if links else ("folders",)).refused.items():
        raise UserError(
            f"{folder} cannot be prepared: its file system does not allow {ABILITIES[name].what} ({reason}); "
            "choose a folder on a local disk with --out"
        )
    if _is_filled(folder):
        if not replace and not _has_marker(folder):  # else another job was faster
            raise UserError(_not_ours(folder))
        if replace and lies_in(Path.cwd(), folder):
            raise UserError(
                f"{folder} contains the working directory, which --replace does not move: choose another --out"
            )
    return folder


def prepare_folder(
    folder: str | Path,
    description: Mapping[str, Any],
    files: Files,
    fill: Callable[[Path], object] | None = None,
    replace: bool = False,
    earlier: Mapping[str, Any] | None = None,
) -> bool:
    """Prepare a folder unless it is complete. Of jobs that start together, one prepares it and the others wait.

    Args:
        folder: the final place.
        description: content of the marker, including ``dataset`` and ``num_images``.
        files: everything that the folder will hold.
        fill: writes the regular files into the folder that it receives; links are made without it.
        replace: move a folder that is in the way aside. A complete one stays.
        earlier: values of keys that a marker of an earlier version lacks.

    Returns:
        Whether it was prepared now; False for a complete folder, which is not changed.

    Raises:
        UserError: the folder holds something else or lacks files; the message names them. Or the folder or its links
            cannot be created.
        LockedError: another process has been preparing it for a day.
    """
    given, folder = Path(folder), Path(folder).resolve()  # of a link, the folder that it leads to
    asked = _Asked(given, description, files, earlier or {})
    if _may_stay(asked.problem(), replace):
        return False
    claim_folder(given, replace, links=any(target is not None for target in files.values()))
    if os.path.ismount(folder):
        raise UserError(
            f"{given} is a mount point and cannot be replaced by a finished folder: choose a folder in it, such as"
            f" {given / description['dataset']}"
        )
    claim_output(folder.parent, "folder", setting=_SETTING)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with changing(folder, _PATIENCE):
        if _may_stay(asked.problem(), replace):  # another job was faster
            return False
        staging = folder.with_name(f".{folder.name}-{secrets.token_hex(4)}")
        staging.mkdir()  # not by tempfile, whose folders only the owner can read: permissions follow the umask
        try:
            if fill is not None:
                fill(staging)
            _link(staging, files)
            (staging / MARKER).write_text(json.dumps(dict(description)) + "\n")
            return _take_place(staging, folder, asked, replace)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def read_marker(folder: Path) -> dict[str, Any] | None:
    """Read the marker that a command of ours has written into a folder; None without one."""
    try:
        found = json.loads((folder / MARKER).read_text())
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _has_marker(folder: Path) -> bool:
    """Return whether a command of ours has written into a folder; :class:`_Asked` checks that it is complete."""
    return (folder / MARKER).is_file()


class _Asked(NamedTuple):
    """A requested folder; the attributes are the arguments of :func:`prepare_folder`."""

    folder: Path
    description: Mapping[str, Any]
    files: Files
    earlier: Mapping[str, Any]

    def problem(self) -> str | None:
        """Return why the folder is not the requested one.

        Returns:
            None: it is absent or empty. An empty text: it is complete. Otherwise a sentence.
        """
        folder, asked, files = self.folder, self.description, self.files
        if not _is_filled(folder):
            return None
        marker = read_marker(folder)
        if marker is None:
            return _not_ours(folder)
        found = {**self.earlier, **marker}
        if differing := [key for key in asked if found.get(key) != asked[key]]:
            held, wanted = (", ".join(f"{key} {what.get(key)}" for key in differing) for what in (found, asked))
            return f"{folder} contains other images ({held}) than requested ({wanted}): {_REMEDY}"
        lacking = [name for name, target in files.items() if not _is_there(folder / name, target)]
        if lacking:
            return f"{folder} lacks {len(lacking):,} of its {len(files):,} files, for example {lacking[0]}: {_REMEDY}"
        return ""


def _may_stay(problem: str | None, replace: bool) -> bool:
    """Return whether a folder is complete; raise for an incomplete one that may not be moved aside."""
    if problem and not replace:
        raise UserError(problem)
    return problem == ""


def _is_there(path: Path, target: Path | None) -> bool:
    """Return whether a file exists, or a link with this target that is not broken."""
    try:
        return path.exists() and (target is None or path.readlink() == target)
    except OSError:  # no link, or one that leads to itself
        return False


def _is_filled(folder: Path) -> bool:
    """Return whether the path holds something already, even if it is not a folder."""
    return os.path.lexists(folder) and (not folder.is_dir() or any(folder.iterdir()))


def _not_ours(folder: Path) -> str:
    return f"{folder} exists and was not prepared by this command: {_REMEDY}"


def _link(folder: Path, files: Files) -> None:
    for name, target in files.items():
        if target is not None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).symlink_to(target)


def _take_place(staging: Path, folder: Path, asked: _Asked, replace: bool) -> bool:
    """Rename a complete folder into its place; move aside what is there, and put it back if that fails.

    Returns:
        False when another job has prepared the place meanwhile, on a file system without locks.

    Raises:
        UserError: something has been put there meanwhile.
        OSError: the folder cannot be renamed.
    """
    aside = None
    if _may_stay(asked.problem(), replace):
        return False
    try:
        if _is_filled(folder):
            aside = folder.with_name(f"{folder.name}.replaced-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}")
            folder.rename(aside)
        elif folder.is_dir():
            with suppress(OSError):  # not every file system keeps permissions
                shutil.copymode(folder, staging)
        staging.rename(folder)
    except OSError as error:
        if aside is not None and aside.is_dir():
            aside.rename(folder)
        if error.errno in _TAKEN and (problem := asked.problem()) is not None:  # taken by another job just now
            return not _may_stay(problem, replace=False)
        raise
    if aside is not None:
        # Standard output has the folder alone, for scripts.
        print(f"{asked.folder}: the previous folder is now {aside}", file=sys.stderr)
    return True
