"""A folder of the user for numbers that can be computed anew; it may be removed at any time."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from radial_vicreg.io.files import write_json

FOLDER_VARIABLE = "RADIAL_VICREG_CACHE"
"""Environment variable that names another folder."""


def cache_folder() -> Path | None:
    """Return ``$RADIAL_VICREG_CACHE``, ``$XDG_CACHE_HOME/radial-vicreg`` or ``~/.cache/radial-vicreg``.

    Returns:
        The folder, which need not exist; None without a home folder.
    """
    if named := os.environ.get(FOLDER_VARIABLE):
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):  # the specification ignores relative paths
        return Path(base) / "radial-vicreg"
    try:
        return Path.home() / ".cache" / "radial-vicreg"
    except RuntimeError:
        return None


def cached(name: str, key: Mapping[str, Any], compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Read numbers from the cache, or compute and keep them.

    Args:
        name: beginning of the file's name, with the folder within the cache.
        key: everything that the numbers depend on, as JSON has it.
        compute: returns the numbers, in dictionaries and lists, as JSON has them.

    Returns:
        The numbers. A file that is damaged or of another key counts as absent, and a cache that cannot be written is
        passed over.
    """
    folder = cache_folder()
    if folder is None:
        return compute()
    wanted = json.loads(json.dumps(key))
    file = folder / f"{name}-{_digest(wanted)[:16]}.json"
    kept = _read(file, wanted)
    if kept is not None:
        return kept
    content = compute()
    with suppress(OSError):
        write_json(file, {"key": wanted, "sha256": _digest(content), "content": content})
    return content


def _read(file: Path, key: object) -> dict[str, Any] | None:
    try:
        stored = json.loads(file.read_bytes())
        if stored["key"] == key and stored["sha256"] == _digest(stored["content"]):
            content: dict[str, Any] = stored["content"]
            return content
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    return None


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
