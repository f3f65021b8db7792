"""Copies of finished runs' results without weights, for example for a repository."""

from __future__ import annotations

import json
from pathlib import Path

from radial_vicreg.errors import UserError
from radial_vicreg.io.files import atomic_file
from radial_vicreg.runs.results import RESULTS, RunResults


def keep_results(run: Path, evidence: Path) -> Path:
    """Copy a finished run's results as ``evidence/<name with identity>/results.json``, in one line of JSON.

    The folder can be read like any folder of runs. An existing copy is kept.

    Args:
        run: the run's folder, ``runs_dir/<name with identity>/<start>``.
        evidence: folder of all copies.

    Returns:
        Path of the copy.

    Raises:
        UserError: the results contain a path of this machine.
        OSError: the copy cannot be written.
    """
    kept = evidence / run.parent.name / RESULTS
    if kept.is_file() or evidence.resolve() in run.resolve().parents:
        return kept
    content = RunResults.read(run / RESULTS).plain()
    refuse_paths_of_this_machine(content, str(run / RESULTS))
    kept.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(kept) as stream:
        stream.write((json.dumps(content, separators=(",", ":"), allow_nan=False) + "\n").encode())
    return kept


def refuse_paths_of_this_machine(content: object, where: str) -> None:
    """Refuse absolute paths, which must not be published, before hours of training.

    Args:
        content: plain containers.
        where: origin of the content, for the message.

    Raises:
        UserError: the content contains an absolute path.
    """
    if (place := _absolute_path(content)) is not None:
        raise UserError(
            f"{where} contains {place}, a path of this machine: --evidence needs paths relative to the working "
            "directory"
        )


def _absolute_path(content: object) -> str | None:
    """Return the first string that is an absolute path; None without any."""
    if isinstance(content, dict):
        content = list(content.values())
    if isinstance(content, list):
        return next((found for item in content if (found := _absolute_path(item)) is not None), None)
    is_path = isinstance(content, str) and content.startswith("/")
    return str(content) if is_path else None
