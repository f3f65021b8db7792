"""The name of a run, with the fingerprint of its images: what solo-learn's auto-resume tells runs apart by.

For both hosts, and without PyTorch.
"""

from __future__ import annotations

import hashlib

from radial_vicreg.config import RunConfig
from radial_vicreg.data.fingerprint import fingerprints_of
from radial_vicreg.identity import config_hash
from radial_vicreg.origin import names_only
from radial_vicreg.secrets import without_secrets

LONGEST_NAME = 120  # characters; solo-learn's checkpoints are called <name>-<version>-ep=<epoch>.ckpt
_DIGITS = 8


def named(config: RunConfig) -> RunConfig:
    """Give a configuration its final name and the fingerprints of its images, once.

    The name ends with version 0.2's fingerprint of the training images, since solo-learn's auto-resume compares names.

    Args:
        config: of a run. One that has a ``data.fingerprint`` (one that a script reads from ``args.json``, say) is left
            alone.

    Returns:
        The configuration with ``name``, ``data.fingerprint`` and ``data.fingerprints``.
    """
    if "fingerprint" in config.data.model_fields_set:
        return config
    found = fingerprints_of(config)
    mark = names_only(found.train)
    name = run_name(without_secrets(config.name), config_hash(config.plain(), config.processes), mark)
    data = config.data.model_copy(update={"fingerprint": mark, "fingerprints": found})
    return config.model_copy(update={"name": name, "data": data})


def run_name(text: str, identity: str, data: str | None) -> str:
    """Limit a name to 120 characters without letting two runs share it.

    Args:
        text: the name as configured, made of canonical numbers and rates as written.
        identity: hash of everything that can change the result. Not of a weight that has no effect, which a name holds.
        data: fingerprint of the training images (:func:`radial_vicreg.origin.names_only`), or None.

    Returns:
        ``<text>-<8 digits for text and identity>[-<data>]``; the text gives way when it is too long.
    """
    suffix = f"-{_digest(f'{text} {identity}')}" + (f"-{data}" if data else "")
    # Bytes, since that is what file systems count.
    room = LONGEST_NAME - len(suffix)
    kept = text.encode()[:room].decode(errors="ignore")
    return (kept if kept == text else kept.rstrip("-._ ")) + suffix


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:_DIGITS]
