"""Writing files so that a reader never meets half of one."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any


def write_json(path: str | Path, content: Any) -> Path:
    """Writes JSON atomically: the old file or the whole new one is there, never a part.

    Non-finite floats become ``null``, since ``NaN`` is not JSON and most readers refuse it.

    Args:
        path: target; its folder is created.
        content: dictionaries, lists, strings, numbers, booleans, ``None``.

    Returns:
        The path written.

    Raises:
        TypeError: ``content`` holds something that JSON cannot.
        OSError: the folder cannot be written or the disk is full; the previous file stays as it was.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(_finite(content), indent=2, allow_nan=False) + "\n"
    # Not tempfile's: its files are for their owner alone, and results are for the group.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return path


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
