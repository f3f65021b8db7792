"""``results.json``: what a run was, on what it ran, and what came out. `radial-vicreg report` reads nothing else."""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from radial_vicreg import __version__
from radial_vicreg.secrets import without_secrets

SCHEMA_VERSION = 1

# What solo-learn assumes for keys that a configuration leaves out: the same experiment has the same hash either way.
_ASSUMED: dict[str, dict[str, Any]] = {
    "backbone": {"name": None, "kwargs": {}},
    "data": {"dataset": None, "name": None, "no_labels": False, "fraction": -1},
    "optimizer": {
        "name": None,
        "batch_size": None,
        "lr": None,
        "classifier_lr": None,
        "weight_decay": None,
        "exclude_bias_n_norm_wd": False,
    },
    "scheduler": {
        "name": None,
        "warmup_epochs": 10,
        "warmup_start_lr": 3e-5,
        "min_lr": 0.0,
        "interval": "step",
        "lr_decay_steps": None,
    },
}
_PLAIN_KEYS = ("method", "method_kwargs", "augmentations", "max_epochs", "precision", "sync_batchnorm")
_PACKAGES = ("torch", "torchvision", "lightning", "timm", "torchmetrics", "hydra-core", "numpy", "scipy")


def config_hash(config: dict[str, Any], processes: int = 1, with_seed: bool = True) -> str:
    """Short hash of everything in a configuration that can change the result; paths, logging and host cannot.

    Args:
        config: the resolved configuration, rates as written.
        processes: number of training processes; the batch size counts for each.
        with_seed: False gives the same value for the seeds of one experiment, which is what a table averages over.

    Returns:
        Twelve hexadecimal digits of a SHA-256.
    """
    kept: dict[str, Any] = {key: config.get(key) for key in _PLAIN_KEYS}
    for section, assumed in _ASSUMED.items():
        given = config.get(section) or {}
        kept[section] = {key: given.get(key, default) for key, default in assumed.items()}
    policy = (config.get("data") or {}).get("on_bad_image", "error")
    if policy != "error":  # the default is left out, so that runs from before there was a choice keep their hash
        kept["data"]["on_bad_image"] = policy
    kept["optimizer"]["kwargs"] = _optimizer_kwargs(config.get("optimizer") or {})
    kept["accumulate_grad_batches"] = config.get("accumulate_grad_batches") or 1
    kept["precision"] = str(kept["precision"])
    kept["processes"] = processes
    if with_seed:
        kept["seed"] = config.get("seed")
    canonical = json.dumps(_numbers_as_floats(kept), sort_keys=True, default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


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
        "config_hash": config_hash(config, processes),
        "experiment_hash": config_hash(config, processes, with_seed=False),
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


def _optimizer_kwargs(optimizer: dict[str, Any]) -> dict[str, Any]:
    from radial_vicreg.hosts.standalone.optim import DEFAULT_KWARGS

    return {**DEFAULT_KWARGS.get(str(optimizer.get("name")), {}), **(optimizer.get("kwargs") or {})}


def _numbers_as_floats(value: Any) -> Any:
    """1 and 1.0 are one value to a configuration, but not to JSON."""
    if isinstance(value, dict):
        return {str(key): _numbers_as_floats(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_numbers_as_floats(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True, timeout=10
    )
    return done.stdout.strip()
