"""Facts about a run that are known before its first step: its identity and the versions of its software."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from radial_vicreg import __version__
from radial_vicreg.config.stored import stored_config
from radial_vicreg.io.secrets import without_secrets
from radial_vicreg.runs.identity import Identity
from radial_vicreg.runs.results import SCHEMA_VERSION

_PACKAGES = ("torch", "torchvision", "lightning", "timm", "torchmetrics", "hydra-core", "numpy", "scipy")


def describe_run(config: Mapping[str, object], host: str, processes: int = 1) -> dict[str, object]:
    """Collect the content of ``results.json`` that is known before the first step.

    Args:
        config: the resolved configuration, plain containers only.
        host: ``"solo"`` or ``"standalone"``.
        processes: number of training processes.

    Returns:
        Name, method, configuration with its hashes, seed, host, versions, git commits: keys of
        :class:`radial_vicreg.runs.results.RunResults`.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "name": without_secrets(config.get("name")),
        "method": config.get("method"),
        "host": host,
        "seed": config.get("seed"),
        **Identity.of(stored_config(config), processes).hashes,
        "config": without_secrets(config),
        "versions": versions(host),
        "git_commit": git_commit(Path(__file__).parent),
    }


def versions(host: str = "standalone") -> dict[str, str | None]:
    """List the versions of Python, this package and its requirements; ``None`` for what is not installed."""
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
    """Find the commit of the checkout that tracks ``folder``, with ``-dirty`` when changed; None outside one."""
    try:
        root = _git(folder, "rev-parse", "--show-toplevel")
        if not _git(Path(root), "ls-files", str(folder.resolve())):
            return None  # an installed package inside another repository
        commit = _git(folder, "rev-parse", "HEAD")
        return commit + ("-dirty" if _git(folder, "status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True, timeout=10
    )
    return done.stdout.strip()
