"""The name of a run, with the fingerprint of its images, by which solo-learn's auto-resume distinguishes runs.

Both hosts use this module. It does not import PyTorch.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from radial_vicreg.config import RunConfig
from radial_vicreg.data.fingerprint import fingerprints_of
from radial_vicreg.io.secrets import without_secrets
from radial_vicreg.runs.identity import Identity
from radial_vicreg.runs.origin import names_only
from radial_vicreg.runs.stored import RunsByIdentity, stored_runs

LONGEST_NAME = 120  # characters; solo-learn's checkpoints are called <name>-<version>-ep=<epoch>.ckpt
_DIGITS = 8


def named(config: RunConfig, runs: Path) -> RunConfig:
    """Add the final name and the fingerprints of its images to a configuration, once.

    The name ends with version 0.2's fingerprint of the training images, since solo-learn's auto-resume compares names.

    Args:
        config: configuration of a run. It is returned unchanged if it has a ``data.fingerprint``, for example if a
            script reads it from ``args.json``.
        runs: folder of earlier runs. An interrupted run of release 0.2 keeps its name, since solo-learn's auto-resume
            compares names.

    Returns:
        The configuration with ``name``, ``data.fingerprint`` and ``data.fingerprints``.
    """
    if is_named(config):
        return config
    found = fingerprints_of(config)
    mark = names_only(found.train)
    data = config.data.model_copy(update={"fingerprint": mark, "fingerprints": found})
    config = config.model_copy(update={"data": data})
    text = without_secrets(config.name)
    name = run_name(text, Identity.of(config).config_hash, mark)
    name_of_0_2 = run_name(text, Identity.of_release_0_2(config).config_hash, mark)
    if name != name_of_0_2 and _is_unfinished(name_of_0_2, config, runs):
        name = name_of_0_2
    return config.model_copy(update={"name": name})


def is_named(config: RunConfig) -> bool:
    """Return whether a configuration has its final name, as in a prepared or a stored run."""
    return "fingerprint" in config.data.model_fields_set


def run_name(text: str, identity: str, data: str | None) -> str:
    """Limit a name to 120 characters without letting two runs share it.

    Args:
        text: the name as configured, with canonical numbers and rates as written.
        identity: hash of everything that can change the result. It excludes weights without effect, unlike the name.
        data: fingerprint of the training images (:func:`radial_vicreg.runs.origin.names_only`), or None.

    Returns:
        ``<text>-<8 digits for text and identity>[-<data>]``; the text is cut if it is too long.
    """
    suffix = f"-{_digest(f'{text} {identity}')}" + (f"-{data}" if data else "")
    # The limit is in bytes, since file systems count bytes.
    room = LONGEST_NAME - len(suffix)
    kept = text.encode()[:room].decode(errors="ignore")
    return (kept if kept == text else kept.rstrip("-._ ")) + suffix


def _is_unfinished(name: str, config: RunConfig, runs: Path) -> bool:
    """Return whether a run with this name and identity has started and not finished."""
    found = RunsByIdentity(stored_runs(runs)).of(config)
    return any(run.results.name == name and not run.results.is_finished for run in found)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:_DIGITS]
