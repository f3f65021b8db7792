"""Data folders that are either complete or absent: built beside their place, then renamed into it."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from radial_vicreg.data.listing import is_macos_file
from radial_vicreg.errors import UserError
from radial_vicreg.files import claim_output, set_mode

MARKER = "radial_vicreg_data.json"
"""File in a finished folder that says what was written there, ``num_images`` included."""


def is_complete(folder: Path, description: Mapping[str, Any]) -> bool:
    """Tell whether a folder already holds what ``description`` says, all of it.

    Args:
        folder: where it should be.
        description: what to look for; ``num_images`` PNG files belong to it.

    Returns:
        True when nothing is to be done; False when the folder is absent, empty, or ours with files missing.

    Raises:
        UserError: the folder holds something else.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return False
    marker = folder / MARKER
    try:
        found = json.loads(marker.read_text())
    except (OSError, ValueError) as error:
        raise UserError(
            f"{folder} exists and was not prepared by this command ({error}): move it away or choose another"
        ) from error
    if found != dict(description):
        raise UserError(f"{folder} holds {found}, but {dict(description)} was asked for: remove it or choose another")
    expected: int = description["num_images"]
    # macOS may have laid its own files beside them.
    return sum(1 for file in folder.rglob("*.png") if not is_macos_file(file.name)) == expected


def claim_folder(folder: Path) -> Path:
    """Make sure, before a long download or reading, that a data folder can be written in its place.

    Args:
        folder: where it is to be.

    Returns:
        ``folder``.

    Raises:
        UserError: it holds something that no command of ours wrote, or it cannot be written.
    """
    claim_output(folder, "folder")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARKER).is_file():
        raise UserError(f"{folder} exists and was not prepared by this command: move it away or choose another --out")
    return folder


@contextmanager
def staged_folder(folder: Path, description: Mapping[str, Any]) -> Iterator[Path]:
    """Give a temporary sibling to fill, and rename it to ``folder`` when the block ends without an error.

    Args:
        folder: the final place; an unfinished folder of ours there is replaced.
        description: written to the marker.

    Yields:
        The temporary folder.
    """
    folder = folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        yield staging
        (staging / MARKER).write_text(json.dumps(dict(description)) + "\n")
        set_mode(staging, 0o755)  # mkdtemp's 0700 would hide the data from other users
        if folder.exists():
            shutil.rmtree(folder)
        staging.rename(folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
