"""``results.json``: what a run was, on what it ran, and what came out. `radial-vicreg report` reads nothing else."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

from radial_vicreg import __version__
from radial_vicreg.identity import config_hash, digest, hardware_is_known, identity_parts, without_hardware
from radial_vicreg.secrets import without_secrets

SCHEMA_VERSION = 2
"""1: the configuration as a CPU had changed it; 2: as it was requested, with what was effective beside it."""

RESULTS = "results.json"
_STAMP = "%Y%m%d-%H%M%S"
_STAMPED = re.compile(r"(\d{8}-\d{6})(?:-(\d+))?$")
_PACKAGES = ("torch", "torchvision", "lightning", "timm", "torchmetrics", "hydra-core", "numpy", "scipy")


@dataclass(frozen=True)
class StoredRun:
    """A ``results.json`` and the identity that follows from the configuration in it.

    Attributes:
        path: of the file.
        content: of the file.
    """

    path: Path
    content: dict[str, Any]

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return self.path.parent

    @property
    def processes(self) -> int:
        """Number of training processes."""
        return self.content.get("processes") or 1

    @cached_property
    def parts(self) -> dict[str, Any]:
        """The identity's parts, see :func:`radial_vicreg.identity.identity_parts`."""
        return identity_parts(self.content["config"], self.processes)

    @cached_property
    def hardware_is_known(self) -> bool:
        """Whether the requested precision is known; otherwise any request of it may have led to this run."""
        return hardware_is_known(self.content)

    @cached_property
    def key(self) -> str:
        """Hash of the identity, or of the part of it that is known."""
        return digest(self.parts if self.hardware_is_known else without_hardware(self.parts))

    @cached_property
    def started(self) -> str:
        """When the run began, for sorting: as the file says, else as the folder's name does, else the file's time."""
        stated = self.content.get("started")
        if isinstance(stated, str):
            return stated
        named = _STAMPED.search(self.folder.name)
        if named:
            began = datetime.strptime(named[1], _STAMP).astimezone(timezone.utc)
            return f"{began.isoformat(timespec='seconds')} {int(named[2] or 1):4d}"
        return datetime.fromtimestamp(self.path.stat().st_mtime, timezone.utc).isoformat(timespec="seconds")


def find_results(folder: str | Path) -> Iterator[Path]:
    """Find every ``results.json`` below a folder, by path; links to folders are not followed.

    Args:
        folder: to search; nothing is found in one that does not exist.

    Yields:
        Paths of files.
    """
    for inner, folders, names in os.walk(folder):
        folders.sort()
        if RESULTS in names and (file := Path(inner) / RESULTS).is_file():  # reading a pipe would never end
            yield file


def stored_runs(folder: str | Path) -> list[StoredRun]:
    """Read the runs below a folder; files that are not results of this program are passed over.

    Args:
        folder: to search.

    Returns:
        The runs, the one that began last first.
    """
    found = [run for file in find_results(folder) if (run := read_stored_run(file)) is not None]
    return sorted(found, key=lambda run: (run.started, str(run.path)), reverse=True)


def read_stored_run(file: Path) -> StoredRun | None:
    """Read one ``results.json``; None where there is none, or none of this program that this version knows."""
    try:
        run = StoredRun(file, json.loads(file.read_text(encoding="utf-8")))
        known = run.content["schema_version"] <= SCHEMA_VERSION and isinstance(run.content["status"], str)
        return run if known and run.key else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None  # `radial-vicreg report` lists such files


class RunsByIdentity:
    """Stored runs, to be found by the configuration that asks for them.

    Args:
        runs: of :func:`stored_runs`.
    """

    def __init__(self, runs: Iterable[StoredRun]) -> None:
        self._by_key: dict[tuple[bool, str], list[StoredRun]] = defaultdict(list)
        self._order: dict[Path, int] = {}
        for index, run in enumerate(runs):
            self._by_key[run.hardware_is_known, run.key].append(run)
            self._order[run.path] = index

    def of(self, config: Mapping[str, Any], processes: int) -> list[StoredRun]:
        """Choose the runs whose stored configuration has the identity of another, the seed included.

        Args:
            config: resolved, as requested. Runs with another ``data.fingerprint`` are left out: same settings, but
                other images.
            processes: number of training processes.

        Returns:
            Those runs, in their order.
        """
        asked = identity_parts(config, processes)
        exact = self._by_key.get((True, digest(asked)), [])
        loose = self._by_key.get((False, digest(without_hardware(asked))), [])
        same = [run for run in (*exact, *loose) if _may_be_same_images(run.content["config"], config)]
        return sorted(same, key=lambda run: self._order[run.path])


def _may_be_same_images(*configs: Mapping[str, Any]) -> bool:
    """Compare the marks of the training images, where they are known (:mod:`radial_vicreg.train.run_name`)."""
    return len({(config.get("data") or {}).get("fingerprint") for config in configs} - {None}) < 2


def identity_of(content: Mapping[str, Any]) -> dict[str, str | None]:
    """Compute the hashes of a run from the configuration in its results; what is stored may follow earlier rules.

    Args:
        content: of a ``results.json``; may be empty.

    Returns:
        ``config_hash`` and ``experiment_hash``, both None without a configuration.
    """
    config = content.get("config")
    if not isinstance(config, dict):
        return {"config_hash": None, "experiment_hash": None}
    processes = content.get("processes") or 1
    return {
        "config_hash": config_hash(config, processes),
        "experiment_hash": config_hash(config, processes, with_seed=False),
    }


def describe_run(config: dict[str, Any], host: str, processes: int = 1) -> dict[str, Any]:
    """The part of ``results.json`` that is known before the first step.

    Args:
        config: the resolved configuration, plain containers only.
        host: ``"solo"`` or ``"standalone"``.
        processes: number of training processes.

    Returns:
        Name, method, configuration with its hashes, seed, host, versions, git commits.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "name": without_secrets(config.get("name")),
        "method": config.get("method"),
        "host": host,
        "seed": config.get("seed"),
        **identity_of({"config": config, "processes": processes}),
        "config": without_secrets(config),
        "versions": versions(host),
        "git_commit": git_commit(Path(__file__).parent),
    }


def versions(host: str = "standalone") -> dict[str, str | None]:
    """Versions of Python, this package and what it stands on; ``None`` for what is not installed."""
    found: dict[str, str | None] = {"python": platform.python_version(), "radial-vicreg": __version__}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    if host == "solo" and "solo" in sys.modules:
        origin = sys.modules["solo"].__file__
        found["solo-learn"] = git_commit(Path(origin).parent) if origin else None
    return found


def git_commit(folder: Path) -> str | None:
    """Commit of the checkout that tracks ``folder``, with ``-dirty`` when it has changes; None outside a checkout."""
    try:
        root = _git(folder, "rev-parse", "--show-toplevel")
        if not _git(Path(root), "ls-files", str(folder.resolve())):
            return None  # an installed package inside somebody's repository
        commit = _git(folder, "rev-parse", "HEAD")
        return commit + ("-dirty" if _git(folder, "status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True, timeout=10
    )
    return done.stdout.strip()
