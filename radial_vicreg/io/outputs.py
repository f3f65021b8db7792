"""Protect the outputs of commands: a file is replaced only if it is proved to be from the same command."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from radial_vicreg.errors import UserError
from radial_vicreg.io.files import atomic_file, claim_output, remove_leftovers, write_json
from radial_vicreg.io.locks import changing
from radial_vicreg.names.counts import counted, first_of

_REMEDY = "move it away, or choose another place"


def claim_file(path: str | Path, is_ours: Callable[[Path], bool], command: str) -> Path:
    """Check, before the work starts, that a file can be written and replaces only a file of the same command.

    Args:
        path: path of the file; it and its parent folders need not exist yet.
        is_ours: returns whether the command has written an existing file.
        command: name of the command, for the message.

    Returns:
        ``path``.

    Raises:
        UserError: the path is a link, a device, a folder or a file that the command has not written, or it cannot be
            written.
    """
    path = claim_output(Path(path), "file")
    if path.is_symlink():
        raise UserError(f"{path} is a link, which `radial-vicreg {command}` does not replace: {_REMEDY}")
    if os.path.lexists(path) and not (path.is_file() and is_ours(path)):
        raise UserError(f"{path} was not written by `radial-vicreg {command}`: {_REMEDY}")
    return path


def json_with(*keys: str) -> Callable[[Path], bool]:
    """Make ``is_ours`` of :func:`claim_file`: whether a file holds a JSON object with all of these keys."""

    def holds(path: Path) -> bool:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return False
        return isinstance(content, dict) and content.keys() >= set(keys)

    return holds


class OutputFolder:
    """An output folder of a command, which replaces and removes only files that it has written itself.

    A marker in the folder lists the files with their SHA-256. While files are written, it lists the old and the new
    ones, so that the files of a killed command are known as well.

    Args:
        path: path of the folder; a link to a folder is followed, links inside it are refused.
        command: name of the command; the marker has this name.
        formerly: returns the files that a version without markers has left in a folder, and none for any other folder.
            Nothing proves that they are unchanged, so :meth:`write` moves them into a separate folder.
        alone: the folder belongs to this command alone: without a marker it must be empty except for hidden files.
        setting: how another folder is chosen, for the message.
    """

    def __init__(
        self,
        path: str | Path,
        command: str,
        formerly: Callable[[Path], Collection[str]] = lambda folder: (),
        alone: bool = False,
        setting: str = "--out DIR",
    ) -> None:
        self.path = Path(path)
        self.command = command
        self.marker = self.path / f"radial_vicreg_{command}.json"
        self._formerly = formerly
        self._alone = alone
        self._setting = setting

    def claim(self, names: Iterable[str] = ()) -> OutputFolder:
        """Check, before the work starts, that the folder may be written to. Nothing is changed.

        Args:
            names: names of the files that are known so far.

        Returns:
            The folder itself.

        Raises:
            UserError: a file that the command has not written, a changed file or a link is in the way (the message
                names it), or the folder cannot be written.
        """
        claim_output(self.path, "folder", setting=self._setting)
        names = list(names)
        try:
            self._check(names)
        except UserError:
            if self._read_marker() is None:
                raise
            with changing(self.marker):  # another process may have been writing meanwhile
                self._check(names)
        return self

    def write(self, files: Mapping[str, bytes]) -> list[Path]:
        """Write files, each completely or not at all.

        If the folder belongs to the command alone, files of the previous call that are not written again are removed.

        Args:
            files: contents by name; a name may lead into a sub-folder.

        Returns:
            Their paths.

        Raises:
            UserError: as for :meth:`claim`; nothing is written then.
            LockedError: another process has been writing there for a minute.
            OSError: a file cannot be written; the files before it are written.
        """
        self.claim(files)
        self.path.mkdir(parents=True, exist_ok=True)
        with changing(self.marker):
            known = self._check(files)
            self._set_aside()
            for folder in {self.path, *(path.parent for path in map(self._place, known))}:
                remove_leftovers(folder)
            written = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
            both = {name: sorted({*known.get(name, ()), *_listed(written.get(name))}) for name in {*known, *written}}
            self._mark(both)
            for name, content in files.items():
                with atomic_file(self._place(name)) as stream:
                    stream.write(content)
            kept = {name: digests for name, digests in known.items() if name not in files}
            while kept and self._alone:
                self._place(kept.popitem()[0]).unlink(missing_ok=True)
            self._mark({**kept, **{name: [digest] for name, digest in written.items()}})
        return [self._place(name) for name in files]

    def _check(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Refuse files that the command has not written; return the digests in the marker by name."""
        known = self._read_marker()
        former = set() if known is not None else set(self._formerly(self.path))
        if known is None and self._alone and not former and (others := self._visible()):
            raise UserError(
                f"{self.path} contains files that `radial-vicreg {self.command}` did not write "
                f"({first_of(others)}): choose an empty folder, or that of an earlier {self.command}"
            )
        known = known or {}
        for name in sorted({*known, *names, *former}):
            self._refuse_others(name, known.get(name), name in former)
        return known

    def _refuse_others(self, name: str, digests: Sequence[str] | None, former: bool) -> None:
        place = self.path
        for part in PurePosixPath(name).parts:
            place /= part
            if place.is_symlink():
                raise UserError(f"{place} is a link, which `radial-vicreg {self.command}` does not follow: {_REMEDY}")
        if former or not os.path.lexists(place):
            claim_output(place, "file")
        elif digests is None or not place.is_file():
            raise UserError(f"{place} was not written by `radial-vicreg {self.command}`: {_REMEDY}")
        elif hashlib.sha256(place.read_bytes()).hexdigest() not in digests:
            raise UserError(f"{place} has changed since `radial-vicreg {self.command}` wrote it: {_REMEDY}")

    def _read_marker(self) -> dict[str, list[str]] | None:
        """Read the digests by name; None without a marker."""
        if not os.path.lexists(self.marker):
            return None
        try:
            content: Any = None if self.marker.is_symlink() else json.loads(self.marker.read_text(encoding="utf-8"))
            files = dict(content["files"])
            if all(_is_inside(name) and isinstance(digests, list) for name, digests in files.items()):
                return files
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            pass
        raise UserError(f"{self.marker} is not a file of `radial-vicreg {self.command}`: {_REMEDY}")

    def _mark(self, files: Mapping[str, Sequence[str]]) -> None:
        write_json(self.marker, {"command": self.command, "files": dict(sorted(files.items()))})

    def _set_aside(self) -> None:
        """Move the files of a version without markers into a separate folder."""
        if os.path.lexists(self.marker):
            return
        former = [name for name in self._formerly(self.path) if os.path.lexists(self._place(name))]
        if not former:
            return
        aside = self.path / f"replaced-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
        for name in former:
            (aside / name).parent.mkdir(parents=True, exist_ok=True)
            os.rename(self._place(name), aside / name)
        print(f"{self.path}: moved {counted(len(former), 'file')} of an earlier version, possibly edited, to {aside}")

    def _visible(self) -> list[str]:
        if not self.path.is_dir():
            return []
        return sorted(name for name in os.listdir(self.path) if not name.startswith("."))

    def _place(self, name: str) -> Path:
        return self.path / name


def _listed(digest: str | None) -> list[str]:
    return [] if digest is None else [digest]


def _is_inside(name: str) -> bool:
    """Return whether a name from a marker stays below the folder; anybody may have written the marker."""
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts
