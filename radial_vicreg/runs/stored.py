"""Find stored runs, and those that match a configuration."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from radial_vicreg.config import RunConfig
from radial_vicreg.errors import UserError
from radial_vicreg.io.files import lies_in
from radial_vicreg.names.counts import first_of
from radial_vicreg.runs.identity import Identity
from radial_vicreg.runs.origin import images_of, other_images
from radial_vicreg.runs.results import RESULTS, ResultsError, RunResults, UnrecognizedResults

LATEST = "latest"
"""Link in ``runs_dir`` to the run of ``radial-vicreg pretrain`` that started last."""

ARGUMENTS = "args.json"
"""Configuration file that solo-learn's script writes to a run's folder."""


@dataclass(frozen=True)
class StoredRun:
    """A run in its folder.

    Its results describe settings and progress: ``requested``, ``identity``, ``images``, ``is_finished``.

    Attributes:
        path: path of its ``results.json``.
        results: content of the file.
    """

    path: Path
    results: RunResults

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return self.path.parent

    @property
    def is_of_script(self) -> bool:
        """Whether solo-learn's script has trained the run, and not ``radial-vicreg pretrain``."""
        return is_of_script(self.folder)

    @property
    def started(self) -> str:
        """Start of the run, ISO 8601; empty, and thus before all others, if the results do not have it."""
        return self.results.started or ""


def find_results(folder: str | Path) -> Iterator[Path]:
    """Find every ``results.json`` below a folder, by path.

    Links to folders are followed, since a run may have been moved to a larger disk and linked back. Each real folder
    counts once, by its own path if that lies below ``folder``; ``latest`` is not followed.

    Args:
        folder: folder to search; nothing is found if it does not exist.

    Yields:
        Paths of files.
    """
    found = [
        file
        for inner, _, names in _walk(Path(folder))
        if RESULTS in names and (file := inner / RESULTS).is_file()  # reading a pipe would never end
    ]
    yield from sorted(found, key=lambda file: file.parent.parts)


def stored_runs(folder: str | Path, on_bad: Callable[[ResultsError], object] | None = None) -> list[StoredRun]:
    """Read the runs below a folder; files that are not results of this program are skipped.

    Args:
        folder: folder to search.
        on_bad: called with the error of each skipped file.

    Returns:
        The runs, with the latest start first.
    """
    found: list[StoredRun] = []
    for file in find_results(folder):
        try:
            found.append(open_stored_run(file.parent))
        except ResultsError as error:
            if on_bad is not None:
                on_bad(error)
    return sorted(found, key=lambda run: (run.started, str(run.path)), reverse=True)


def is_of_script(folder: Path) -> bool:
    """Return whether solo-learn's script has left its arguments in a folder."""
    return (folder / ARGUMENTS).is_file()


def read_stored_run(folder: Path) -> StoredRun | None:
    """Read the run in a folder; None if :func:`open_stored_run` raises an error."""
    try:
        return open_stored_run(folder)
    except ResultsError:
        return None  # `radial-vicreg runs` and `report` list such files


def open_stored_run(folder: Path) -> StoredRun:
    """Read the run in a folder, with everything that a list of runs shows.

    Args:
        folder: any folder; whatever its ``results.json`` holds, no error other than ``ResultsError`` is raised.

    Returns:
        The run, whose configuration is one of this program.

    Raises:
        ResultsError: there is no file, or it is not one of this program that this version can read.
    """
    run = StoredRun(folder / RESULTS, RunResults.read(folder / RESULTS))
    try:
        _ = run.results.requested
    except UserError as error:
        raise UnrecognizedResults(run.path, f"its configuration is not of VICReg or Radial-VICReg: {error}") from error
    return run


def single_run(path: str | Path) -> Path:
    """Find the one run that a path stands for.

    Args:
        path: a run's folder or a checkpoint, which is returned; a link such as ``runs/latest``; or a folder above a
            single run of either host or of solo-learn's script, which may be linked as in :func:`find_results`.

    Returns:
        The run's folder or the checkpoint. A link is followed, since a later run may change its target. A folder
        without a run is returned as it is: the code that opens it reports what is missing.

    Raises:
        UserError: several runs are below the folder; the message names the first ones.
    """
    path = Path(path)
    if path.is_symlink() and path.is_dir():
        path = path.parent / os.readlink(path)
    if not path.is_dir() or _is_run(path):
        return path
    found: list[Path] = []
    for inner, folders, _ in _walk(path):
        if _is_run(inner):
            found.append(inner)
            folders.clear()
    if len(found) > 1:
        names = first_of([str(run) for run in sorted(found, key=lambda run: run.parts)])
        raise UserError(f"{path} contains {len(found)} runs, give one of them: {names}")
    return found[0] if found else path


def _walk(root: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Walk as :func:`os.walk` does, and then through linked folders; visit each real folder once.

    Links to a folder that contains the link or ``root`` are skipped, since they lead to runs that were not requested.
    """
    seen: set[tuple[int, int]] = set()
    waiting = [root]
    while waiting:
        links: list[Path] = []
        for place, folders, names in os.walk(waiting.pop(0)):
            inner, identity = Path(place), _identity(place)
            if identity is None or identity in seen:
                folders.clear()
                continue
            seen.add(identity)
            folders.sort()
            yield inner, folders, names
            links += (link for name in folders if name != LATEST and (link := inner / name).is_symlink())
        waiting += (link for link in links if not lies_in(link.parent, link) and not lies_in(root, link))


def _identity(folder: str) -> tuple[int, int] | None:
    """Identify a folder independently of its path; None if it was removed meanwhile."""
    try:
        state = os.stat(folder)
    except OSError:
        return None
    return state.st_dev, state.st_ino


def _is_run(folder: Path) -> bool:
    """Return whether a run of this program or of solo-learn's script has left its results, settings or weights here."""
    if is_of_script(folder) or any(folder.glob("*.ckpt")):
        return True
    if not (file := folder / RESULTS).is_file():
        return False
    try:
        RunResults.read(file)
    except UnrecognizedResults:
        return False
    except ResultsError:
        return True  # a damaged file, which its reader reports
    return True


class RunsByIdentity:
    """An index of stored runs by the identity of their configurations.

    Args:
        runs: runs from :func:`stored_runs`.
    """

    def __init__(self, runs: Iterable[StoredRun]) -> None:
        self._by_key: dict[str, list[StoredRun]] = defaultdict(list)
        for run in runs:
            self._by_key[run.results.identity.config_hash].append(run)

    def of(self, config: RunConfig, processes: int | None = None) -> list[StoredRun]:
        """Choose the runs whose stored configuration has the identity of another one, including the seed.

        Args:
            config: the requested configuration. Runs with other ``data.fingerprints`` are omitted, since a run has one
                set of validation images.
            processes: number of training processes, if it is not that of the configuration.

        Returns:
            The matching runs, in their order.
        """
        images = images_of(config)
        return [
            run for run in self._same_settings(config, processes) if other_images(run.results.images, images) is None
        ]

    def kept_apart(self, config: RunConfig) -> list[tuple[StoredRun, str]]:
        """List the runs that :meth:`of` omits only because of their images, and how the images differ.

        Args:
            config: as for :meth:`of`.

        Returns:
            The omitted runs, in their order, each with the reason (:func:`radial_vicreg.runs.origin.other_images`).
        """
        images = images_of(config)
        same = self._same_settings(config)
        return [(run, reason) for run in same if (reason := other_images(run.results.images, images)) is not None]

    def _same_settings(self, config: RunConfig, processes: int | None = None) -> list[StoredRun]:
        return self._by_key.get(Identity.of(config, processes).config_hash, [])
